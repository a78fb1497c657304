"""The same finding in many recordings, and what separates these from the others; kills and lost ends too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..units import format_rate
from .claims import KILLS, LEAK, LOST, Claim, where
from .columns import FINDING
from .explaining import Region, regions
from .population import Population, as_mask, first_of, median

_TOLD_AS_KILLS = ("oom-kill",)
_EXAMPLES, _HOLDERS = 5, 3
_KILLED = "killed for lack of memory"
_WHOLE = {column.name for column in FINDING if column.type == "int"}


def leaks(population: Population) -> Iterator[Claim]:
    """A claim for all warnings or worse about the same, those in most recordings first."""
    told = population.findings
    if len(told):
        worse = told[told["severity"].isin(("critical", "warning")) & ~told["kind"].isin(_TOLD_AS_KILLS)]
        groups = [own for _, own in worse.groupby("likeness", sort=False)]
        for own in sorted(groups, key=lambda own: -own["row"].nunique()):
            yield _cluster(population, own)
    named = as_mask(population.size, told["row"].unique() if len(told) else [])
    if (nameless := population.truth("leaking") & ~named).any():
        rows = np.flatnonzero(nameless)
        yield from _told(population, nameless, population.judged, LEAK, "critical", "leak, without a finding", rows, {})


def notes(population: Population) -> list[dict[str, Any]]:
    """What is told in notes only: how many recordings have each."""
    told = population.findings
    if not len(told):
        return []
    found = []
    for _, own in told[told["severity"] == "note"].groupby("likeness", sort=False):
        found.append({**_plain(first_of(own)), "recordings": int(own["row"].nunique())})
    return sorted(found, key=lambda one: -one["recordings"])


def _cluster(population: Population, own: pd.DataFrame) -> Claim:
    rows = np.unique(own["row"].to_numpy())
    positive = as_mask(population.size, rows)
    best = first_of(own)
    rates = own["bytes_per_hour"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    figures = {
        "bytes": int(own["bytes"].fillna(0).sum()),
        "bytes_per_hour_median": _finite(median(rates)),
        "bytes_per_hour_most": _finite(float(np.nanmax(rates))) if not np.isnan(rates).all() else None,
    }
    severity = "critical" if (own["severity"] == "critical").any() else "warning"
    (claim,) = _told(
        population,
        positive,
        population.judged | positive,
        LEAK,
        severity,
        str(best["title"]),
        rows,
        figures,
        _plain(best),
    )
    return claim


def kills(population: Population) -> Iterator[Claim]:
    """Recordings in which a process was killed for lack of memory: where they lie, if they lie anywhere."""
    killed = population.killed
    known = killed | (population.frame["state"] == "final").to_numpy(dtype=bool)
    told = np.zeros(population.size, dtype=bool)
    for claim in _by_region(population, killed, known, KILLS, "critical", _KILLED):
        told[claim.rows] = True
        yield _with_what_filled_it(population, claim)
    for claim in _scattered(population, killed & ~told, known):
        yield _with_what_filled_it(population, claim)


def _with_what_filled_it(population: Population, claim: Claim) -> Claim:
    """With who held the memory, and the line, as the recordings that were killed say; the most frequent first."""
    findings = population.findings
    if not len(findings):
        return claim
    own = findings[findings["kind"].isin(_TOLD_AS_KILLS) & findings["row"].isin(claim.rows)]
    own = own[own["holder"].notna()]
    counts = own.groupby("holder")["row"].nunique().sort_values(ascending=False, kind="stable")
    if not len(counts):
        return claim
    named = ", ".join(f"{holder} in {count:,}" for holder, count in counts.head(_HOLDERS).items())
    others = f" and {len(counts) - _HOLDERS:,} more" if len(counts) > _HOLDERS else ""
    best = _plain(first_of(own[own["holder"] == counts.index[0]]))
    return replace(claim, says=f"{claim.says}; filled by {named}{others}", finding=best)


def _scattered(population: Population, killed: Any, known: Any) -> Iterator[Claim]:
    """The kills that nothing separates from the others: told by job, since each is one too many."""
    job = population.frame["job"].fillna("").to_numpy(dtype=object)
    for name in sorted(set(job[killed])):
        rows, of = np.flatnonzero(killed & (job == name)), int((known & (job == name)).sum())
        place = f" of {of:,} recordings in job {name}" if name else f" of {of:,} recordings without a job"
        facts = population.facts(rows)
        share = "; ".join(f"{key} {facts[key]}" for key in ("attempt", "rank", "node", "pod") if key in facts)
        says = f"{_KILLED}: {len(rows):,}{place} ({share})"
        yield Claim(
            KILLS, "critical", says, len(rows), of, hit=len(rows), inside=of, facts=facts,
            is_new=_is_new(population, rows), urls=_examples(population, rows), rows=rows,
        )  # fmt: skip


def lost(population: Population) -> Iterator[Claim]:
    """Recordings without an end: unfinished journals, and recorders that did not end in order."""
    state = population.frame["state"]
    ended = (population.frame["ended"] == "lost").fillna(False).to_numpy(dtype=bool)
    missing = ended | state.isin(("unfinished", "checkpoint", "empty")).to_numpy(dtype=bool)
    known = (state != "unreadable").to_numpy(dtype=bool)
    yield from _by_region(population, missing, known, LOST, "warning", "without an end (lost, or still running)")


def _by_region(
    population: Population, positive: Any, known: Any, kind: str, severity: str, what: str
) -> Iterator[Claim]:
    """A claim for each region that is told apart; what lies scattered is counted in the report's tables."""
    total = int((positive & known).sum())
    for region in regions(positive, known, population.attributes):
        rows = region.rows[positive[region.rows]]
        yield _claim(population, region, kind, severity, what, rows, total, {}, {})


