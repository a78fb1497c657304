"""What is said of a job of many ranks: frozen values, with the field names of the contract ``leakscope.job/1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..findings import Excerpt, Finding

BOOT, EVENTS, WALL, ALONE = "boot-clock", "steps", "wall-clock", "alone"


@dataclass(frozen=True)
class RankRow:
    """One rank. ``leaking``: True, False, or None with the ``reason`` why unclear; of the others its headline.

    ``path`` is its recording, which other ranks of its node may share. ``offset_s`` puts a moment of that recording on
    the job's axis. ``fingerprints`` are those of its findings, in order. ``odd``: how its memory differs from that of
    its siblings; None where it does not.

    **Units** seconds, bytes. ``value_bytes``: memory at each moment of the job's axis, None where it was not recorded.
    """

    rank: int
    node: str
    path: str
    leaking: bool | None
    killed: bool
    reason: str
    ended: str
    exit_code: int | None
    signal: int | None
    duration_s: float
    growth_bytes: int
    growth_bytes_per_hour: float | None
    growth_bytes_per_step: float | None
    peak_bytes: int
    wasted_bytes: int
    offset_s: float
    steps: int | None = None
    attempt: int | None = None
    fingerprints: Sequence[str | None] = ()
    odd: str | None = None
    value_bytes: Sequence[int | None] = ()


@dataclass(frozen=True)
class Account:
    """Where the growth of the ranks of one node went. **Units** bytes; the accounts sum to what they gained."""

    account: str
    start_bytes: int
    end_bytes: int
    growth_bytes: int
    estimated: bool = False


@dataclass(frozen=True)
class NodeRow:
    """A machine, and how its clock was brought in line with that of the first one.

    ``aligned_by``: steps (steps and marks that both passed: ``shared_count`` of them, which agree within ``spread_s``),
    boot-clock (the same machine), wall-clock (nothing else is shared), or alone (there is no other machine).
    ``wall_off_s``: how far its wall clock was ahead of that of the first machine, where that could be told.
    """

    node: str
    ranks: Sequence[int]
    aligned_by: str
    shared_count: int = 0
    spread_s: float | None = None
    wall_off_s: float | None = None
    growth_bytes: int = 0
    peak_bytes: int = 0
    ledger: Sequence[Account] = ()


@dataclass(frozen=True)
class Cluster:
    """One finding, on all the ranks that have it: they share its fingerprint. ``finding``: of the rank in the middle.

    **Units** bytes, of all these ranks together and of the one in the middle.
    """

    fingerprint: str | None
    kind: str
    title: str
    severity: str
    ranks: Sequence[int]
    nodes: Sequence[str]
    bytes: int
    median_bytes: int
    finding: Finding
    excerpt: Excerpt | None = None


@dataclass(frozen=True)
class JobVerdict:
    """``leaking``: True: a rank leaks; False: all were looked at, and none does; None: unclear."""

    leaking: bool | None
    killed: bool
    headline: str
    leaking_ranks: Sequence[int] = ()
    steady_ranks: Sequence[int] = ()
    unclear_ranks: Sequence[int] = ()
    killed_ranks: Sequence[int] = ()
    missing_ranks: Sequence[int] = ()
    unclear: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class JobReport:
    """The whole answer to the recordings of one job. ``time_s`` is its axis: seconds since the first began.

    ``rest``: recordings that are not told of rank by rank, each with the reason.
    """

    job: str | None
    command: Sequence[str]
    started_at: str
    world_size: int | None
    duration_s: float
    verdict: JobVerdict
    ranks: Sequence[RankRow]
    nodes: Sequence[NodeRow]
    clusters: Sequence[Cluster]
    time_s: Sequence[float] = ()
    rest: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
