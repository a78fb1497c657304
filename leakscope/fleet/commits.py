"""From commit to commit: what the same run needs and how fast it grows, and since which commit it is otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..units import format_bytes
from .claims import COMMIT, Claim
from .population import Population, median

_FEWEST = 6  # commits, for a step between them
_AFTER = 2  # of these at least after the step, and before it
_SIGMAS = 6.0
_LEAST_SHARE = 0.08


@dataclass(frozen=True)
class Trend:
    """Medians of the recordings of each commit of a job, in the order of their first recordings.

    **Units** bytes, bytes per hour; ``level`` is a peak without what leaked; ``since``: index of the first commit after
    a step in the level, None without one.
    """

    job: str
    commits: Sequence[str]
    recordings: Sequence[int]
    leaking: Sequence[int]
    level_bytes: Sequence[float]
    growth_bytes_per_hour: Sequence[float]
    since: int | None


def trends(population: Population) -> Iterator[tuple[Trend, Claim | None]]:
    """Jobs that were recorded at several commits."""
    frame = population.frame
    order = {commit: number for number, commit in enumerate(population.order_of_commits())}
    leaking = population.truth("leaking")
    growth = np.where(leaking, population.number("growth_bytes"), 0.0)
    level = population.number("peak_bytes") - np.nan_to_num(np.maximum(growth, 0.0))
    rate = np.where(leaking, population.number("growth_bytes_per_hour"), 0.0)
    has_commit = frame["commit"].notna().to_numpy(dtype=bool) & ~np.isnan(level)
    job = frame["job"].fillna("").to_numpy(dtype=object)
    for name in sorted(set(job[has_commit])):
        rows = np.flatnonzero(has_commit & (job == name))
        number = np.array([order[commit] for commit in frame["commit"].iloc[rows]])
        if len(set(number)) < 2:
            continue
        relative = level[rows] / _usual(frame, rows, level)
        found = _trend(name, rows, number, frame, relative, level, rate, leaking)
        yield found, _claim(population, found, rows, number, level)


def _usual(frame: Any, rows: Any, level: Any) -> Any:
    """Of each recording the median of those of the same command and rank: shards of a suite need what they need."""
    part = frame.iloc[rows].assign(level=level[rows])
    keys = [part["command"].fillna(""), part["rank"].fillna(-1)]
    usual = part.groupby(keys, sort=False)["level"].transform("median").to_numpy(dtype=float)
    return np.maximum(usual, 1.0)


def _trend(job: str, rows: Any, number: Any, frame: Any, relative: Any, level: Any, rate: Any, leaking: Any) -> Trend:
    there = sorted(set(number))
    typical = median(level[rows])
    levels = [median(relative[number == n]) * typical for n in there]
    return Trend(
        job,
        [str(frame["commit"].iloc[rows[number == n][0]]) for n in there],
        [int((number == n).sum()) for n in there],
        [int(leaking[rows[number == n]].sum()) for n in there],
        levels,
        [median(rate[rows[number == n]]) for n in there],
        step(levels),
    )


def step(values: Sequence[float]) -> int | None:
    """Where a series goes from one level to another and stays there: the index of the first value after it, or None."""
    found, best = None, 0.0
    for at in range(_AFTER, len(values) - _AFTER + 1) if len(values) >= _FEWEST else ():
        before, after = np.array(values[:at]), np.array(values[at:])
        change = float(np.median(after) - np.median(before))
        apart = np.concatenate([before - np.median(before), after - np.median(after)])
        noise = max(1.4826 * float(np.median(np.abs(apart))), 0.002 * abs(float(np.median(before))))
        sigmas = abs(change) / (noise * np.sqrt(1 / len(before) + 1 / len(after)))
        fit = -float(np.abs(apart).sum())
        if sigmas >= _SIGMAS and abs(change) >= _LEAST_SHARE * abs(np.median(before)) and (found is None or fit > best):
            found, best = at, fit
    return found


def _claim(population: Population, trend: Trend, rows: Any, number: Any, level: Any) -> Claim | None:
    if trend.since is None:
        return None
    there = sorted(set(number))
    after = rows[number >= there[trend.since]]
    before_bytes, after_bytes = (
        float(np.median(trend.level_bytes[: trend.since])),
        float(np.median(trend.level_bytes[trend.since :])),
    )
    change = after_bytes / before_bytes - 1
    says = (
        f"{trend.job or 'recordings'}: {abs(change):.0%} {'more' if change > 0 else 'less'} memory since commit "
        f"{trend.commits[trend.since]} ({format_bytes(before_bytes)} before, {format_bytes(after_bytes)} since, "
        f"without what leaks; {trend.since:,} commits before, {len(there) - trend.since:,} since)"
    )
    return Claim(
        COMMIT, "warning" if change > 0 else "note", says, len(after), len(rows), hit=len(after), inside=len(after),
        facts={"job": trend.job, "commit": trend.commits[trend.since]},
        figures={"before_bytes": before_bytes, "after_bytes": after_bytes, "change": change,
                 "commit": trend.commits[trend.since]},
        is_new=bool(population.is_new[after].all()), urls=[str(u) for u in population.frame["url"].iloc[after[:5]]],
        rows=after,
    )  # fmt: skip
