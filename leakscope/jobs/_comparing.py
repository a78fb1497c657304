"""Two jobs, rank by rank: each rank's recordings laid over each other, and one verdict of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..comparing import BETTER, CANNOT_TELL, SAME, WORSE, Comparison, compare_cases
from ..engines import map_over
from ..errors import BadInput
from ..facts.processes.ranks import named_ranks as named
from ._judging import case_of
from ._recordings import Candidate, Found, of_one_job, recordings_in


@dataclass(frozen=True)
class RankComparison:
    """One rank before and after, as ``leakscope compare`` has it of two runs."""

    rank: int
    comparison: Comparison


@dataclass(frozen=True)
class JobComparison:
    """``verdict`` is better, same, worse or cannot-tell (the contract ``leakscope.compare-jobs/1``).

    Worse if any rank is; better if some are, and all others the same. ``only_before`` and ``only_after``: ranks that
    one of the two jobs has.
    """

    verdict: str
    reason: str
    before: str
    after: str
    ranks: Sequence[RankComparison]
    only_before: Sequence[int] = ()
    only_after: Sequence[int] = ()


class _Pair(NamedTuple):
    rank: int
    before: tuple[Path, bool]
    after: tuple[Path, bool]


def compare_jobs(before: Path, after: Path, workers: int | None = None) -> JobComparison:
    """**Errors** BadInput where one is not the folder of one job, or they have no rank in common."""
    one, two = (of_one_job(recordings_in([path])) for path in (before, after))
    first, second = _by_rank(one), _by_rank(two)
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise BadInput(
            f"{before} and {after} have no rank in common ({named(sorted(first))}; {named(sorted(second))}): "
            "compare two runs of one job"
        )
    pairs = [_Pair(rank, _where(first[rank]), _where(second[rank])) for rank in shared]
    ranks = [
        RankComparison(pair.rank, found) for pair, found in zip(pairs, map_over(_compared, pairs, workers=workers))
    ]
    verdict = _verdict(ranks)
    return JobComparison(
        verdict=verdict,
        reason=_reason(ranks, verdict),
        before=str(before),
        after=str(after),
        ranks=ranks,
        only_before=sorted(first.keys() - second.keys()),
        only_after=sorted(second.keys() - first.keys()),
    )


def _by_rank(found: Found) -> dict[int, Candidate]:
    return {rank: one for one in found.candidates for rank in one.ranks}


def _where(candidate: Candidate) -> tuple[Path, bool]:
    return candidate.path, candidate.is_shared


def _compared(pair: _Pair) -> Comparison:
    before, after = (case_of(path, pair.rank, is_shared) for path, is_shared in (pair.before, pair.after))
    return compare_cases(before, after)


def _verdict(ranks: Sequence[RankComparison]) -> str:
    found = {one.comparison.verdict for one in ranks}
    for verdict in (WORSE, CANNOT_TELL, BETTER):
        if verdict in found:
            return verdict
    return SAME


def _reason(ranks: Sequence[RankComparison], verdict: str) -> str:
    """Who is what, the decisive ones first, with the reason of the first of them."""
    groups: dict[str, list[RankComparison]] = {}
    for one in sorted(ranks, key=lambda one: (one.comparison.verdict != verdict, one.rank)):
        groups.setdefault(one.comparison.verdict, []).append(one)
    parts = [_group(found, own, len(ranks)) for found, own in groups.items()]
    return "; ".join(parts)


_SAID = {
    WORSE: ("is worse", "are worse"), BETTER: ("is better", "are better"), SAME: ("is the same", "are the same"),
    CANNOT_TELL: ("is unclear", "are unclear"),
}  # fmt: skip


def _group(verdict: str, own: Sequence[RankComparison], count: int) -> str:
    one, several = _SAID[verdict]
    who = f"all {count} ranks" if len(own) == count > 1 else named([rank.rank for rank in own])
    reason = own[0].comparison.reason
    of = f" of rank {own[0].rank}" if len(own) > 1 else ""
    return f"{who} {one if len(own) == 1 else several} ({reason}{of and ','}{of})"
