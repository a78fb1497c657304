"""The line to edit, and what its owner can do there, of containers that libraries have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope import analyze
from leakscope.facts.heap.owners import user_place
from leakscope.facts.heap.place import Place, Reference
from leakscope.facts.where.holders import holder_name
from leakscope.findings import Finding
from tests.sentences import says

from .test_retained import MB, TAKES_S, first, growing_run, history, place

LIBRARY: dict[str, Any] = {"owner_file": None, "is_user": False, "owner_module": "busline.hub", "owner": "Hub"}


def told(folder: Path, source: str, holders: Any, allocated: Any = ()) -> Finding:
    """``allocated``: of each line, its function, the allocator and MB a second."""
    builder = growing_run(folder, source)
    for number, at_s in enumerate(TAKES_S, 1):
        rss = 50 * MB + round(at_s * 10 * MB)
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=rss)
        for line, function, allocator, rate in allocated:
            live = int(at_s * rate * MB)
            stack = f"/job/train.py:{line} {function}"
            builder.allocated(100, at_s, live, stack, sample_count=int(20 * at_s), allocator=allocator)
    return first(analyze(builder.ends(24.0, exit_code=0).open()))


ONCE = """import busline

busline.configure(level=3)
bus = busline.Bus()


def main():
    while True:
        bus.inject({})
"""


def processors(f: float) -> list[dict[str, Any]]:
    """A library's list of a million small functions."""
    deep, count, root = 240 * MB * f, 1_000_000 * f, {"root_kind": "module", **LIBRARY}
    path = "busline.hub.processors"
    return [
        place("busline.hub", deep, parent=None, type_name="module", **root),
        place(path, deep, length=count, member_type="function", edge_kind="global", **root),
        place(path + "[*]", deep, parent=path, edge_kind="item", type_name="function", object_count=count, **root),
    ]


def test_what_ran_once_as_a_module_was_imported_adds_no_million_members(tmp_path: Path) -> None:
    """What its imports ask of malloc is far more than the small objects of which samples see some."""
    allocated = [(3, "<module>", "malloc", 5), (9, "main", "objects", 0.1)]
    assert told(tmp_path, ONCE, processors, allocated).subject.line == 9


TRIALS = """import tunelib


def objective(trial):
    scores = predict(trial)
    trial.set_user_attr("model", scores)
    trial.set_user_attr("scores", scores)
    return trial.get("scores", 0)


def main():
    study = tunelib.create_study()
    study.optimize(objective)
"""


def trials(f: float) -> list[dict[str, Any]]:
    deep, count = 240 * MB * f, 200 * f
    root, path = "main() study", "main() study._storage.trials"
    library = {**LIBRARY, "owner_module": "tunelib.storage", "owner": "Storage"}
    kind = {"object_count": count, **library}
    return [
        place(root, deep, type_name="tunelib.Study"),
        place(f"{root}._storage", deep, type_name="tunelib.Storage", **library),
        place(path, deep, length=count, member_type="tunelib.Trial", **library),
        place(f"{path}[*]", deep * 0.99, parent=path, edge_kind="item", type_name="tunelib.Trial", **kind),
        place(f"{path}[*].attrs", deep * 0.98, parent=f"{path}[*]", type_name="dict", length=2, **kind),
        place(f"{path}[*].attrs['scores']", deep * 0.97, parent=f"{path}[*].attrs", edge_kind="item",
              type_name="numpy.ndarray", **kind),
    ]  # fmt: skip


def test_of_a_librarys_records_the_line_is_named_that_stores_what_weighs_in_them(tmp_path: Path) -> None:
    found = told(tmp_path, TRIALS, trials)
    assert (found.subject.variable, found.subject.line) == ("study", 7)
    assert any(says(one.text, "most of each member", "attrs['scores'] (numpy.ndarray)") for one in found.evidence)
    assert says(found.remedy[0], "train.py:7", "attrs['scores']", "store less")


FIRST_APART = """import wide


class History:
    def __init__(self):
        self.parts = []

    def add(self, part):
        self.parts.append(part)


def main(seconds):
    history = History()
    history.parts.append(wide.first())
    for _ in range(seconds):
        history.add(wide.part())
"""


