"""From a recording to a report: finds the analyzers, runs them in order, says what was skipped or failed.

An analyzer is a file in this folder without a leading underscore. It has ``NEEDS``, the tables without which it cannot
look, and ``findings(recording, **thresholds)``, which yields ``Finding``, ``RuledOut`` and ``Skipped``. One that
declares ``AFTER_OTHERS`` (1, or a later turn) runs after the others and gets ``so_far``, the findings they made.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..findings import Finding, Report, RuledOut, Skipped, in_order
from . import _attached, _budget, _excerpts, _experiments, _heap_view, _ledger, _processes, _timeline, _verdict

if TYPE_CHECKING:
    from ..storage import Recording

# Every kind a report may speak of. Those without an analyzer are named in the report as not looked for.
KINDS = (
    "retained-objects", "retained-graph", "cyclic-garbage", "refcount-drift", "native-growth", "fragmentation",
    "duplicate-model", "dataset-copies", "dataloader-workers", "compile-workers", "recompilation", "process-pileup",
    "thread-pileup", "fd-pileup", "shared-memory", "mapped-files", "eval-accumulation", "gpu-retention",
    "gpu-fragmentation", "gpu-other-process", "memory-pressure", "oom-kill", "crash", "unhealthy-training",
    "unexplained-growth",
)  # fmt: skip


def analyze(
    recording: Recording, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None
) -> Report:
    """The whole answer to one recording.

    ``only`` limits the report to these kinds; ``thresholds`` replaces keyword arguments of the analyzers by name
    (each takes those it knows). **Errors** BadInput for a kind or a threshold that does not exist.
    """
    findings: list[Finding] = []
    ruled_out: list[RuledOut] = []
    skipped: list[Skipped] = []
    analyzers = _analyzers(skipped)
    _check(only, thresholds, analyzers)
    for kind, analyzer in analyzers.items():
        if only and kind not in only:
            continue
        missing = [table for table in analyzer.NEEDS if not len(recording.tables[table])]
        if missing:
            skipped.append(Skipped(kind, f"the recording has no {' and no '.join(missing)}"))
            continue
        try:
            results = list(analyzer.findings(recording, **_arguments(analyzer, thresholds or {}, findings)))
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
    findings = in_order(findings)
    found = {finding.kind for finding in findings}
    tried = (r for r in _experiments.ruled_out(recording) if r.kind not in found and (not only or r.kind in only))
    ruled_out += tried
    return Report(
        recording=_attached.facts(recording, _verdict.facts(recording)),
        verdict=_attached.verdict(recording, _verdict.verdict(recording, findings)),
        ledger=_ledger.ledger(recording),
        findings=findings,
        ruled_out=sorted(ruled_out, key=lambda r: (r.kind, r.reason)),
        skipped=[skip for skip in skipped if not only or skip.kind in only],
        tensor_budget=_budget.tensor_budget(recording),
        processes=_processes.process_rows(recording),
        timeline=_timeline.timeline(recording),
        heap=_heap_view.heap_views(recording),
        excerpts=_excerpts.excerpts(recording, findings),
    )


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
        if name not in known - {"recording", "so_far"}:
            raise BadInput(f"there is no threshold {name!r}: there are {', '.join(sorted(known - {'recording'}))}")
