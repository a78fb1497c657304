"""One cause, one finding: what tells of the same object as a finding above it, or of a part of that, joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..evidence.explained import is_made_by_a_compiler
from ..findings import Evidence, Finding
from ..kinds import CRASH, KILL, MAKES, PILE, SIBLINGS


def folded(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in their order; of those with one cause the first, which says what the others saw: or the one that is of
    all the processes that are alike.

    Waste is told apart, since it was there from the start; and so is how the job ended.
    """
    order: list[Finding] = []
    for finding in findings:
        at = next((at for at, first in enumerate(order) if _have_one_cause(first, finding)), None)
        if at is None:
            order.append(finding)
        else:
            is_of_all = finding.tells(SIBLINGS) and len({one.process for one in order[at].series}) > 1
            is_why = is_of_all or finding.tells(MAKES)
            order[at] = _with(finding, order[at]) if is_why else _with(order[at], finding)
    return order if len(order) == len(findings) else folded(order)  # one that took a place may explain more


def _have_one_cause(first: Finding, other: Finding) -> bool:
    """Whether they are about one path of one process, or the other's begins with it; or about things that pile up
    because one variable keeps what they belong to: processes and their pipes; or one counts what makes the other grow.
    """
    one, two = first.subject, other.subject
    if one.pid != two.pid or any(f.wasted or f.tells(KILL, CRASH) for f in (first, other)):
        return False
    if any(maker.tells(MAKES) and is_made_by_a_compiler(made) for maker, made in ((first, other), (other, first))):
        return not (first.tells(MAKES) and other.tells(MAKES))
    if one.path is not None and two.path is not None and f"{two.path}.".startswith((f"{one.path}.", f"{one.path}[")):
        return True
    return first.tells(PILE) and other.tells(PILE) and one.variable is not None and one.variable == two.variable


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