def _told(
    population: Population, positive: Any, known: Any, kind: str, severity: str, what: str, rows: Any,
    figures: dict[str, Any], finding: dict[str, Any] | None = None,
) -> Iterator[Claim]:  # fmt: skip
    """One claim for all of them, with its largest region."""
    found = regions(positive, known, population.attributes)
    of = int(known.sum())
    if not found:
        count = f"{len(rows):,} of {of:,} recordings" if of > 1 else "the only recording"
        says = f"{what}: {count}{_shared(population, rows)}"
        yield Claim(
            kind, severity, says, len(rows), of, facts=population.facts(rows), figures=figures, finding=finding or {},
            is_new=_is_new(population, rows), urls=_examples(population, rows), rows=rows,
        )  # fmt: skip
        return
    if len(found) == 1 or found[0].hit >= 0.9 * len(rows):
        yield _claim(population, found[0], kind, severity, what, rows, len(rows), figures, finding or {})
        return
    places = "; ".join(f"{where(one.conditions)}: {one.hit:,} of {one.inside:,}" for one in found)
    claim = _claim(population, found[0], kind, severity, what, rows, len(rows), figures, finding or {})
    yield Claim(**{**vars(claim), "says": f"{what}: {len(rows):,} recordings; {places}"})


def _claim(
    population: Population, region: Region, kind: str, severity: str, what: str, rows: Any, total: int,
    figures: dict[str, Any], finding: dict[str, Any],
) -> Claim:  # fmt: skip
    elsewhere = f"{region.missed:,} of {region.outside:,} elsewhere" if region.outside else ""
    says = f"{what}: {region.hit:,} of {region.inside:,} recordings {where(region.conditions)}; {elsewhere}"
    rate = figures.get("bytes_per_hour_median")
    if rate:
        says += f"; {format_rate(rate, population.longest_s)} each"
    return Claim(
        kind, severity, says, len(rows), total, region.conditions, region.hit, region.inside, region.missed,
        region.outside, population.facts(rows), figures, finding, _is_new(population, rows),
        _examples(population, rows), rows,
    )  # fmt: skip


def _shared(population: Population, rows: Any) -> str:
    """What few recordings have in common is said, though it could be chance."""
    facts = population.facts(rows)
    known = [f"{name.replace('_', ' ')} {facts[name]}" for name in ("job", "rank", "node", "pod") if name in facts]
    return f" ({', '.join(known)})" if known else ""


def _is_new(population: Population, rows: Any) -> bool:
    return bool(len(rows)) and bool(population.is_new[rows].all())


def _examples(population: Population, rows: Any) -> list[str]:
    return [str(url) for url in population.frame["url"].iloc[rows[:_EXAMPLES]]]


def _plain(finding: Any) -> dict[str, Any]:
    """Its columns as Python has them: a whole number is one also where another finding has none."""
    found: dict[str, Any] = {}
    for name, value in dict(finding).items():
        if name in ("row", "likeness"):
            continue
        if value is None or value != value:
            found[name] = None
        elif name in _WHOLE:
            found[name] = int(value)
        else:
            found[name] = value.item() if hasattr(value, "item") else value
    return found


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
