"""What a comparison says: frozen values, whose field names are those of the JSON contract ``leakscope.compare/1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..findings import LEVEL

BETTER, SAME, WORSE, CANNOT_TELL = "better", "same", "worse", "cannot-tell"
EXIT_STATUS = {BETTER: 0, SAME: 0, WORSE: 1, CANNOT_TELL: 4}
GONE, STILL, NEW = "gone", "still", "new"
ONLY_BEFORE, ONLY_AFTER = "only before", "only after"  # found in one run, and not known to be missing in the other
NO_STEADY_GROWTH = "no steady growth"  # of a run that gained something, in steps or until it was full


@dataclass(frozen=True)
class Side:
    """One of the two runs. ``grows`` (in the common range): True, False, or None with the ``reason`` unclear.

    **Units** bytes, bytes per step (None where the runs are not aligned by steps) and per hour; low and high bound the
    rate at 95 %. ``peak_bytes`` is of the whole run, pages that processes share counted once; ``peak_in_range_bytes``
    of the common range and without mapped files.
    """

    path: str
    command: Sequence[str]
    duration_s: float
    ended: str
    headline: str
    process_count: int
    grows: bool | None
    reason: str
    growth_bytes_per_step: float | None
    growth_bytes_per_step_low: float | None
    growth_bytes_per_step_high: float | None
    growth_bytes_per_hour: float | None
    growth_bytes_per_hour_low: float | None
    growth_bytes_per_hour_high: float | None
    peak_bytes: int
    peak_in_range_bytes: int
    wasted_bytes: int
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class FindingChange:
    """A finding of either report, or of both; bytes and place are None where absent.

    ``change`` is still; gone or new, where the other run is known not to have it; else only before or only after.
    ``file`` and ``line`` are those of the newer run in which it stands.
    """

    change: str
    kind: str
    what: str
    severity: str
    wasted: bool
    before_bytes: int | None
    after_bytes: int | None
    file: str | None
    line: int | None


@dataclass(frozen=True)
class WorkerChange:
    """Processes of one role beside the trainer: most at once, and private bytes of one of them on average."""

    role: str
    before_count: int
    after_count: int
    before_bytes_each: int
    after_bytes_each: int


@dataclass(frozen=True)
class BillChange:
    """What one account of the bill was in each run, at its level or at its peak, and when; None: nobody looked."""

    account: str
    before_bytes: int | None
    after_bytes: int | None
    moment: str = LEVEL
    before_s: float | None = None
    after_s: float | None = None


@dataclass(frozen=True)
class Overlay:
    """Memory of both runs at each place of a common axis, steps or seconds; None before a run began or after its end.

    **Units** bytes without mapped files, which the kernel takes back. For drawing: it is not part of the JSON.
    """

    x: Sequence[float]
    before_bytes: Sequence[int | None]
    after_bytes: Sequence[int | None]


@dataclass(frozen=True)
class Comparison:
    """``verdict`` is better, same, worse or cannot-tell; ``aligned_by`` is step or second, the unit of the range.

    The range counts from each run's own first step; by time from there if both counted some, else from its beginning.
    ``smallest_leak``: a difference below it would not have been seen in this pair; None where nothing could be
    measured. ``step_unit``: what a step is, as in a report's verdict.
    """

    verdict: str
    reason: str
    aligned_by: str
    range_start: float
    range_end: float
    smallest_leak_bytes_per_step: float | None
    smallest_leak_bytes_per_hour: float | None
    before: Side
    after: Side
    findings: Sequence[FindingChange] = ()
    workers: Sequence[WorkerChange] = ()
    doubts: Sequence[str] = ()
    overlay: Overlay | None = None
    step_unit: str = "step"
    bill: Sequence[BillChange] = ()


@dataclass(frozen=True)
class Run:
    """One run of a history: its verdict against the first run, and what it found that the run before it did not.

    ``gone``: what only the run before it found. The first run has neither, and no verdict.
    """

    side: Side
    verdict: str | None
    reason: str
    new: Sequence[FindingChange] = ()
    gone: Sequence[FindingChange] = ()


@dataclass(frozen=True)
class RunCurve:
    """Memory of one run along the common axis. For drawing: it is not part of the JSON. **Units** as in Overlay."""

    x: Sequence[float]
    value_bytes: Sequence[int]


@dataclass(frozen=True)
class History:
    """Three or more runs in their order (the JSON contract ``leakscope.history/1``): the last against the first.

    ``since``: the number, from 1, of the run since which each has this verdict; None where it is same or cannot-tell.
    """

    verdict: str
    reason: str
    since: int | None
    aligned_by: str
    smallest_leak_bytes_per_step: float | None
    smallest_leak_bytes_per_hour: float | None
    runs: Sequence[Run]
    doubts: Sequence[str] = ()
    curves: Sequence[RunCurve] = ()
    step_unit: str = "step"