def test_a_line_that_ran_once_fills_nothing_though_all_is_allocated_under_main(tmp_path: Path) -> None:
    """What a library makes on its way back to main() is no sign of who keeps it."""

    def parts(f: float) -> list[dict[str, Any]]:
        size = 240 * MB * f
        return [place("main() history.parts", size, length=900 * f, member_type="wide.Part", array_deep_bytes=size)]

    found = told(tmp_path, FIRST_APART, parts, [(16, "main", "malloc", 6)])
    assert found.subject.line == 9


def test_a_string_that_is_made_anew_each_time_grows_with_what_it_is_made_of(tmp_path: Path) -> None:
    source = "def main():\n    rows = []\n    while True:\n        rows.append(read())\n        text = dump(rows)\n"

    def holders(f: float) -> list[dict[str, Any]]:
        listed = [place("main() rows", 100 * MB * f, length=900 * f, member_type="Row")]
        return [*listed, place("main() text", 130 * MB * f, type_name="bytes")]

    builder = growing_run(tmp_path, source)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open(), only=["retained-objects"])
    assert [one.subject.variable for one in report.findings] == ["rows"]


def test_a_string_that_a_line_adds_to_is_a_holder(tmp_path: Path) -> None:
    source = "def main():\n    text = ''\n    while True:\n        text += read()\n"
    found = told(tmp_path, source, lambda f: [place("main() text", 230 * MB * f, type_name="str")])
    assert (found.subject.variable, found.subject.line) == ("text", 4)


@pytest.mark.parametrize("is_there_before", [False, True])
def test_locals_of_a_call_that_ran_at_the_last_snapshot_are_no_growth(tmp_path: Path, is_there_before: bool) -> None:
    """Of a library: what it works with is gone as it returns."""

    def holders(f: float) -> list[dict[str, Any]]:
        local = {**LIBRARY, "owner": "scrape", "edge_kind": "local"}
        is_there = f > 0.9 or is_there_before
        work = [place("scrape() samples", 130 * MB * f, length=9000 * f, **local)] if is_there else []
        return [*history(90 * MB * f, 2000 * f), *work]

    builder = growing_run(tmp_path)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open(), only=["retained-objects"])
    assert ("samples" in [one.subject.variable for one in report.findings]) is is_there_before
    assert "history" in [one.subject.variable for one in report.findings]


def test_a_registry_of_finalizers_gives_no_name_to_what_is_reached_by_it() -> None:
    """What it leads to is somebody's: the class of the nearest object says whose."""
    zeros = np.zeros(3)
    above = None
    kinds = ("dict", "multiprocessing.util.Finalize", "kombu.QoS", "collections.OrderedDict")
    for number, kind in enumerate(kinds):
        registry = Reference("global", "_finalizer_registry", None, "multiprocessing.util")
        here = Place(f"p{number}", kind, registry if above is None else Reference(), zeros, zeros, zeros)
        here.parent = here.named_by = above
        above = here
    assert above is not None
    assert user_place(above) is above
    assert holder_name(above) == "QoS (OrderedDict)"


BANK = """class Bank:
    def __init__(self):
        self.rows = {made}

    def add(self, key, row):
        {first}
        {second}

    def latest(self, key):
        return [float(row) for row in self.rows[key][-9:]]


def main():
    bank = Bank()
    while True:
        bank.add("a", Row())
"""


