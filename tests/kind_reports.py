"""What each kind of finding looks like: a committed recording's report, its picture, and the code before and after.

``python -m tests.kind_reports [KIND]...`` (part of ``make docs``) writes the reports and pictures into
docs/kinds/reports; ``docs_pages`` makes pages of them. Nothing in them is written by hand, so that none can drift, but
the changes of what ran on a device: those programs have no twins, and docs/kinds/changes has what one would change.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import leakscope
from leakscope.findings import Finding, Report
from leakscope.pages.pictures import of_plot
from leakscope.renderers import plots, render
from tests.golden import RECORDINGS, golden_programs

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "docs" / "kinds" / "reports"
CHANGES = ROOT / "docs" / "kinds" / "changes"
SNAPSHOTS = ROOT / "fixtures" / "snapshots"
ON_GPUS = ROOT / "tests" / "gpu"
WIDTH = 88
# By kind: a golden recording, one of tests/gpu, or files that `leakscope import` reads.
SOURCES = {
    "compile-workers": "compile_pool_nobody_uses-leaky",
    "crash": "array_refused-leaky",
    "cyclic-garbage": "cyclic_garbage-leaky",
    "dataloader-workers": "dataloader_workers-leaky",
    "dataset-copies": "dataset_copies-leaky",
    "duplicate-model": "duplicate_model-leaky",
    "eval-accumulation": "eval_accumulation-leaky",
    "fd-pileup": "fd_pileup-leaky",
    "filling": "clean_cache_on_its_way-clean",
    "fragmentation": "fragmentation-leaky",
    "gpu-fragmentation": "snapshots/free_in_pieces.pickle.gz",
    "gpu-imbalance": "snapshots/uneven_ranks",
    "gpu-other-process": "gpu/others_hold_it",
    "gpu-out-of-memory": "snapshots/full.pickle.gz",
    "gpu-peak": "snapshots/peak_of_attention.pickle.gz",
    "gpu-retention": "gpu/outputs_kept",
    "held-memory": "held_memory_stages-leaky",
    "map-pileup": "map_pileup-leaky",
    "mapped-files": "shards_mapped_and_changed-leaky",
    "memory-peak": "memory_peak-leaky",
    "memory-pressure": "killed_by_its_cgroup-leaky",
    "native-growth": "native_growth-leaky",
    "oom-kill": "killed_by_its_cgroup-leaky",
    "process-pileup": "process_pileup-leaky",
    "recompilation": "compiled_for_every_length-leaky",
    "refcount-drift": "refcount_drift-leaky",
    "retained-graph": "retained_graph-leaky",
    "retained-objects": "retained_objects_attribute_chain-leaky",
    "shared-memory": "shared_memory-leaky",
    "thread-pileup": "thread_pileup-leaky",
    "unexplained-growth": "unexplained_growth_isolated-leaky",
    "unhealthy-training": "unhealthy_training-leaky",
}  # fmt: skip
JOINS = ("eval-accumulation",)  # which mostly is a part of what another finding says
_MOST_LINES = 60  # of a difference


def report_of(kind: str) -> tuple[Report, Finding]:
    """The report that a page shows, and the finding in it."""
    report = _judged(SOURCES[kind], [kind] if kind in JOINS else None)
    found = [one for one in report.findings if one.kind == kind]
    assert found, f"{SOURCES[kind]} has no finding {kind}: choose another recording, or put it into JOINS"
    return report, found[0]


def alone(kind: str) -> str:
    """Why a report of this kind alone is shown."""
    asked = f"`leakscope report --only {kind}`"
    return f"In a whole report it joins the finding of the variable. This is {asked}:\n\n" if kind in JOINS else ""


def _judged(source: str, only: list[str] | None = None) -> Report:
    room, _, name = source.rpartition("/")
    if room != "snapshots":
        folder = ON_GPUS / "recordings" if room == "gpu" else RECORDINGS
        return leakscope.analyze(leakscope.open_recording(folder / f"{name}.parquet"), only)
    from tests.importing.files import imported

    with tempfile.TemporaryDirectory() as folder:
        return leakscope.analyze(leakscope.open_recording(imported(Path(folder), SNAPSHOTS / name).path))


def excerpt(report: Report, finding: Finding) -> str:
    """The first screen of a report with this finding alone: the verdict, the finding, its evidence."""
    shown = replace(
        report, findings=[finding], ledger=(), bill=(), heap=(), processes=(), tensor_budget=(), gpu_lines=(),
        ruled_out=(), skipped=(), recording=replace(report.recording, path="run.parquet", notes=[], complete=True),
    )  # fmt: skip
    text = render(shown, "terminal", color=False, width=WIDTH)
    return text.partition("\nRecording cost:")[0].rstrip() + "\n"


def picture(report: Report, finding: Finding) -> str | None:
    """The chart of memory over time, or of the device that the finding is about; None: the recording has neither."""
    drawn = plots(report)
    on_device = finding.subject.device not in (None, "cpu") or finding.kind.startswith("gpu-")
    for name in ("device-0", "timeline") if on_device else ("timeline", "device-0"):
        if name in drawn:
            return "\n".join(line.strip() for line in of_plot(drawn[name]).splitlines() if line.strip()) + "\n"
    return None


def before_and_after(kind: str) -> str:
    """The program that leaks, and what its clean twin does instead. Empty: there is nothing to change."""
    by_hand = CHANGES / f"{kind}.diff"
    if by_hand.exists():
        return by_hand.read_text(encoding="utf-8")
    program = _program(SOURCES[kind]) if kind in SOURCES else None
    if program is None:
        return ""
    before = program.read_text(encoding="utf-8").splitlines()
    twin = program.with_name("clean.py")
    if program.name != "leaky.py" or not twin.exists():
        return ""
    after = twin.read_text(encoding="utf-8").splitlines()
    lines = [line.rstrip() for line in difflib.unified_diff(before, after, "before", "after", lineterm="", n=3)]
    shown = ["@@" if line.startswith("@@") else line for line in lines[2:]]
    return "\n".join(shown[:_MOST_LINES]).rstrip() + "\n"


def _program(source: str) -> Path | None:
    return next((program.path for program in golden_programs() if program.name == source), None)


def write(kinds: list[str]) -> None:
    REPORTS.mkdir(parents=True, exist_ok=True)
    for kind in kinds or SOURCES:
        report, finding = report_of(kind)
        (REPORTS / f"{kind}.txt").write_text(excerpt(report, finding), encoding="utf-8")
        drawn = picture(report, finding)
        if drawn is not None:
            (REPORTS / f"{kind}.svg").write_text(drawn, encoding="utf-8")
        print(kind, "without a picture" if drawn is None else f"{len(drawn) / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    write(sys.argv[1:])
