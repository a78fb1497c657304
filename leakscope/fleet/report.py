"""From an index to a report of the fleet: claims in order, and the tables and maps that stand round them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..renderers.json import plain
from ..storage.catalogue import Catalogue
from . import clusters, siblings
from .claims import COMMIT, KILLS, LEAK, LOST, ODD, STAGE, Claim, shortened
from .commits import Trend, trends
from .population import Population

SCHEMA = "leakscope.fleet/1"
_SEVERITIES = ("critical", "warning", "note")
_ORDER = (KILLS, LEAK, ODD, COMMIT, LOST, STAGE)
_MOST_KILL_ROWS = 40
_MOST_NOTES = 20
_MOST_PROBLEMS = 50
_MOST_MISSING = 5  # attempts
_LARGEST_WORLD = 1 << 20  # ranks: what a footer says is not to be believed beyond


@dataclass(frozen=True)
class Heat:
    """Growth of each rank of one attempt of a job: bytes per hour; None where nobody judged it, or there is no rank.

    ``nodes``: of each rank.
    """

    job: str
    attempt: int | None
    growth_bytes_per_hour: Sequence[float | None]
    nodes: Sequence[str]


@dataclass(frozen=True)
class FleetReport:
    """The whole answer; ``claims`` are in order. ``counts`` and ``news`` have counts of recordings by what they are."""

    headline: str
    tone: str
    counts: Mapping[str, int]
    first: str | None
    last: str | None
    index: Mapping[str, Any]
    claims: Sequence[Claim]
    notes: Sequence[Mapping[str, Any]]
    jobs: Sequence[Mapping[str, Any]]
    heat: Sequence[Heat]
    kills: Sequence[Mapping[str, Any]]
    trends: Sequence[Trend]
    news: Mapping[str, Any]
    problems: Sequence[Mapping[str, str]]
    caveats: Sequence[str]
    longest_s: float = 0.0


def report_of(found: Catalogue, keep: Any = None) -> FleetReport:
    """Of an index, or of the rows for which the mask ``keep`` (over the rows of its frame) is true."""
    population = Population(found)
    if keep is not None:
        population = population.only(keep(population.frame))
    steps = list(trends(population))
    claims = [
        *clusters.kills(population), *clusters.leaks(population), *siblings.odd_ones(population),
        *(claim for _, claim in steps if claim is not None), *clusters.lost(population),
    ]  # fmt: skip
    claims.sort(key=lambda claim: (_SEVERITIES.index(claim.severity), _ORDER.index(claim.kind)))
    counts = _counts(population)
    started = population.frame["started_at"].dropna()
    return FleetReport(
        _headline(counts, claims),
        _tone(counts, claims),
        counts,
        started.min().strftime("%Y-%m-%dT%H:%M:%SZ") if len(started) else None,
        started.max().strftime("%Y-%m-%dT%H:%M:%SZ") if len(started) else None,
        population.said["runs"][-1],
        claims,
        clusters.notes(population)[:_MOST_NOTES],
        _jobs(population),
        _heat(population),
        _kills(population),
        [trend for trend, _ in steps],
        _news(population, claims),
        _problems(population),
        list(_caveats(population, counts)),
        round(population.longest_s, 3),
    )


def as_json(report: FleetReport) -> dict[str, Any]:
    """The contract ``leakscope.fleet/1``."""
    return {"schema": SCHEMA, **plain(report)}


def _counts(population: Population) -> dict[str, int]:
    frame = population.frame
    state = frame["state"]
    known = {
        "recordings": population.size,
        "leaking": int(population.truth("leaking").sum()),
        "not_leaking": int(population.truth("leaking", False).sum()),
        "cannot_tell": int((population.truth("judged") & frame["leaking"].isna().to_numpy(dtype=bool)).sum()),
        "not_judged": int(((state == "final") & (frame["judged"] != True).fillna(True)).sum()),  # noqa: E712 (null)
        "provisional": int(population.is_provisional.sum()),
        "killed": int(population.killed.sum()),
        "unfinished": int(state.isin(("unfinished", "checkpoint", "empty")).sum()),
        "unreadable": int(state.isin(("unreadable", "failed")).sum()),
        "new": int(population.is_new.sum()),
    }
    distinct = {f"{name}s": int(frame[name].dropna().nunique()) for name in ("job", "node", "commit", "pod")}
    return known | distinct


def _headline(counts: Mapping[str, int], claims: Sequence[Claim]) -> str:
    total = counts["recordings"]
    if not total:
        return "No recordings"
    parts = [f"{counts['leaking']:,} of {total:,} recordings leak"] if counts["leaking"] else []
    if counts["killed"]:
        parts.append(f"{counts['killed']:,} {'was' if counts['killed'] == 1 else 'were'} killed for lack of memory")
    odd, causes = sum(claim.kind == ODD for claim in claims), sum(map(_grows, claims))
    if counts["leaking"] and causes:
        parts[0] += f", by {causes} cause{'s' if causes > 1 else ''}"
    if odd:
        parts.append(f"{odd} differ from their siblings" if odd > 1 else "1 differs from its siblings")
    if parts:
        return "; ".join(parts)
    if claims and claims[0].severity != "note":
        return f"No leak in {total:,} recordings; {claims[0].says}"
    return f"No leak in {total:,} recordings" if counts["not_leaking"] else f"Nobody judged these {total:,} recordings"


def _grows(claim: Claim) -> bool:
    """What has no rate is wasted once, and makes nothing leak."""
    return claim.kind == LEAK and (not claim.finding or claim.figures.get("bytes_per_hour_median") is not None)


def _tone(counts: Mapping[str, int], claims: Sequence[Claim]) -> str:
    severities = {claim.severity for claim in claims}
    if "critical" in severities:
        return "bad"
    return "good" if counts["not_leaking"] and "warning" not in severities else "unsure"


def _jobs(population: Population) -> list[dict[str, Any]]:
    """A row for each job: how large, how it went."""
    frame = population.frame
    leaking, killed = population.truth("leaking"), population.killed
    found = []
    for job, rows in frame.groupby(frame["job"].fillna(""), sort=True).indices.items():
        part = frame.iloc[rows]
        peak = population.number("peak_bytes")[rows]
        found.append(
            {
                "job": str(job) or "(no job)",
                "recordings": len(rows),
                "ranks": int(part["rank"].dropna().nunique()),
                "nodes": int(part["node"].dropna().nunique()),
                "attempts": int(part["attempt"].dropna().nunique()),
                "commits": int(part["commit"].dropna().nunique()),
                "leaking": int(leaking[rows].sum()),
                "killed": int(killed[rows].sum()),
                "peak_bytes_median": _number(peak, np.nanmedian),
                "peak_bytes_most": _number(peak, np.nanmax),
            }
        )
    return sorted(found, key=lambda row: (-row["leaking"], -row["killed"], row["job"]))


def _number(values: Any, how: Any) -> float | None:
    return float(how(values)) if len(values) and not np.isnan(values).all() else None


def _heat(population: Population) -> list[Heat]:
    """The attempts of each job that has ranks."""
    frame = population.frame
    ranked = frame["rank"].notna().to_numpy(dtype=bool) & frame["job"].notna().to_numpy(dtype=bool)
    rate = population.number("growth_bytes_per_hour")
    rate = np.where(population.truth("leaking", False), 0.0, rate)
    rate[~population.judged] = np.nan
    found = []
    part = frame[ranked]
    groups: Any = part.groupby(["job", part["attempt"].fillna(-1)], sort=True).indices
    for (job, attempt), rows in groups.items():
        own = np.flatnonzero(ranked)[rows]
        ranks = frame["rank"].iloc[own].to_numpy(dtype=np.int64)
        size = int(ranks.max()) + 1
        if size > _LARGEST_WORLD or ranks.min() < 0:  # a number that is no rank
            continue
        growth: list[float | None] = [None] * size
        nodes = [""] * size
        for row, rank in zip(own, ranks):
            growth[rank] = None if np.isnan(rate[row]) else round(float(rate[row]))
            name = frame["node"].iloc[row]
            nodes[rank] = "" if name is None or name is pd.NA else str(name)
        found.append(Heat(str(job), None if attempt == -1 else int(attempt), growth, nodes))
    return found


def _kills(population: Population) -> list[dict[str, Any]]:
    """By node and limit: how many of its recordings were killed."""
    killed = population.killed
    frame = population.frame.assign(was_killed=killed)
    keys = ["node", "limit_bytes"]
    table = frame.groupby(keys, dropna=False, sort=False)["was_killed"].agg(["sum", "count"]).reset_index()
    table = table[table["sum"] > 0].sort_values(["sum", "node"], ascending=[False, True])
    return [
        {"node": str(row["node"]), "limit_bytes": None if pd.isna(row["limit_bytes"]) else int(row["limit_bytes"]),
         "killed": int(row["sum"]), "recordings": int(row["count"])}
        for row in table.head(_MOST_KILL_ROWS).to_dict("records")
    ]  # fmt: skip


def _news(population: Population, claims: Sequence[Claim]) -> dict[str, Any]:
    runs = population.said["runs"]
    new = population.is_new
    return {
        "since": runs[-2]["at"] if len(runs) > 1 else None,
        "recordings": int(new.sum()),
        "leaking": int((new & population.truth("leaking")).sum()),
        "killed": int((new & population.killed).sum()),
        "claims": [claim.says for claim in claims if claim.is_new],
        "gone": int(runs[-1].get("gone", 0)),
    }


def _problems(population: Population) -> list[dict[str, str]]:
    frame = population.frame
    bad = frame[frame["state"].isin(("unreadable", "failed", "unfinished"))].head(_MOST_PROBLEMS)
    return [{"url": str(row["url"]), "state": str(row["state"]), "problem": str(row["problem"])}
            for row in bad.to_dict("records")]  # fmt: skip


def _missing(population: Population) -> Iterator[str]:
    """Attempts of which some ranks left no recording that says whose it is."""
    frame = population.frame
    part = frame[frame["rank"].notna() & frame["job"].notna() & frame["world_size"].notna()]
    groups: Any = part.groupby(["job", part["attempt"].fillna(-1)], sort=True)
    for (job, attempt), own in groups:
        size, there = int(own["world_size"].max()), {int(rank) for rank in own["rank"]}
        if len(there) < size <= _LARGEST_WORLD:
            when = f", attempt {int(attempt)}" if attempt != -1 else ""
            gone = shortened(rank for rank in range(size) if rank not in there)
            yield f"{job}{when}: {size - len(there):,} of {size:,} ranks have no recording ({gone})"


def _recordings(count: int) -> str:
    return f"{count:,} recording{'' if count == 1 else 's'}"


def _caveats(population: Population, counts: Mapping[str, int]) -> Iterator[str]:
    if counts["not_judged"]:
        yield (
            f"{_recordings(counts['not_judged'])} without a verdict in the footer: nothing is said of leaks there; "
            "`leakscope fleet index` judges such, as far as its time goes"
        )
    if counts["provisional"]:
        yield (
            f"the verdict of {_recordings(counts['provisional'])} is provisional, of a look while they ran; "
            "`leakscope fleet index` judges them again"
        )
    if counts["cannot_tell"]:
        yield f"whether memory leaks in {_recordings(counts['cannot_tell'])}, counted on neither side"
    if counts["recordings"] and not population.frame["job"].notna().any():
        yield "no recording says to which job it belongs: ranks cannot be compared"
    missing = list(_missing(population))
    yield from missing[:_MOST_MISSING]
    if len(missing) > _MOST_MISSING:
        yield f"ranks have no recording in {len(missing) - _MOST_MISSING:,} attempts more"
