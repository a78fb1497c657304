"""Descriptors that pile up, named by what they are and where they are opened."""

from __future__ import annotations

import pytest

from leakscope.reporting import analyze

from ..sentences import says
from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer
from .test_native_growth import takes

LOOKS = 40  # every 2 s


def with_files(builder, counts):
    for look, count in enumerate(counts):
        at_s = 2.0 * look
        builder.row("descriptors", at_s, PID, fd_kind="pipe", fd_path=None, open_count=4)
        builder.row("descriptors", at_s + 0.001, PID, fd_kind="file", fd_path="/data/part-N.csv", open_count=count)
    return builder


def looked(builder):
    report = asked(builder.open(), only=["fd-pileup"])
    return report.findings, report.ruled_out


def quiet(tmp_path):
    return trainer(tmp_path, leak=0, fd_count=None)


def test_files_that_are_never_closed_are_found_with_path_and_line(tmp_path):
    text = "def log(n):\n    with open('x') as f:\n        f.read()\n    return open(f'/data/part-{n}.csv', 'w')\n"
    builder = with_files(quiet(tmp_path), [3 * n for n in range(LOOKS)])
    (finding,), _ = looked(builder.source(PID, "/home/me/log.py", text))
    assert finding.subject.path == "/data/part-N.csv"
    assert (finding.subject.file, finding.subject.line) == ("/home/me/log.py", 4)
    assert finding.severity == "warning"


