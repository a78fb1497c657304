"""Descriptors that pile up, named by what they are and where they are opened."""

from __future__ import annotations

import pytest

from leakscope.analyzers import analyze

from .leaks import PID, trainer

LOOKS = 40  # every 2 s


def with_files(builder, counts):
    for look, count in enumerate(counts):
        at_s = 2.0 * look
        builder.row("descriptors", at_s, PID, fd_kind="pipe", fd_path=None, open_count=4)
        builder.row("descriptors", at_s + 0.001, PID, fd_kind="file", fd_path="/data/part-N.csv", open_count=count)
    return builder


def looked(builder):
    report = analyze(builder.open(), only=["fd-pileup"])
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
