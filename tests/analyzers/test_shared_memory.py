"""Segments of shared memory that pile up, also those that are in no process's memory."""

from __future__ import annotations

import pytest

from leakscope.analyzers import shared_memory
from leakscope.facts.case import Case
from leakscope.findings import Finding, Subject, in_order

from .asking import asked
from .leaks import PID, trainer

MiB = 1024**2
LOOKS = 40  # every half second
SOURCE = """from multiprocessing import shared_memory
def publish(data):
    segment = shared_memory.SharedMemory(create=True, size=len(data))
    segment.close()
"""


def with_segments(builder, sizes, mapped_by="", name="psm_*", kind="dev-shm"):
    for look, size in enumerate(sizes):
        columns = {"segment_kind": kind, "segment_name": name, "mapped_by": mapped_by}
        unmapped = 0 if mapped_by else size * MiB
        builder.row(
            "shared_segments",
            0.5 * look,
            segment_count=size,
            segment_bytes=size * MiB,
            unmapped_bytes=unmapped,
            **columns,
        )
    return builder


def looked(builder):
    report = asked(builder.open(), only=["shared-memory"])
    return report.findings, report.ruled_out


def test_segments_nobody_maps_are_found_though_the_job_is_flat(tmp_path):
    builder = with_segments(trainer(tmp_path, leak=0), range(LOOKS)).source(PID, "/home/me/publish.py", SOURCE)
    (finding,), _ = looked(builder)
    assert "never unlinked" in finding.title
    assert finding.severity == "critical"
    assert finding.bytes > 25 * MiB
    assert (finding.subject.file, finding.subject.line) == ("/home/me/publish.py", 3)


@pytest.mark.parametrize("mapped_by", ["", str(PID)])
def test_what_no_process_maps_stands_beside_the_accounts_of_processes(tmp_path, mapped_by):
    builder = with_segments(trainer(tmp_path, leak=0), range(LOOKS), mapped_by).source(
        PID, "/home/me/publish.py", SOURCE
    )
    rows = [row for row in Case(builder.open()).ledger if row.account == "unmapped-shared-memory"]
    assert all(row.growth_bytes > 25 * MiB and not row.in_total for row in rows)
    assert bool(rows) is (not mapped_by)


def test_mapped_segments_belong_to_who_maps_them(tmp_path):
    (finding,), _ = looked(with_segments(trainer(tmp_path, leak=0), range(LOOKS), mapped_by=str(PID)))
    assert finding.subject.pid == PID
    assert not finding.doubts


def test_strangers_segments_are_not_the_jobs(tmp_path):
    findings, _ = looked(with_segments(trainer(tmp_path, leak=0), range(LOOKS), name="cache*"))
    assert not findings


SYSTEM_V = """import ctypes
libc = ctypes.CDLL(None)
def send(frame):
    number = libc.shmget(0, len(frame), 0o1600)
    address = libc.shmat(number, None, 0)
"""


@pytest.mark.parametrize(
    ("kind", "line", "remedy"), [("sysv", 4, "shmctl"), ("sysv-removed", 5, "shmdt")], ids=["kept", "removed"]
)
def test_the_line_of_system_v_segments_is_that_of_the_call_to_be_undone(tmp_path, kind, line, remedy):
    builder = with_segments(trainer(tmp_path, leak=0), range(LOOKS), str(PID), f"made by {PID}", kind)
    (finding,), _ = looked(builder.source(PID, "/home/me/send.py", SYSTEM_V))
    assert finding.subject.line == line
    assert remedy in finding.remedy[0]


def test_of_two_calls_that_make_system_v_segments_none_is_blamed(tmp_path):
    builder = with_segments(trainer(tmp_path, leak=0), range(LOOKS), str(PID), f"made by {PID}", "sysv")
    builder.source(PID, "/home/me/send.py", SYSTEM_V).source(PID, "/home/me/receive.py", SYSTEM_V, "receive")
    (finding,), _ = looked(builder)
    assert finding.subject.line is None


@pytest.mark.parametrize(
    ("tracked", "source", "is_found"),
    [(1.0, SOURCE, True), (0.1, SOURCE, False), (0.0, SOURCE.replace("len(data)", "9, track=False"), True)],
    ids=["own", "of-another-job", "taken-off-the-list"],
)
def test_pythons_tracker_knows_whose_segments_they_are(tmp_path, tracked, source, is_found):
    builder = with_segments(trainer(tmp_path, leak=0), range(LOOKS)).source(PID, "/home/me/publish.py", source)
    builder.process(77, role="resource-tracker", ppid=PID)
    for at_s in (1.0, 6.0, 11.0, 16.0):
        size = round(tracked * 2 * at_s * MiB)
        builder.row("tracked_segments", at_s, 77, segment_name="psm_*", segment_count=9, segment_bytes=size)
    findings, _ = looked(builder)
    assert bool(findings) is is_found


@pytest.mark.parametrize(
    "sizes",
    [[40] * LOOKS, [20 + 20 * (n % 2) for n in range(LOOKS)], [min(60, 30 * n) for n in range(LOOKS)]],
    ids=["steady", "each-batch-anew", "buffers-made-once"],
)
def test_innocent_segments_are_ruled_out(tmp_path, sizes):
    findings, (ruled_out,) = looked(with_segments(trainer(tmp_path, leak=0), sizes, mapped_by=str(PID)))
    assert not findings
    assert ruled_out.figures["most_bytes"] == max(sizes) * MiB


def test_a_job_without_segments_says_so(tmp_path):
    _, (ruled_out,) = looked(trainer(tmp_path, leak=0))
    assert ruled_out.reason == "no segment of shared memory was seen"


def test_a_holder_that_was_found_gives_the_segments_their_name_and_line(tmp_path):
    subject = Subject(pid=PID, holder="Learner.trajectories (list)", variable="trajectories", line=36)
    kept = Finding("retained-objects", "kept", "critical", 0.9, 30 * MiB, subject)
    builder = with_segments(trainer(tmp_path), range(LOOKS), mapped_by=str(PID))
    (finding,) = shared_memory.findings(Case(builder.open()), so_far=[kept])
    assert (finding.subject.variable, finding.subject.line) == ("trajectories", 36)
    assert "Learner.trajectories" in finding.title
    assert finding.severity == "critical"
    assert in_order([kept, finding])[0] is finding