def test_what_was_allocated_for_them_is_no_more_than_the_ledger_has(tmp_path):
    """Samples of a line are an estimate, here of twice what malloc came to have in use."""
    text = "def log(n):\n    return open(f'/data/part-{n}.csv', 'w')\n"
    builder = with_files(takes(sentinels(trainer(tmp_path, fd_count=None))), [9 * n for n in range(LOOKS // 4)])
    for at_s in (5, 10, 15, 20):
        builder.row(
            "allocation_stacks", at_s, PID, allocator="malloc", stack="/home/me/log.py:2 log",
            owner_file="/home/me/log.py", owner_line=2, function="log", live_bytes=at_s * 2 * LEAK_BYTES_PER_S,
            settled_bytes=at_s * LEAK_BYTES_PER_S, sample_count=40, error_bytes=at_s * MiB,
            asked_bytes=at_s * 3 * LEAK_BYTES_PER_S,
        )  # fmt: skip
    report = analyze(builder.source(PID, "/home/me/log.py", text).open())
    (finding,) = [one for one in report.findings if one.kind == "fd-pileup"]
    native = sum(row.growth_bytes for row in report.ledger if row.account in ("native", "native-held"))
    assert 0 < finding.bytes == native < 40 * LEAK_BYTES_PER_S
    assert not [one for one in report.findings if one.kind == "native-growth"]


@pytest.mark.parametrize(
    "counts",
    [
        [12] * LOOKS,
        [10 + 30 * (n % 2) for n in range(LOOKS)],  # logs that are rotated, files of a batch
        [min(60, 30 * n) for n in range(LOOKS)],  # the shards of a data set, opened once
    ],
    ids=["steady", "rotated", "opened-once"],
)
def test_innocent_descriptors_are_ruled_out(tmp_path, counts):
    findings, (ruled_out,) = looked(with_files(quiet(tmp_path), counts))
    assert not findings
    assert ruled_out.figures["most_descriptors"] == max(counts) + 4


STORE = """
import mmap

class Reader:
    def __init__(self, path):
        with open(path, "rb") as source:
            self.view = mmap.mmap(source.fileno(), 0)

class Store:
    def __init__(self):
        self.readers = {}

    def roll(self, number, path):
        self.readers[number] = Reader(path)
"""


def test_the_container_of_a_wrapper_is_named_with_the_line_that_keeps(tmp_path):
    builder = with_files(quiet(tmp_path), [3 * n for n in range(LOOKS)])
    builder.source(PID, "/home/me/store.py", STORE)
    common = {"root_kind": "frame", "owner_module": "__main__", "owner_file": "/home/me/store.py", "is_user": True}
    for number, at_s in enumerate((4, 9, 14, 19), 1):
        count = {"object_count": 1.5 * at_s, "deep_bytes": 8192 * at_s}
        readers = {"path": "main() store.readers", "variable": "readers", "owner": "Store", "edge_kind": "attribute"}
        item = {"path": "main() store.readers[*]", "parent_path": readers["path"], "edge_kind": "item"}
        view = {"path": "main() store.readers[*].view", "parent_path": item["path"], "edge_kind": "attribute"}
        rows = [
            {"path": "main() store", "variable": "store", "owner": "main", "edge_kind": "local", "object_count": 1.0},
            {**readers, "parent_path": "main() store", "type_name": "dict", "object_count": 1.0, "length": 1.5 * at_s},
            {**item, **count, "variable": "readers", "owner": "Store", "type_name": "__main__.Reader"},
            {**view, **count, "variable": "view", "owner": "Reader", "type_name": "mmap.mmap"},
        ]
        builder.take(PID, number, at_s, holders=[{"type_name": "__main__.Store", **common, **row} for row in rows])
    (finding,), _ = looked(builder)
    assert finding.subject.variable == "readers" and "Store.readers (dict)" in finding.subject.holder
    assert finding.subject.function == "Store.roll"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("statements", "variable"),
    [
        (["self.log = open(path)"], "log"),
        (["file = open(path)", "self.files.append(file)"], "files"),
        (["self.last = open(path)", "self.files[path] = self.last"], "files"),
        (["file = open(path)", "print(file.read())"], None),
    ],
    ids=["attribute", "list", "both", "nowhere"],
)
def test_without_an_inventory_the_source_says_where_they_are_put(tmp_path, statements, variable):
    body = "".join(f"        {statement}\n" for statement in statements)
    text = f"class Log:\n    def rotate(self, path):\n{body}"
    builder = with_files(quiet(tmp_path), [3 * n for n in range(LOOKS)])
    (finding,), _ = looked(builder.source(PID, "/home/me/log.py", text))
    assert finding.subject.variable == variable
    assert finding.subject.line == 3


LINKS = """
class Link:
    def __init__(self, address):
        self.file = open(address)

class Gateway:
    def __init__(self):
        self.links = []

    def open(self, address):
        link = Link(address)
        self.links.append(link)

def main():
    gateway = Gateway()
    while True:
        gateway.open(next_address())
"""


def test_objects_that_open_one_each_are_followed_to_what_keeps_them(tmp_path):
    """The inventory shows the objects of the program's own class, not the files in them; its methods are none."""
    builder = with_files(quiet(tmp_path), [3 * n for n in range(LOOKS)])
    builder.source(PID, "/home/me/links.py", LINKS)
    common = {"root_kind": "frame", "owner_module": "__main__", "owner_file": "/home/me/links.py", "is_user": True}
    links = {"path": "main() gateway.links", "variable": "links", "owner": "Gateway"}
    for number, at_s in enumerate((4, 9, 14, 19), 1):
        rows = [
            {"path": "main() gateway", "variable": "gateway", "owner": "main", "edge_kind": "local"},
            {**links, "parent_path": "main() gateway", "edge_kind": "attribute", "type_name": "list"},
            {**links, "path": "main() gateway.links[*]", "parent_path": links["path"], "edge_kind": "item"},
        ]
        rows[2] |= {"type_name": "__main__.Link", "object_count": 1.5 * at_s}
        default = {"type_name": "__main__.Gateway", "object_count": 1.0, "deep_bytes": 8192 * at_s, **common}
        builder.take(PID, number, at_s, holders=[{**default, **row} for row in rows])
    (finding,), _ = looked(builder)
    assert finding.subject.variable == "links" and "Gateway.links (list)" in finding.subject.holder
    assert finding.subject.function == "Gateway.open"


def test_a_kind_that_is_a_few_of_many_is_not_named(tmp_path):
    builder = quiet(tmp_path)
    for look in range(LOOKS):
        for number in range(3 * look):  # each of a kind of its own
            columns = {"fd_kind": f"kind-{number}", "fd_path": None, "open_count": 1}
            builder.row("descriptors", 2.0 * look + 0.0001 * number, PID, **columns)
    (finding,), _ = looked(builder)
    assert finding.subject.type is None and finding.subject.path is None
    assert says(finding.title, "Descriptors")


def test_descriptors_of_segments_that_pile_up_are_no_second_cause(tmp_path):
    builder = quiet(tmp_path)
    for look in range(LOOKS):
        at_s = 2.0 * look
        columns = {"segment_kind": "dev-shm", "segment_name": "psm_*", "mapped_by": str(PID), "unmapped_bytes": 0}
        builder.row("shared_segments", at_s, segment_count=3 * look, segment_bytes=3 * look * 2**20, **columns)
        builder.row("descriptors", at_s, PID, fd_kind="shared-memory", fd_path="/dev/shm/psm_*", open_count=3 * look)
    report = asked(builder.open(), only=["fd-pileup", "shared-memory"])
    assert [finding.kind for finding in report.findings] == ["shared-memory"]
    (finding,), _ = looked(builder)  # where nobody looked at the segments themselves
    assert says(finding.title, "shared memory") and not any(says(text, "with statement") for text in finding.remedy)


def test_a_look_that_came_as_the_process_ended_hides_nothing(tmp_path):
    builder = with_files(quiet(tmp_path), [6 * n for n in range(9)])
    builder.row("descriptors", 19.9, PID, fd_kind="pipe", fd_path=None, open_count=4)
    builder.note(PID, 19.0, "exit", "")
    (finding,), _ = looked(builder)
    assert finding.subject.path == "/data/part-N.csv"
