"""The diagnoses: finds them, runs them in order, says what was skipped or failed.

A diagnosis is a file in this folder, and nothing else needs to know of it: its kind is the file's name with dashes, and
its docstring is the kind's page in docs/. It has

- ``NEEDS``, the tables without which it cannot look;
- ``SEEN_BY``, if it likes: columns, as ``table.column``, of which an imported recording has to have one; without any,
  what it rules out was not checked;
- ``TELLS``, what its findings mean for the verdict, in words of ``kinds.MEANINGS``;
- ``AFTER``, if it takes findings: the kinds whose it has to know; ``"*"`` is all that do not say ``"*"`` themselves;
- ``RULE``, if it likes: the name of a switch of ``leakscope check`` that allows none of its findings;
- ``findings(case, **thresholds)``, which yields ``Finding``, ``RuledOut`` and ``Skipped``. Where it takes ``so_far``,
  it gets what those found that it comes after, directly or through others.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

from ..errors import BadInput
from ..facts import imported
from ..facts.case import Case
from ..findings import Finding, RuledOut, Skipped
from ..kinds import Kind, kind_of

ALL_OTHERS = "*"
_SAID = {  # what a reader who knows no table calls what is in it
    "takes": "snapshots", "heap_nodes": "snapshots of who holds what", "sentinels": "readings from inside a process",
    "process_samples": "samples of memory", "gpu_snapshots": "snapshots of GPU memory",
    "compile_counters": "compilations",
}  # fmt: skip
_OF_SOME_JOBS = frozenset(("compile_counters", "gpu_snapshots", "phases"))  # tables that others have no rows for
_kind_of = cache(kind_of)  # the same for each of the thousands of recordings of a fleet


@dataclass(frozen=True)
class Diagnosis:
    """What all diagnoses together say of a recording, in the order in which they ran."""

    findings: Sequence[Finding]
    ruled_out: Sequence[RuledOut]
    skipped: Sequence[Skipped]


def diagnose(case: Case, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Diagnosis:
    """Every diagnosis asked; arguments and errors as of ``leakscope.analyze``."""
    found: dict[str, list[Finding]] = {}  # by the diagnosis that found it, which may be of another kind
    ruled_out: list[RuledOut] = []
    skipped: list[Skipped] = []
    analyzers = _analyzers(skipped)
    _check(only, thresholds, analyzers)
    meanings = {kind: _kind(kind, analyzer) for kind, analyzer in analyzers.items()}
    after = {kind: getattr(analyzer, "AFTER", ()) for kind, analyzer in analyzers.items()}
    for kind, earlier in in_turn(after, names()).items():
        if only and kind not in only:
            continue
        analyzer = analyzers[kind]
        missing = [table for table in analyzer.NEEDS if not len(case.rows(table))]
        if missing:
            lacks = f"the recording has no {' and no '.join(_SAID.get(table, table) for table in missing)}"
            why_not = imported.why_not(case.recording)
            skipped.append(Skipped(kind, why_not or lacks, applies=bool(why_not) or _OF_SOME_JOBS.isdisjoint(missing)))
            continue
        so_far = tuple(finding for other, own in found.items() if other in earlier for finding in own)
        given, asked = {**(thresholds or {}), "so_far": so_far}, _parameters(analyzer.findings)
        try:
            results = list(analyzer.findings(case, **{name: given[name] for name in given if name in asked}))
        except Exception as error:  # one diagnosis that fails must not cost the others
            skipped.append(_failed(kind, error))
            continue
        results = _as_far_as_seen(case, analyzer, results)
        own = [result for result in results if isinstance(result, Finding)]
        found[kind] = [replace(finding, means=meanings.get(finding.kind, meanings[kind])) for finding in own]
        ruled_out += [result for result in results if isinstance(result, RuledOut)]
        skipped += [result for result in results if isinstance(result, Skipped)]
        told = {finding.kind for finding in own} - {kind}  # a later look found it
        ruled_out = [result for result in ruled_out if result.kind not in told]
        skipped = [result for result in skipped if result.kind not in told]
    return Diagnosis([finding for own in found.values() for finding in own], ruled_out, skipped)


def _as_far_as_seen(
    case: Case, analyzer: ModuleType, results: Sequence[Finding | RuledOut | Skipped]
) -> list[Finding | RuledOut | Skipped]:
    """Of files of other tools: what they never looked at was not checked, though nothing was found."""
    seen_by, why = getattr(analyzer, "SEEN_BY", ()), imported.why_not(case.recording)
    if not (seen_by and why) or any(_has_values(case, *name.split(".")) for name in seen_by):
        return list(results)
    return [Skipped(result.kind, why) if isinstance(result, RuledOut) else result for result in results]


def _has_values(case: Case, table: str, column: str) -> bool:
    least = 2 if table == "process_samples" else 1  # one reading is no course
    return int(case.rows(table)[column].notna().sum()) >= least


def names() -> tuple[str, ...]:
    """Every kind a report may speak of, sorted."""
    return tuple(sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if m.name[0] != "_"))


def kinds() -> dict[str, Kind]:
    """What each kind means, by name."""
    return {kind: _kind(kind, analyzer) for kind, analyzer in _analyzers([]).items()}


def in_turn(after: Mapping[str, Collection[str]], known: Collection[str] = ()) -> dict[str, frozenset[str]]:
    """The diagnoses in the order in which they run, by name where none waits; each with all that it comes after.

    ``known`` are kinds that may be waited for though they do not run. **Errors** ValueError for one that does not
    exist, and for diagnoses that wait for each other.
    """
    for kind, others in after.items():
        for other in others:
            if other != ALL_OTHERS and other not in after and other not in known:
                raise ValueError(f"{kind} comes AFTER {other!r}, and there is no such diagnosis")
    plain = {kind for kind, others in after.items() if ALL_OTHERS not in others}
    waits = {kind: set(others) & after.keys() | (set() if kind in plain else plain) for kind, others in after.items()}
    turns: dict[str, frozenset[str]] = {}
    while len(turns) < len(waits):
        ready = sorted(kind for kind in waits if kind not in turns and waits[kind] <= turns.keys())
        if not ready:
            raise ValueError(f"by their AFTER these wait for each other: {', '.join(sorted(waits.keys() - turns))}")
        turns |= {kind: frozenset(waits[kind]).union(*(turns[other] for other in waits[kind])) for kind in ready}
    return turns


def _analyzers(skipped: list[Skipped]) -> dict[str, ModuleType]:
    """Module of every kind, by name."""
    modules = {}
    for kind in names():
        try:
            modules[kind] = importlib.import_module(f"{__name__}.{kind.replace('-', '_')}")
        except ImportError as error:  # noqa: PERF203
            skipped.append(_failed(kind, error))
    return modules


def _kind(name: str, analyzer: ModuleType) -> Kind:
    headline, rule = getattr(analyzer, "HEADLINE", ""), getattr(analyzer, "RULE", "")
    return _kind_of(name, analyzer.__doc__, tuple(analyzer.TELLS), headline, rule)


def _failed(kind: str, error: Exception) -> Skipped:
    return Skipped(kind, f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


@cache
def _parameters(findings: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(findings).parameters)


def _check(
    only: Collection[str] | None, thresholds: Mapping[str, Any] | None, analyzers: dict[str, ModuleType]
) -> None:
    there = names()
    for kind in only or ():
        if kind not in there:
            raise BadInput(f"there is no kind {kind!r}: there are {', '.join(there)}")
    known = {name for module in analyzers.values() for name in _parameters(module.findings)} - {"case", "so_far"}
    for name in thresholds or ():
        if name not in known:
            raise BadInput(f"there is no threshold {name!r}: there are {', '.join(sorted(known))}")
