"""Which rank or node differs from its siblings in how much it holds, or how fast it grows: stragglers in memory.

Ranks of one attempt of a job do the same, so they hold alike. Each is compared with the median of its siblings, in
units of their spread (the median absolute deviation, which a straggler does not move). What differs in as many as a
tenth is no straggler but how the job is built, such as the stages of a pipeline: the ranks of a stage are then compared
with what its ranks usually hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, takewhile
from typing import Any

import numpy as np
import pandas as pd

from ..units import format_bytes, format_rate
from .claims import ODD, STAGE, Claim, shortened
from .population import Population, median

_FEWEST = 4  # siblings, to say what is usual
_LEAST_STAGE = 9  # ranks side by side: more than a node has
_SIGMAS = 6.0
_LEAST_SHARE = 0.1  # of the median: less does nobody any harm
_FLOOR = 0.01  # of the median: siblings that are exactly alike still differ by chance
_FASTER = 1.5  # times the median: growth differs more than levels do
_MOST_SHARE = 0.1  # of the siblings: more are no stragglers
_OF_A_NODE = 0.75  # of its ranks
_OF_ATTEMPTS = 0.5
_AT_LIMIT = 0.85
_AS_LONG = 0.5  # of the median length: one that ended early held less
_PLURAL = {"has": "have", "holds": "hold", "grows by": "grow by"}
_FIGURES = {
    "level": ("holds", "", "memory without what leaked"),
    "gpu_peak_bytes": ("has", " on its GPU at most", "memory on the GPU"),
    "growth_bytes_per_hour": ("grows by", "", "growth of those that leak alike"),
}


@dataclass(frozen=True)
class _Odd:
    """One figure of the recordings of one job: values, what is usual there, and the spread of those that are alike.

    NaN where nobody can say what is usual.
    """

    figure: str
    value: Any
    usual: Any
    spread: Any
    least_share: float

    @property
    def known(self) -> Any:
        return ~np.isnan(self.usual)

    @cached_property
    def sigmas(self) -> Any:
        return np.where(self.known, (self.value - self.usual) / self.spread, 0.0)

    @cached_property
    def sign(self) -> Any:
        """+1 what is odd and more, -1 what is odd and less, 0 the others."""
        far = (np.abs(self.sigmas) >= _SIGMAS) & (
            np.abs(self.value - self.usual) >= self.least_share * np.abs(self.usual)
        )
        return np.where(far, np.sign(self.sigmas), 0).astype(np.int64)

    def expecting(self, times: Any) -> _Odd:
        """This one, where so many times as much is usual."""
        return replace(self, usual=self.usual * times, spread=self.spread * times)


def odd_ones(population: Population) -> Iterator[Claim]:
    """A claim for each rank or node that differs; the largest difference first."""
    frame = population.frame
    ranked = frame["rank"].notna().to_numpy(dtype=bool) & frame["job"].notna().to_numpy(dtype=bool)
    found: list[tuple[float, Claim]] = []
    for job, rows in frame[ranked].groupby("job", sort=True).indices.items():
        own = np.flatnonzero(ranked)[rows]
        for odd in _figures(population, own):
            found += _named(population, str(job), own, odd)
    yield from (claim for _, claim in sorted(found, key=lambda pair: -pair[0]))


def _figures(population: Population, rows: Any) -> Iterator[_Odd]:
    frame = population.frame.iloc[rows]
    attempt = frame["attempt"].fillna(-1).to_numpy(dtype=np.int64)
    growth = np.where(population.truth("leaking"), population.number("growth_bytes"), 0.0)[rows]
    killed = population.killed[rows]
    peak, limit = (population.number(name)[rows] for name in ("peak_bytes", "limit_bytes"))
    level = peak - np.nan_to_num(np.maximum(growth, 0.0))
    level[killed & (peak >= _AT_LIMIT * limit)] = np.nan  # the limit says how much it could hold
    odd = _compared("level", level, attempt, population.number("duration_s")[rows], _LEAST_SHARE)
    yield _among_alike(odd, frame)
    gpu = population.number("gpu_peak_bytes")[rows]
    models = _models(frame["gpu_name"], frame["node"], gpu)
    odd = _compared("gpu_peak_bytes", gpu, attempt * 1000 + models, population.number("duration_s")[rows], _LEAST_SHARE)
    if len(np.unique(models)) > 1:
        # A model of few ranks has no usual amount of its own: what is odd there must be so among all.
        is_common = odd.known & (np.abs(gpu - median(gpu)) < _LEAST_SHARE * median(gpu))
        odd = replace(odd, usual=np.where(is_common, gpu, odd.usual))
    yield _among_alike(odd, frame)
    yield from _growth(population, rows, attempt)


def _models(names: Any, nodes: Any, gpu: Any) -> Any:
    """Models of GPUs that hold unlike amounts are no siblings; of one or two nodes nobody knows what is usual."""
    kinds = np.zeros(len(gpu), dtype=np.int64)
    counts = nodes.groupby(names.fillna("").to_numpy(dtype=object)).nunique()
    for number, name in enumerate(counts.index[counts >= _FEWEST - 1], 1):
        kinds[(names == name).fillna(False).to_numpy(dtype=bool)] = number
    middles = [median(gpu[kinds == kind]) for kind in np.unique(kinds) if kind]
    alike = not middles or max(middles) <= (1 + _LEAST_SHARE) * min(middles)
    return np.zeros(len(gpu), dtype=np.int64) if alike else kinds


def _growth(population: Population, rows: Any, attempt: Any) -> Iterator[_Odd]:
    """Among those that have the same leak: the others do not grow, and are no siblings in this."""
    told = population.findings
    if not len(told):
        return
    own = told[told["severity"].isin(("critical", "warning")) & told["row"].isin(rows)]
    own = own[own["bytes_per_hour"].fillna(0).astype(float) > 0]
    for _, one in own.groupby("likeness", sort=True):
        if one["row"].nunique() >= _FEWEST:
            rates = one.drop_duplicates("row").set_index("row")["bytes_per_hour"].astype(float).reindex(rows)
            yield _compared("growth_bytes_per_hour", rates.to_numpy(), attempt, None, _FASTER - 1.0)


def _compared(figure: str, value: Any, groups: Any, duration_s: Any, least_share: float) -> _Odd:
    usual, spread = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for group in np.unique(groups):
        own = np.flatnonzero((groups == group) & ~np.isnan(value))
        if duration_s is not None and len(own):
            longest = np.nanmedian(duration_s[own])
            own = own[~(duration_s[own] < _AS_LONG * longest)]
        if len(own) < _FEWEST:
            continue
        usual[own] = middle = float(np.median(value[own]))
        spread[own] = max(1.4826 * float(np.median(np.abs(value[own] - middle))), _FLOOR * abs(middle), 1.0)
    return _Odd(figure, value, usual, spread, least_share)


def _named(population: Population, job: str, rows: Any, odd: _Odd) -> Iterator[tuple[float, Claim]]:
    """Stages first, since they say what is usual; then nodes: a rank that is odd because of its node is told there."""
    frame = population.frame.iloc[rows]
    known = odd.known
    node, rank = (frame[name].astype(object).to_numpy() for name in ("node", "rank"))
    nodes, ranks = len(pd.unique(node[known])), len(pd.unique(rank[known]))
    if odd.figure == "gpu_peak_bytes":
        times = np.ones(len(rows))
        for block, direction in _stages(rank, odd.sign, known, ranks):
            stage = known & np.isin(rank, block)
            alike = stage & (odd.sign == direction)
            times[stage] = median((odd.value / odd.usual)[alike])
            yield 0.0, _stage(population, job, rows, odd, alike)
        odd = odd.expecting(times)
    left = odd.sign.copy()
    # On nodes of many ranks each; where a rank always ran on one node, the ranks of the whole node tell.
    for name in _often(node, left, known, _OF_A_NODE, least=2) if nodes >= _FEWEST - 1 else ():
        own = known & (node == name) & (left != 0)
        if len(pd.unique(rank[own])) >= 2:
            yield _claim(population, job, rows, own, odd, "node", str(name))
            left[own] = 0
    often = list(_often(rank, left, known, _OF_ATTEMPTS, least=1))
    if len(often) <= max(1, _MOST_SHARE * ranks):
        for number in often:
            own = known & (rank == number) & (odd.sign != 0)
            yield _claim(population, job, rows, own, odd, "rank", str(number))


def _among_alike(odd: _Odd, frame: Any) -> _Odd:
    """Where ranks are not alike, those side by side may be (a stage of a pipeline each), or those of one local rank.

    What is usual is then what these hold, if that explains half of the spread: a job of four stages has no rank that
    is odd among all, and may have one that is odd in its stage.
    """
    rank = frame["rank"].to_numpy(dtype=np.int64)
    local = frame["local_rank"].fillna(-1).to_numpy(dtype=np.int64)
    own = np.flatnonzero(odd.known)
    ranks = np.unique(rank[own])
    if len(ranks) < 2 * _LEAST_STAGE:
        return odd
    ratio = odd.value / odd.usual
    typical = np.array([np.median(ratio[own][rank[own] == number]) for number in ranks])
    local_of = np.array([local[own][rank[own] == number][0] for number in ranks])
    by_local_rank = np.array([np.median(typical[local_of == number]) for number in local_of])
    best, spread = odd, 0.5 * _residual(odd, own)
    for expected in (_by_blocks(typical), by_local_rank):
        times = np.ones(len(rank))
        times[own] = expected[np.searchsorted(ranks, rank[own])]
        moved = replace(odd, usual=odd.usual * times)
        if (left := _residual(moved, own)) < spread:
            best, spread = replace(moved, spread=np.maximum(1.4826 * left, _FLOOR) * np.abs(moved.usual)), left
    return best


def _by_blocks(typical: Any) -> Any:
    """What ranks side by side hold, of each: blocks of more ranks than a node has; shorter ones belong to one beside.

    **Shape** one value a rank, in their order.
    """
    # Two odd ranks side by side make no block.
    smooth = np.array([np.median(typical[max(0, n - 2) : n + 3]) for n in range(len(typical))])
    edges = np.flatnonzero(np.abs(np.diff(smooth)) > _LEAST_SHARE * smooth[:-1]) + 1
    blocks = np.split(np.arange(len(typical)), edges)
    found = np.full(len(typical), np.nan)
    for block in blocks:
        if len(block) >= _LEAST_STAGE:
            found[block] = np.median(typical[block])
    levels = pd.Series(found)
    before, after = levels.ffill().bfill().to_numpy(), levels.bfill().ffill().to_numpy()
    return np.where(np.abs(smooth - before) <= np.abs(smooth - after), before, after)


def _residual(odd: _Odd, own: Any) -> float:
    """How far a recording in the middle is from what is usual, as a share of it."""
    return float(np.median(np.abs(odd.value[own] / odd.usual[own] - 1)))


def _often(keys: Any, sign: Any, known: Any, share: float, least: int) -> dict[Any, int]:
    """Keys of which at least such a share is odd in one direction, with that direction."""
    found = {}
    for key in pd.unique(keys[(sign != 0) & known]):
        own = sign[(keys == key) & known]
        for direction in (-1, 1):
            if (own == direction).sum() >= max(least, share * len(own)):
                found[key] = direction
    return found


def _stages(rank: Any, sign: Any, known: Any, count: int) -> Iterator[tuple[list[Any], int]]:
    """Ranks side by side, from the first or to the last, and many: a stage of a pipeline, wherever it runs."""
    often = _often(rank, sign, known, _OF_ATTEMPTS, least=1)
    for order in (sorted(pd.unique(rank)), sorted(pd.unique(rank), reverse=True)):
        block = list(takewhile(often.__contains__, order))
        if len(block) >= max(2, _MOST_SHARE * count):
            yield from ((list(part), direction) for direction, part in groupby(block, often.__getitem__))


def _stage(population: Population, job: str, rows: Any, odd: _Odd, own: Any) -> Claim:
    value, usual = float(np.median(odd.value[own])), float(np.median(odd.usual[own]))
    chosen = rows[own]
    facts = population.facts(chosen)
    verb, behind, _ = _FIGURES[odd.figure]
    told = partial(_amount, population, odd.figure)
    whose = behind.replace("its GPU", "their GPUs")
    frame = population.frame.iloc[chosen]
    stayed = frame.groupby("rank")["node"].nunique().max() == 1
    fault = f", or a fault of {shortened(frame['node'].dropna().unique())}, where they always ran" if stayed else ""
    says = (
        f"ranks {facts['rank']} of {job} {_PLURAL.get(verb, verb)} {told(value)}{whose}, the others "
        f"{told(usual)}: as a stage of a pipeline would{fault}"
    )
    figures = {"figure": odd.figure, "value": value, "usual": usual, "ratio": value / usual}
    return Claim(STAGE, "note", says, len(chosen), len(rows), hit=len(chosen), inside=len(chosen), facts=facts,
                 figures=figures, rows=chosen)  # fmt: skip


def _amount(population: Population, figure: str, value: float) -> str:
    is_rate = figure == "growth_bytes_per_hour"
    return format_rate(value, population.longest_s) if is_rate else format_bytes(value)


def _never_elsewhere(population: Population, job: str, node: str, ranks: Any) -> bool:
    frame = population.frame
    same = frame[(frame["job"] == job).fillna(False) & frame["rank"].isin(ranks.unique())]
    return bool((same["node"] == node).all())


def _claim(
    population: Population, job: str, rows: Any, own: Any, odd: _Odd, what: str, name: str
) -> tuple[float, Claim]:
    chosen = rows[own]
    value, usual = float(np.median(odd.value[own])), float(np.median(odd.usual[own]))
    sigmas = float(np.median(odd.sigmas[own]))
    verb, behind, _ = _FIGURES[odd.figure]
    told = partial(_amount, population, odd.figure)
    frame = population.frame.iloc[chosen]
    place = f"rank {name} of {job}" if what == "rank" else f"node {name}, in {job},"
    on = f" (on {shortened(frame['node'].dropna().unique())})" if what == "rank" else ""
    attempts = frame["attempt"].dropna().unique()
    all_attempts = population.frame.loc[population.frame["job"] == job, "attempt"].dropna().nunique()
    when = f", in attempt {shortened(attempts)}" if 0 < len(attempts) < all_attempts else ""
    each = f" in each of its ranks {shortened(frame['rank'].dropna().unique())}" if what == "node" else ""
    if what == "node" and _never_elsewhere(population, job, name, frame["rank"]):
        each += " (they ran nowhere else: it may be what these ranks do)"
    says = (
        f"{place}{on} {verb} {told(value)}{behind}{each}{when}; its siblings {told(usual)} "
        f"({value / usual:.1f} times, {abs(sigmas):.0f} times their spread)"
    )
    figures = {"figure": odd.figure, "value": value, "usual": usual, "ratio": value / usual, "spreads": sigmas}
    return abs(np.log(max(value, 1.0) / max(usual, 1.0))), Claim(
        ODD, "warning", says, len(chosen), len(rows), hit=len(chosen), inside=len(chosen), facts={
            **population.facts(chosen), "odd": f"{what} {name}"}, figures=figures,
        is_new=bool(population.is_new[chosen].all()), urls=[str(url) for url in frame["url"].head(5)], rows=chosen,
    )  # fmt: skip
