"""What every form of a job's report says alike: the tables' rows, how clocks were brought in line, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..comparing import WORDS, Comparison
from ..facts.processes.ranks import named_ranks as named
from ..units import format_bytes, format_duration, format_per_step, format_rate, over
from ._comparing import JobComparison, RankComparison
from ._job import BOOT, EVENTS, WALL, Cluster, JobReport, NodeRow, RankRow

_SAID = {True: "leaks", False: "steady", None: "cannot tell"}
_SHOWN_RANKS, _SHOWN_NODES = 16, 8
_WORTH_TELLING_S = 1.0  # of a wall clock that is off

RANK_HEADS = ("rank", "node", "verdict", "growth", "peak", "finding")
NODE_HEADS = ("node", "ranks", "growth", "peak", "most of it", "clock")
PAIR_HEADS = ("rank", "after", "growth before", "growth after", "peak before", "peak after")


def facts(job: JobReport) -> str:
    """``4 ranks on 2 nodes, 1 min 02 s, together 1.1 GiB at the most``."""
    count, nodes = len(job.ranks), len(job.nodes)
    known = [[value or 0 for value in row.value_bytes] for row in job.ranks if row.value_bytes]
    most = max(map(sum, zip(*known)), default=0)
    parts = [
        f"{count} rank{'s' if count != 1 else ''} on {nodes} node{'s' if nodes != 1 else ''}",
        format_duration(job.duration_s),
        f"together {format_bytes(most)} at the most",
    ]
    return ", ".join([*([f"job {job.job}"] if job.job else []), *parts])


def shown_ranks(job: JobReport) -> tuple[list[RankRow], int]:
    """All of them where they are few; else those that leak, were killed, are odd or unclear, and how many are not."""
    if len(job.ranks) <= _SHOWN_RANKS:
        return list(job.ranks), 0
    told = [row for row in job.ranks if row.leaking is not False or row.killed or row.odd]
    told = sorted(told, key=lambda row: (row.leaking is not True, not row.killed, -row.growth_bytes))[:_SHOWN_RANKS]
    return told, len(job.ranks) - len(told)


def others(job: JobReport, count: int) -> str:
    """What the table of ranks leaves out, in a sentence; empty where that is nothing."""
    quiet = sum(row.leaking is False and not row.killed and not row.odd for row in job.ranks)
    return f"and {count} more{', which are steady' if count == quiet else ' (-f json has all)'}" if count else ""


def rank_cells(job: JobReport, row: RankRow) -> list[str]:
    """One row of the table of ranks."""
    verdict = _SAID[row.leaking] + (", killed" if row.killed else "")
    growth = format_bytes(row.growth_bytes, signed=True)
    if row.leaking and row.growth_bytes_per_hour is not None:
        growth += (
            f" ({format_rate(row.growth_bytes_per_hour, 3600 * over(row.growth_bytes, row.growth_bytes_per_hour))})"
        )
    own = row.fingerprints[:1]
    first = next((c for c in job.clusters if own == [c.fingerprint] and row.rank in c.ranks), None)
    what = "" if first is None else f"{first.finding.subject.holder or first.kind}"  # amounts are of one
    said = [what, row.odd or ""]
    return [str(row.rank), row.node, verdict, growth, format_bytes(row.peak_bytes), "; ".join(filter(None, said))]


def shown_nodes(job: JobReport) -> tuple[list[NodeRow], int]:
    """Those that gained most, and how many others there are."""
    if len(job.nodes) <= _SHOWN_NODES:
        return list(job.nodes), 0
    return sorted(job.nodes, key=lambda row: -row.growth_bytes)[:_SHOWN_NODES], len(job.nodes) - _SHOWN_NODES


def node_cells(row: NodeRow) -> list[str]:
    """One row of the table of nodes."""
    grown = [one for one in row.ledger if one.growth_bytes > 0][:2]
    most = ", ".join(f"{one.account} {format_bytes(one.growth_bytes, signed=True)}" for one in grown)
    figures = [format_bytes(row.growth_bytes, signed=True), format_bytes(row.peak_bytes)]
    return [row.node, named(row.ranks).split(" ", 1)[1], *figures, most, clock(row)]


def clock(row: NodeRow) -> str:
    """How it was brought in line."""
    if row.aligned_by == EVENTS:
        within = f", within {format_duration(row.spread_s)}" if row.spread_s is not None else ""
        return f"by {row.shared_count} shared steps and marks{within}"
    return {BOOT: "the first node's", WALL: "by wall clock"}.get(row.aligned_by, "one node")


def clock_notes(job: JobReport) -> Iterator[str]:
    """Wall clocks that are wrong, and machines that share nothing else."""
    for row in job.nodes:
        if row.wall_off_s is not None and abs(row.wall_off_s) >= _WORTH_TELLING_S:
            ahead = "ahead of" if row.wall_off_s > 0 else "behind"
            amount = format_duration(abs(row.wall_off_s))
            yield f"the wall clock of {row.node} is {amount} {ahead} that of {job.nodes[0].node}: steps set the axis"
    by_wall = [row.node for row in job.nodes if row.aligned_by == WALL]
    if by_wall:
        some = ", ".join(by_wall[:4]) + (", …" if len(by_wall) > 4 else "")
        yield f"no steps are shared with {some}: moments there are placed by wall clocks, which may be off by seconds"


def rest(job: JobReport) -> Iterator[str]:
    """Recordings that were left out."""
    for path, why in job.rest.items():
        yield why if path in why else f"{path}: {why}"


def cluster_ranks(job: JobReport, cluster: Cluster) -> str:
    """``rank 2 of 4``, ``all 4 ranks``, ``312 ranks (0-311) of 512``."""
    count = len(job.ranks)
    if len(cluster.ranks) == count:
        return f"all {count} ranks" if count > 1 else "the only rank"
    return f"{named(cluster.ranks)} of {count}"


def cluster_amount(cluster: Cluster) -> str:
    """Bytes of all ranks, and of the one in the middle where they are several."""
    if len(cluster.ranks) == 1:
        return format_bytes(cluster.bytes)
    return f"{format_bytes(cluster.bytes)} in all, {format_bytes(cluster.median_bytes)} on the rank in the middle"


def pair_cells(one: RankComparison) -> list[str]:
    """One row of two jobs."""
    found = one.comparison
    rates = [_rate(found, name) for name in ("before", "after")]
    peaks = [format_bytes(side.peak_bytes) for side in (found.before, found.after)]
    return [str(one.rank), WORDS[found.verdict], *rates, *peaks]


def _rate(found: Comparison, name: str) -> str:
    side = found.before if name == "before" else found.after
    if found.aligned_by == "step" and side.growth_bytes_per_step is not None:
        return format_per_step(side.growth_bytes_per_step, found.step_unit, signed=True)
    if found.aligned_by == "step" or side.growth_bytes_per_hour is None:
        return "not known"
    return format_rate(side.growth_bytes_per_hour, max(found.before.duration_s, found.after.duration_s), signed=True)


def shown_pairs(found: JobComparison) -> tuple[Sequence[RankComparison], int]:
    """All where they are few; else those that differ from the most common answer."""
    if len(found.ranks) <= _SHOWN_RANKS:
        return found.ranks, 0
    verdicts = [one.comparison.verdict for one in found.ranks]
    usual = max(dict.fromkeys(verdicts), key=verdicts.count)
    told = [one for one in found.ranks if one.comparison.verdict != usual][:_SHOWN_RANKS] or found.ranks[:_SHOWN_RANKS]
    return told, len(found.ranks) - len(told)


def only(found: JobComparison) -> Iterator[str]:
    """Ranks that one of two jobs does not have."""
    if found.only_before:
        yield f"only before: {named(found.only_before)}"
    if found.only_after:
        yield f"only after: {named(found.only_after)}"
