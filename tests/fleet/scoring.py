"""How well a report of a synthetic fleet does: which planted faults it found, and what it said that nobody planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakscope.fleet.claims import ODD, STAGE, Claim

_LEAST_OVERLAP = 0.9


@dataclass(frozen=True)
class Score:
    """``found`` and ``missed`` are faults; ``described``: found, and told with the words that choose them.

    ``invented``: claims that belong to no fault. A stage is a note which says that it may be no fault: it counts on
    neither side.
    """

    found: Sequence[str]
    described: Sequence[str]
    missed: Sequence[str]
    invented: Sequence[str] = field(default_factory=list)


def score(claims: Sequence[Claim], urls: Sequence[str], faults: Sequence[Mapping[str, Any]]) -> Score:
    """``urls``: of each row that the claims are about; ``faults``: as truth.json has them."""
    found, described, missed = [], [], []
    told: set[int] = set()
    for fault in faults:
        best, overlap = None, 0.0
        for number, claim in enumerate(claims):
            if fault["claim"] in (claim.kind, ODD if claim.kind == STAGE else "") and _same_figure(claim, fault):
                shared = _overlap({_path(urls[row], fault) for row in claim.rows}, set(fault["paths"]))
                if shared > overlap:
                    best, overlap = number, shared
        if best is None or overlap < _LEAST_OVERLAP:
            missed.append(f"{fault['kind']}: {fault['says']} (nearest {overlap:.0%})")
            continue
        told.add(best)
        found.append(str(fault["kind"]))
        if _is_described(claims[best], fault):
            described.append(str(fault["kind"]))
    return Score(found, described, missed, [
        claim.says for n, claim in enumerate(claims) if n not in told and claim.kind != STAGE
    ])  # fmt: skip


def _path(url: str, fault: Mapping[str, Any]) -> str:
    """A recording as the truth calls it: the last three parts of its address."""
    return "/".join(url.split("/")[-3:])


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def _same_figure(claim: Claim, fault: Mapping[str, Any]) -> bool:
    if fault["claim"] == "odd":
        return bool(claim.figures.get("figure") == fault["where"].get("figure"))
    return fault.get("fingerprint") is None or claim.finding.get("fingerprint") == fault["fingerprint"]


def _is_described(claim: Claim, fault: Mapping[str, Any]) -> bool:
    """Whether its sentence has the name that a person would look for: the rank, the node, the commit, the driver."""
    wanted = {key: value for key, value in fault["where"].items() if key not in ("figure",)}
    names = [str(one) for value in wanted.values() for one in (value if isinstance(value, list) else [value])]
    facts = " ".join([claim.says, *claim.facts.values()])
    return all(name in facts for name in names)
