"""What would have fitted: the smallest set of changes, the free ones first, as a sum of bytes."""

from __future__ import annotations

from pathlib import Path

from leakscope.evidence.enough import remedy
from leakscope.facts.case import Case
from leakscope.findings import Finding, Subject

from ..builders import RecordingBuilder
from ..sentences import says

MB = 1_000_000


def case(folder: Path, worker_mb: int = 0, workers: int = 0) -> Case:
    builder = RecordingBuilder(folder).process(100, role="trainer").samples(100, rss=[800 * MB] * 30)
    for pid in range(200, 200 + workers):
        builder.process(pid, role="dataloader-worker").samples(pid, rss=[worker_mb * MB] * 30)
    return Case(builder.ends(30.0, exit_code=0).open())


def wasted(holder: str, mb: int, kind: str = "held-memory", pid: int | None = None) -> Finding:
    return Finding(kind, holder, "warning", 0.9, mb * MB, Subject(holder=holder, pid=pid), wasted=True)


def test_the_largest_waste_alone_may_be_enough(tmp_path: Path) -> None:
    told = remedy(case(tmp_path), [wasted("Data.clean", 100), wasted("Data.raw", 400)], 600 * MB)
    assert told is not None
    assert says(told, "Data.raw", "381 MiB", "763 MiB", "572 MiB") and "Data.clean" not in told


def test_fewer_workers_come_after_what_costs_nothing(tmp_path: Path) -> None:
    told = remedy(case(tmp_path, worker_mb=100, workers=6), [wasted("Data.raw", 200)], 900 * MB)
    assert told is not None
    assert told.index("Data.raw") < told.index("2 workers instead of 6")
    assert says(told, "191 MiB", "381 MiB")  # four workers less, each 95.4 MiB


def test_what_workers_free_is_counted_once(tmp_path: Path) -> None:
    """All that six forks have is copies of rows: without these, fewer workers save nothing."""
    copies = wasted("Captions.rows in each worker", 600, "dataloader-workers", pid=200)
    told = remedy(case(tmp_path, worker_mb=100, workers=6), [copies], 100 * MB)
    assert told is not None
    assert "Captions.rows" in told and "workers instead" not in told


def test_what_fits_needs_no_change(tmp_path: Path) -> None:
    assert remedy(case(tmp_path), [wasted("Data.raw", 400)], 2000 * MB) is None
