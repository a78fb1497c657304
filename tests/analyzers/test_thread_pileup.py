"""Threads that pile up: counted from outside, named from inside, told from a pool that is merely filled."""

from __future__ import annotations

import pytest

from leakscope.analyzers import analyze

from .leaks import PID, trainer

COUNT = 80
RISING = [5 + i for i in range(COUNT)]


def with_pollers(builder, **columns):
    for number, at_s in enumerate((4, 9, 17), 1):
        poller = {"function": "FeedPoller.run", "owner_file": "/home/me/rates.py", "owner_line": 16}
        other = {"function": "main", "owner_file": "/home/me/rates.py", "owner_line": 50, "object_count": 1.0}
        builder.take(PID, number, at_s, threads=[other, {**poller, "object_count": 20.0 * number}], **columns)
    return builder


def looked(recording):
    report = analyze(recording, only=["thread-pileup"])
    return report.findings, report.ruled_out


def test_threads_that_never_end_are_found_and_named(tmp_path):
    (finding,), _ = looked(with_pollers(trainer(tmp_path, thread_count=RISING)).open())
    assert "FeedPoller.run" in finding.title
    assert finding.subject.file == "/home/me/rates.py"
    assert finding.subject.function == "FeedPoller.run"
    assert finding.evidence[0].figures["last_count"] == RISING[-1]
    assert finding.bytes > 100 * 2**20


def test_they_are_found_from_outside_too(tmp_path):
    (finding,), _ = looked(trainer(tmp_path, thread_count=RISING).open())
    assert finding.doubts == ["the threads were counted from outside: what they run is not known"]


def test_growth_that_others_hold_is_not_theirs(tmp_path):
    builder = with_pollers(trainer(tmp_path, thread_count=RISING))
    for number in (1, 2, 3):
        root = {"path": "FeedPoller.run()", "root_kind": "thread", "deep_bytes": 1000 * number}
        builder.row("holders", 4.0 * number, PID, take=number, **root)
    (finding,), _ = looked(builder.open())
    assert finding.bytes < 10 * 2**20
    assert finding.severity == "warning"


def test_a_pile_is_reported_before_it_costs_memory(tmp_path):
    (finding,), _ = looked(trainer(tmp_path, leak=0, thread_count=RISING).open())
    assert finding.bytes == 0
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    "counts",
    [
        [4] * COUNT,
        [min(40, 4 + 2 * i) for i in range(COUNT)],  # a pool of 40 that is full after 5 s
        [4 + (i // 10 % 2) * 30 for i in range(COUNT)],  # a pool per epoch, ended with it
        [100 + i // 10 for i in range(COUNT)],  # 8 more beside 100
    ],
    ids=["steady", "pool", "pool-per-epoch", "few"],
)
def test_innocent_threads_are_ruled_out_with_their_number(tmp_path, counts):
    findings, (ruled_out,) = looked(trainer(tmp_path, thread_count=counts).open())
    assert not findings
    assert ruled_out.figures["most_threads"] == max(counts)
