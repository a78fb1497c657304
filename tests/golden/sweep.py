"""What each hand-set number buys: all of them made smaller and larger, one at a time, over the golden recordings.

A number whose change makes no verdict and no first finding another is a number that nobody needs, or that no recording
tries. ``sweep.json`` has what was found; a sweep goes on where the last one stopped, since it takes hours.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pyarrow as pa

from leakscope.storage import Recording, open_recording
from tests.end_to_end.programs import Program

from . import FOLDER, golden_programs, recording_of
from .thresholds import JUDGING, PACKAGE, Threshold, changed, thresholds, uses

RESULTS = FOLDER / "sweep.json"
FACTORS = (0.8, 1.25)
LONGEST_S = 1800.0  # of one number by one factor

Outcome = tuple[Any, ...]
Lines = dict[str, set[int]]  # that ran, by file

_recordings: dict[str, Recording] = {}  # opened before all forks, so that each has their tables at hand


def sweep(programs: Sequence[Program], of_file: str, minutes: float | None, at_once: int) -> None:
    """Try all numbers that have no result yet (``of_file``: anew those of files whose path contains it).

    What only some of the programs say is printed, but no result.
    """
    found = _results()
    present = {threshold.key: threshold for threshold in thresholds()}
    found = {key: result for key, result in found.items() if key in present and result["text"] == present[key].text}
    due = [t for t in present.values() if (of_file in t.file if of_file else t.key not in found)]
    if not due:
        print("every number has a result: python -m tests.golden --sweep FILE tries those of a file anew")
        return
    _open_all(programs)
    ends = time.monotonic() + (minutes or float("inf")) * 60
    context = multiprocessing.get_context("fork")  # each task in a process of its own: it loads other code
    with context.Pool(at_once, maxtasksperchild=1) as pool:
        base = dict(zip(_recordings, pool.imap(_looked_at, _recordings, chunksize=1)))
        order = list(_recordings)
        for threshold in due:
            if time.monotonic() > ends:
                break
            concerned = _concerned(threshold, {name: lines for name, (_, lines) in base.items()}, order)
            expected = {name: base[name][0] for name in concerned}
            tried = [pool.apply_async(_tried, (threshold, factor, expected)) for factor in FACTORS]
            differing = [_result(one) for one in tried]
            found[threshold.key] = {
                "file": threshold.file, "name": threshold.name, "text": threshold.text, "recordings": len(concerned),
                **{f"x{factor:g}": difference for factor, difference in zip(FACTORS, differing)},
            }  # fmt: skip
            print(_line(found[threshold.key]), flush=True)
            if len(programs) == len(golden_programs()):
                write(found)
            for difference in filter(None, differing):  # who differs once is likely to differ again
                name = difference.partition(":")[0]
                order.sort(key=lambda other, first=name: other != first)
    idle = sum(not any(result[f"x{factor:g}"] for factor in FACTORS) for result in found.values())
    print(f"{len(found)} of {len(present)} numbers tried, {idle} of them change nothing")


def write(found: dict[str, dict[str, Any]]) -> None:
    rows = ",\n".join(json.dumps(found[key]) for key in sorted(found))  # a number a line
    RESULTS.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def _results() -> dict[str, dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    return {f"{row['file']} {row['name']}": row for row in json.loads(RESULTS.read_text(encoding="utf-8"))}


def _line(result: dict[str, Any]) -> str:
    differing = "; ".join(f"x{f:g} {result[f'x{f:g}']}" for f in FACTORS if result[f"x{f:g}"])
    return f"{result['file']} {result['name']} = {result['text']}: {differing or 'nothing'} ({result['recordings']})"


def _open_all(programs: Sequence[Program]) -> None:
    pa.set_cpu_count(1)  # threads do not outlive a fork
    for program in programs:
        if recording_of(program).exists():
            recording = open_recording(recording_of(program))
            for name in recording.tables:
                recording.tables[name]
            _recordings[program.name] = recording


def _concerned(threshold: Threshold, ran: dict[str, Lines], order: Sequence[str]) -> list[str]:
    """The recordings whose judging comes by a line that uses the number."""
    used = uses(threshold)
    if used is None:
        return list(order)
    return [
        name
        for name in order
        if any(not lines.isdisjoint(r) for path, rs in used.items() if (lines := ran[name].get(str(path))) for r in rs)
    ]


def _result(tried: Any) -> str | None:
    try:
        return tried.get(LONGEST_S)
    except multiprocessing.TimeoutError:
        return "all: takes too long"


def _looked_at(name: str) -> tuple[Outcome, Lines]:
    """What a recording is judged as, and the lines that ran for it."""
    import coverage

    _forget_judging()
    watcher = coverage.Coverage(data_file=None, include=[str(PACKAGE / folder / "*") for folder in JUDGING])
    reporting = importlib.import_module("leakscope.reporting")
    watcher.start()
    try:
        outcome = _outcome(reporting, _recordings[name])
    finally:
        watcher.stop()
    data = watcher.get_data()
    return outcome, {file: set(data.lines(file) or ()) for file in data.measured_files()}


def _tried(threshold: Threshold, factor: float, expected: dict[str, Outcome]) -> str | None:
    """``name: was, now is`` of the first recording that is judged otherwise; None if none is."""
    _forget_judging()
    sys.meta_path.insert(0, _Changed(threshold, factor))
    try:
        reporting = importlib.import_module("leakscope.reporting")
    except Exception as error:
        return f"all: {type(error).__name__}: {error}"
    for name, outcome in expected.items():
        try:
            now = _outcome(reporting, _recordings[name])
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        if now != outcome:
            return f"{name}: {_short(outcome)}, now {_short(now)}"
    return None


def _outcome(reporting: ModuleType, recording: Recording) -> Outcome:
    """The verdict and the first finding: what a user acts on."""
    report = reporting.analyze(recording)
    first = report.findings[0] if report.findings else None
    said = (first.kind, first.subject.variable, first.subject.line) if first else ()
    failed = tuple(skip.reason for skip in report.skipped if skip.reason.startswith("failed"))
    return (report.verdict.leaking, report.verdict.killed, *said, *failed)


def _short(outcome: Outcome) -> str:
    leaking, _, *said = outcome
    return " ".join([{True: "leaking", False: "not leaking", None: "cannot tell"}[leaking], *map(str, said)])


def _forget_judging() -> None:
    """So that it is loaded anew, and nothing it remembers is left."""
    parts = tuple(f"leakscope.{folder}" for folder in JUDGING)
    for name in [name for name in sys.modules if name.startswith(parts)]:
        del sys.modules[name]


class _Changed(importlib.abc.MetaPathFinder):
    """Loads one file of the package with one number changed."""

    def __init__(self, threshold: Threshold, factor: float) -> None:
        self.path = PACKAGE / threshold.file
        self.module = ".".join(("leakscope", *Path(threshold.file).with_suffix("").parts)).removesuffix(".__init__")
        self.source = changed(self.path.read_text(encoding="utf-8"), threshold, factor)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        folders = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        loader = _Loader(name, str(self.path), self.source)
        return importlib.util.spec_from_file_location(
            name, self.path, loader=loader, submodule_search_locations=folders
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)
