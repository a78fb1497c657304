"""The diagnoses: finds them, runs them in order, says what was skipped or failed.

A diagnosis is a file in this folder. It has ``NEEDS``, the tables without which it cannot
look, and ``findings(case, **thresholds)``, which yields ``Finding``, ``RuledOut`` and ``Skipped``. One that
declares ``AFTER_OTHERS`` (1, or a later turn) runs after the others and gets ``so_far``, the findings they made.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..findings import Finding, RuledOut, Skipped

if TYPE_CHECKING:
    from ..facts.case import Case

# Every kind a report may speak of. Those without an analyzer are named in the report as not looked for.
KINDS = (
    "retained-objects", "retained-graph", "cyclic-garbage", "refcount-drift", "native-growth", "fragmentation",
    "duplicate-model", "dataset-copies", "dataloader-workers", "compile-workers", "recompilation", "process-pileup",
    "thread-pileup", "fd-pileup", "shared-memory", "mapped-files", "eval-accumulation", "gpu-retention",
    "gpu-fragmentation", "gpu-other-process", "memory-pressure", "oom-kill", "crash", "unhealthy-training",
    "unexplained-growth",
)  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    """What all diagnoses together say of a recording, in the order in which they ran."""

    findings: Sequence[Finding]
    ruled_out: Sequence[RuledOut]
    skipped: Sequence[Skipped]


def diagnose(case: Case, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Diagnosis:
    """Every diagnosis asked; arguments and errors as of ``leakscope.analyze``."""
    findings: list[Finding] = []
    ruled_out: list[RuledOut] = []
    skipped: list[Skipped] = []
    analyzers = _analyzers(skipped)
    _check(only, thresholds, analyzers)
    for kind, analyzer in analyzers.items():
        if only and kind not in only:
            continue
        missing = [table for table in analyzer.NEEDS if not len(case.rows(table))]
        if missing:
            skipped.append(Skipped(kind, f"the recording has no {' and no '.join(missing)}"))
            continue
        try:
            results = list(analyzer.findings(case, **_arguments(analyzer, thresholds or {}, findings)))
        except Exception as error:  # one diagnosis that fails must not cost the others
            skipped.append(_failed(kind, error))
            continue
        findings += [result for result in results if isinstance(result, Finding)]
        ruled_out += [result for result in results if isinstance(result, RuledOut)]
        skipped += [result for result in results if isinstance(result, Skipped)]
        told = {result.kind for result in results if isinstance(result, Finding)} - {kind}  # a later look found it
        ruled_out = [result for result in ruled_out if result.kind not in told]
        skipped = [result for result in skipped if result.kind not in told]
    unknown = [kind for kind in KINDS if kind not in analyzers and kind not in {s.kind for s in skipped}]
    if unknown and not only:
        skipped.append(Skipped("others", f"not looked for in this version: {', '.join(unknown)}"))
    return Diagnosis(findings, ruled_out, skipped)


def _analyzers(skipped: list[Skipped]) -> dict[str, ModuleType]:
    """Module of every kind, by name; those that want to know what the others found come last."""
    modules = {}
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        kind = name.replace("_", "-")
        try:
            modules[kind] = importlib.import_module(f"{__name__}.{name}")
        except ImportError as error:
            skipped.append(_failed(kind, error))
    return dict(sorted(modules.items(), key=lambda item: getattr(item[1], "AFTER_OTHERS", 0)))


def _failed(kind: str, error: Exception) -> Skipped:
    return Skipped(kind, f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


def _arguments(analyzer: ModuleType, thresholds: Mapping[str, Any], findings: list[Finding]) -> dict[str, Any]:
    known = inspect.signature(analyzer.findings).parameters
    arguments = {name: value for name, value in thresholds.items() if name in known}
    if getattr(analyzer, "AFTER_OTHERS", 0):
        arguments["so_far"] = tuple(findings)
    return arguments


def _check(
    only: Collection[str] | None, thresholds: Mapping[str, Any] | None, analyzers: dict[str, ModuleType]
) -> None:
    for kind in only or ():
        if kind not in KINDS and kind not in analyzers:
            raise BadInput(f"there is no kind {kind!r}: there are {', '.join(sorted({*KINDS, *analyzers}))}")
    known = {name for module in analyzers.values() for name in inspect.signature(module.findings).parameters}
    for name in thresholds or ():
        if name not in known - {"case", "so_far"}:
            raise BadInput(f"there is no threshold {name!r}: there are {', '.join(sorted(known - {'case'}))}")