@pytest.mark.parametrize(
    ("made", "first_line", "second_line", "line"),
    [
        ("{}", "donors = self.rows.setdefault(key, [])", "donors.append(row)", 7),
        ("{}", "donors = self.rows.get(key)", "donors.append(row)", 7),
        ("defaultdict(list)", "donors = self.rows[key]", "donors.append(row)", 7),
        ("defaultdict(list)", "self.rows[key].append(row)", "return row", 6),
    ],
    ids=["setdefault", "get", "key", "direct"],
)
def test_of_lists_in_a_dict_that_grow_the_line_is_the_one_that_adds_to_a_list(
    tmp_path: Path, made: str, first_line: str, second_line: str, line: int
) -> None:
    """The dict has as many as before: what makes entries in it, or reads one, adds nothing."""
    kind = "dict" if made == "{}" else "collections.defaultdict"

    def holders(f: float) -> list[dict[str, Any]]:
        inside = {"parent": "main() bank.rows", "edge_kind": "item", "type_name": "list", "member_type": "Row"}
        return [
            place("main() bank", 240 * MB * f, type_name="__main__.Bank"),
            place("main() bank.rows", 240 * MB * f, length=3, type_name=kind, owner="Bank", member_type="list"),
            *(place(f"main() bank.rows['{key}']", 80 * MB * f, length=700 * f, **inside) for key in "abc"),
        ]

    found = told(tmp_path, BANK.format(made=made, first=first_line, second=second_line), holders)
    own = [e.text for e in found.evidence if ": " in e.text and " adds: " in e.text]
    assert found.subject.line == line and not any(":10 adds" in text for text in own), own
    assert says(found.remedy[0], "[:-N]", f"train.py:{line}") and "delete each entry" not in found.remedy[0]


CLEARED = """class Audit:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        {guard}:
            {remove}


def main():
    audit = Audit()
    while True:
        audit.add(Row())
"""


@pytest.mark.parametrize(
    ("guard", "remove", "said"),
    [
        ("if row.is_last", "self.rows.clear()", "empties Audit.rows only if row.is_last (train.py:7)"),
        ("for row in old()", "self.rows.clear()", "less often than they are added"),
        ("for row in old()", "self.rows.remove(row)", "less often than they are added"),
        ("if not len(self.rows) < 99", "self.rows.clear()", "less often than they are added"),
    ],
)
def test_why_members_stay_is_told_by_what_stands_round_the_line_that_removes_them(
    tmp_path: Path, guard: str, remove: str, said: str
) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        own = {"owner": "Audit"}
        return [
            place("main() audit", 240 * MB * f, type_name="__main__.Audit"),
            place("main() audit.rows", 240 * MB * f, length=2000 * f, member_type="Row", **own),
        ]

    found = told(tmp_path, CLEARED.format(guard=guard, remove=remove), holders)
    assert [said in advice for advice in found.remedy] == [True]
    assert says(found.remedy[0], "train.py:8", "train.py:6")
    assert found.mechanism == "removal-not-reached"


def test_nothing_is_removed_too_seldom_from_what_does_not_become_longer(tmp_path: Path) -> None:
    """Two readers are too slow, and each has a buffer that grows."""
    source = """class Feed:
    def __init__(self):
        self.readers = set()

    def join(self, writer):
        self.readers.add(writer)

    def leave(self, writer):
        self.readers.discard(writer)

    def send(self, frame):
        for writer in self.readers:
            writer.write(frame)


def main():
    feed = Feed()
    while True:
        feed.send(frame())
"""

    def holders(f: float) -> list[dict[str, Any]]:
        deep, library = 240 * MB * f, {**LIBRARY, "owner_module": "asyncio.selector_events", "owner": "_Transport"}
        path = "main() feed.readers.<StreamWriter>"
        return [
            place("main() feed", deep, type_name="__main__.Feed"),
            place("main() feed.readers", deep, length=2, type_name="set", owner="Feed"),
            place(path, deep, parent="main() feed.readers", edge_kind="reference", variable=None,
                  type_name="asyncio.streams.StreamWriter", is_user=False),
            place(f"{path}._transport", deep, parent=path, type_name="asyncio.selector_events._SelectorSocketTransport",
                  **library),
            place(f"{path}._transport._buffer", deep, parent=f"{path}._transport", type_name="bytearray", **library),
        ]  # fmt: skip

    found = told(tmp_path, source, holders)
    assert says(" ".join(found.remedy), "drain()")
    assert not says(" ".join(found.remedy), "not find the key")


def test_nobody_is_told_to_bound_what_only_a_library_can(tmp_path: Path) -> None:
    def locks(f: float) -> list[dict[str, Any]]:
        *above, members = processors(f)
        return [*above, {**members, "type_name": "_thread.lock"}]

    found = told(tmp_path, ONCE, locks, [(9, "main", "objects", 0.1)])
    assert says(found.remedy[0], "busline keeps one more", "train.py:9")
    assert not any(says(advice, "bound it") for advice in found.remedy)
    assert says(found.remedy[1], "newer busline")
