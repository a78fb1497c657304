"""One cause, one finding: what tells of the same object as a finding above it becomes a part of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..findings import Evidence, Finding
from ..kinds import CRASH, KILL


def folded(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in their order; of those about one path of one process the first, which says what the others saw.

    Waste is told apart, since it was there from the start; and so is how the job ended.
    """
    order: list[Finding] = []
    known: dict[tuple[int | None, str], int] = {}
    for finding in findings:
        path = finding.subject.path
        if path is None or finding.wasted or finding.tells(KILL, CRASH):
            order.append(finding)
            continue
        at = known.setdefault((finding.subject.pid, path), len(order))
        if at == len(order):
            order.append(finding)
        else:
            order[at] = _with(order[at], finding)
    return order


def _with(first: Finding, other: Finding) -> Finding:
    known = {evidence.text for evidence in first.evidence}
    seen = Evidence(f"also seen as {other.kind}: {other.title}", {"bytes": other.bytes})
    more = [evidence for evidence in other.evidence if evidence.text not in known]
    return replace(
        first,
        evidence=[*first.evidence, seen, *more],
        series=[*first.series, *other.series],
        also=tuple(dict.fromkeys((*first.also, other.kind))),
    )
