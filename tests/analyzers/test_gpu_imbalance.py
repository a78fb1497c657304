"""Ranks of one job, by a memory snapshot of each."""

from __future__ import annotations

import pytest

from leakscope import open_recording
from leakscope.importing import import_files
from tests.importing.allocator import Device, GiB, called, dump, snapshot, train
from tests.sentences import says

from .asking import asked


@pytest.fixture
def ranks(tmp_path):
    """The report on some ranks, of which the last has so much more."""

    def tell(more):
        files = []
        for rank in range(3):
            device = Device(rank)
            train(device, 2)
            if rank == 2 and more:
                device.alloc(more, called(77))
            files.append(dump(tmp_path / f"snapshot_rank{rank}.pickle", snapshot(device)))
        return asked(open_recording(import_files(files, tmp_path / "run.parquet").path), only=["gpu-imbalance"])

    return tell


def test_a_rank_that_holds_more_is_named_with_its_line(ranks):
    (finding,) = ranks(2 * GiB).findings
    assert (finding.subject.process, finding.subject.line) == ("rank 2", 77)
    assert finding.bytes == pytest.approx(2 * GiB, rel=0.2)


def test_ranks_that_are_alike_are_in_balance(ranks):
    report = ranks(0)
    assert not report.findings and says(report.ruled_out[0].reason, "3 processes")
