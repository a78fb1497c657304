"""Many ranks put together: one axis, one verdict, findings that ranks share, a ledger for each node, the odd ones."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..findings import SEVERITIES, Finding, LedgerRow, Report
from ..units import MiB, format_bytes
from ._clocks import Clock
from ._job import ALONE, Account, Cluster, NodeRow, RankRow
from ._judging import BESIDE, Judged, JudgedRecording
from ._recordings import Candidate

_MOST_VALUES = 120_000  # of all ranks together: a page and a JSON that can be read
_MOST_MOMENTS, _FEWEST_MOMENTS = 240, 60


class Part(NamedTuple):
    """One rank with the recording it is from, and the clock of that."""

    judged: Judged
    candidate: Candidate
    clock: Clock


def axis(parts: Sequence[Part]) -> list[float]:
    """Moments from the first sample of the job to its last. **Units** seconds since that first one."""
    spans = [
        (timeline.time_s[0] + part.clock.offset_s, timeline.time_s[-1] + part.clock.offset_s)
        for part in parts
        if (timeline := part.judged.report.timeline) is not None
    ]
    if not spans:
        return []
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    count = min(_MOST_MOMENTS, max(_FEWEST_MOMENTS, _MOST_VALUES // len(parts)))
    return [round(at_s, 2) for at_s in np.linspace(first, last, count).tolist()]


def along(part: Part, time_s: Sequence[float]) -> list[int | None]:
    """Memory of one rank at each moment of the axis: the most it held until the next; None beyond its recording."""
    timeline = part.judged.report.timeline
    if timeline is None:
        return [None] * len(time_s)
    at_s = np.array(timeline.time_s) + part.clock.offset_s
    held = np.array(timeline.total_bytes, dtype=np.float64)
    edges = np.append(time_s, 2 * time_s[-1] - time_s[-2])
    found: list[int | None] = []
    for start, end in zip(edges[:-1], edges[1:]):
        inside = held[(at_s >= start) & (at_s < end)]
        if inside.size:
            found.append(round(float(inside.max())))
        elif at_s[0] <= start <= at_s[-1]:
            found.append(round(float(np.interp(start, at_s, held))))
        else:
            found.append(None)
    return found


def rank_rows(parts: Sequence[Part], time_s: Sequence[float], start_s: float) -> list[RankRow]:
    """By rank; ``start_s`` of the axis becomes its zero."""
    odd = _odd_ones(parts)
    return [
        _row(part, along(part, time_s) if time_s else [], start_s, odd.get(part.judged.rank))
        for part in sorted(parts, key=lambda part: part.judged.rank)
    ]


def _row(part: Part, values: Sequence[int | None], start_s: float, odd: str | None) -> RankRow:
    report, candidate = part.judged.report, part.candidate
    verdict, recording = report.verdict, report.recording
    return RankRow(
        rank=part.judged.rank,
        node=candidate.node,
        path=str(candidate.path),
        leaking=verdict.leaking,
        killed=verdict.killed,
        reason=verdict.headline,
        ended=recording.ended,
        exit_code=recording.exit_code,
        signal=recording.signal,
        duration_s=recording.duration_s,
        growth_bytes=verdict.growth_bytes,
        growth_bytes_per_hour=verdict.growth_bytes_per_hour,
        growth_bytes_per_step=verdict.growth_bytes_per_step,
        peak_bytes=_peak(report),
        wasted_bytes=verdict.wasted_bytes,
        offset_s=round(part.clock.offset_s - start_s, 3),
        steps=part.judged.steps,
        attempt=candidate.attempt or None,
        fingerprints=[finding.fingerprint for finding in report.findings],
        odd=odd,
        value_bytes=values,
    )


def _peak(report: Report) -> int:
    if report.recording.peak is not None:
        return report.recording.peak.bytes
    return int(max(report.timeline.total_bytes, default=0)) if report.timeline is not None else 0


def _odd_ones(
    parts: Sequence[Part],
    *,
    fewest: int = 4,  # of three nobody can say which is the odd one
    spreads: float = 6.0,  # of the others: one in a thousand is no news
    least_bytes: int = 64 * MiB,  # libraries, thread pools and the heap's luck differ
    least_share: float = 0.2,
) -> dict[int, str]:
    """Ranks that at the end hold much more, or much less, than their siblings do."""
    if len(parts) < fewest:
        return {}
    held = {part.judged.rank: part.judged.end_bytes for part in parts if part.judged.end_bytes}
    if len(held) < fewest:
        return {}
    middle = statistics.median(held.values())
    spread = 1.4826 * statistics.median(abs(value - middle) for value in held.values())
    enough = max(spreads * spread, least_bytes, least_share * middle)
    return {
        rank: f"{format_bytes(abs(value - middle))} {'more' if value > middle else 'less'} than the rank in the middle"
        for rank, value in held.items()
        if abs(value - middle) > enough
    }


def clusters(parts: Sequence[Part]) -> list[Cluster]:
    """Findings of all ranks by what they are about: the gravest first, then those of most bytes."""
    groups: dict[str, list[tuple[Part, Finding]]] = {}
    for part in parts:
        for finding in part.judged.report.findings:
            groups.setdefault(finding.likeness, []).append((part, finding))
    found = [_cluster(group) for group in groups.values()]
    return sorted(found, key=lambda c: (SEVERITIES.index(c.severity), -c.bytes, c.ranks[0], c.title))


def _cluster(group: Sequence[tuple[Part, Finding]]) -> Cluster:
    severity = min((finding.severity for _, finding in group), key=SEVERITIES.index)
    gravest = sorted(
        (one for one in group if one[1].severity == severity), key=lambda one: (one[1].bytes, -one[0].judged.rank)
    )
    part, told = gravest[len(gravest) // 2]  # the one whose figures are those of the rank in the middle
    by_rank: dict[int, int] = {}
    for own, finding in group:
        by_rank[own.judged.rank] = by_rank.get(own.judged.rank, 0) + finding.bytes
    place = (told.subject.file, told.subject.line)
    excerpts = part.judged.report.excerpts
    return Cluster(
        fingerprint=told.fingerprint,
        kind=told.kind,
        title=told.title,
        severity=severity,
        ranks=sorted(by_rank),
        nodes=list(dict.fromkeys(own.candidate.node for own, _ in group)),
        bytes=sum(by_rank.values()),
        median_bytes=round(statistics.median_high(by_rank.values())),
        finding=told,
        excerpt=next((one for one in excerpts if (one.file, one.line) == place), None),
    )


def node_rows(parts: Sequence[Part], recordings: Iterable[JudgedRecording]) -> list[NodeRow]:
    """By the lowest rank of each machine; hosts of several boots may be called alike."""
    beside = {str(one.path): one.beside for one in recordings if one.beside is not None}
    nodes: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        nodes.setdefault((part.candidate.node, part.candidate.boot), []).append(part)
    is_alone = len(nodes) == 1
    rows = [_node(node, own, beside, is_alone) for (node, _), own in nodes.items()]
    return sorted(rows, key=lambda row: row.ranks[0])


def _node(node: str, own: Sequence[Part], beside: Mapping[str, LedgerRow], is_alone: bool) -> NodeRow:
    totals: dict[str, Account] = {}
    paths = {str(part.candidate.path) for part in own}
    extra = [beside[path] for path in sorted(paths & beside.keys())]
    for row in [*(row for part in own for row in part.judged.report.ledger), *extra]:
        known = totals.get(row.account, Account(row.account, 0, 0, 0))
        totals[known.account] = Account(
            known.account,
            known.start_bytes + row.start_bytes,
            known.end_bytes + row.end_bytes,
            known.growth_bytes + row.growth_bytes,
            known.estimated or row.estimated,
        )
    ledger = sorted(totals.values(), key=lambda one: (one.account == BESIDE, -one.growth_bytes, one.account))
    clock = own[0].clock
    return NodeRow(
        node=node,
        ranks=sorted(part.judged.rank for part in own),
        aligned_by=ALONE if is_alone else clock.aligned_by,
        shared_count=clock.shared_count,
        spread_s=clock.spread_s,
        wall_off_s=clock.wall_off_s,
        growth_bytes=sum(one.growth_bytes for one in ledger),
        peak_bytes=sum(_peak(part.judged.report) for part in own),
        ledger=ledger,
    )


def shifted(time_s: Sequence[float], start_s: float) -> list[float]:
    """The axis from its zero on."""
    return [round(at_s - start_s, 2) for at_s in time_s]
