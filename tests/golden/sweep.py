"""What each hand-set number buys: all of them made smaller, then larger, together, over the golden recordings.

Where a recording is judged otherwise, fewer and fewer of them are changed until the one that did it is left. That one
matters and is not tried again. What is left is tried at the extremes: at 0, then at infinity. Of a number that changes
nothing even there nobody notices whether it exists: delete it with the code that it was for, or say in a comment which
case it guards, and give that case a test. ``sweep.json`` has what was found: a sweep that was stopped goes on from it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pyarrow as pa

from leakscope.storage import Recording, open_recording
from tests.end_to_end.programs import Program

from . import FOLDER, golden_programs, recording_of
from .thresholds import JUDGING, PACKAGE, Threshold, changed, thresholds

RESULTS = FOLDER / "sweep.json"
FACTORS = (0.8, 1.25, 0.0, math.inf)  # in this order: what matters at 0.8 is no news at 0
LONGEST_S = 30  # of one judging: a number may keep a loop going
MOST_BYTES = 6 << 30  # of one process, for the same reason

Outcome = tuple[Any, ...]

_recordings: dict[str, Recording] = {}  # opened before all forks, so that each has their tables at hand


def sweep(programs: Sequence[Program], of_file: str, minutes: float | None, at_once: int) -> None:
    """Find the numbers that matter to some recording (``of_file``: anew those of files whose path contains it).

    What is found of some of the programs, or in too little time, is written too: then no number is known to be idle.
    """
    present = {threshold.key: threshold for threshold in thresholds()}
    matters = {
        key: row["matters"]
        for key, row in _results().items()
        if key in present and row["text"] == present[key].text and row["matters"] and not (of_file and of_file in key)
    }
    tried = [threshold for key, threshold in present.items() if not of_file or of_file in threshold.file]
    _open_all(programs)
    ends = time.monotonic() + (minutes or float("inf")) * 60
    context = multiprocessing.get_context("fork")  # each task in a process of its own: it loads other code
    undone = []

    def look(job: tuple[str, float]) -> None:
        if time.monotonic() > ends:
            undone.append(job)
            return
        left = [threshold for threshold in tried if threshold.key not in matters]
        for key, difference in pool.apply(_search, (*job, left, ends)):
            matters.setdefault(key, difference)
            print(f"{key} = {present[key].text}: {difference}", flush=True)

    with context.Pool(at_once, maxtasksperchild=1) as pool, ThreadPoolExecutor(at_once) as threads:
        list(threads.map(look, [(name, factor) for factor in FACTORS for name in _recordings]))
    is_whole = not undone and time.monotonic() <= ends and len(programs) == len(golden_programs())
    write(present, matters, is_whole)
    idle = [key for key in present if key not in matters]
    print(f"{len(matters)} of {len(present)} numbers matter to some recording")
    if is_whole:
        print("\n  ".join(["the others change nothing:", *idle]))


def write(present: dict[str, Threshold], matters: dict[str, str], is_whole: bool) -> None:
    """``matters``: to which recording, and how; None: to none, empty: not known yet."""
    unknown = None if is_whole else ""
    rows = [
        {"file": one.file, "name": one.name, "text": one.text, "matters": matters.get(key, unknown)}
        for key, one in sorted(present.items())
    ]
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")  # a number a line


def _results() -> dict[str, dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    return {f"{row['file']} {row['name']}": row for row in json.loads(RESULTS.read_text(encoding="utf-8"))}


def _open_all(programs: Sequence[Program]) -> None:
    pa.set_cpu_count(1)  # threads do not outlive a fork
    for program in programs:
        if recording_of(program).exists():
            recording = open_recording(recording_of(program))
            for name in recording.tables:
                recording.tables[name]
            _recordings[program.name] = recording


def _search(name: str, factor: float, left: Sequence[Threshold], ends: float) -> list[tuple[str, str]]:
    """The numbers that matter to a recording, each with ``name x0.8: was, now is``.

    At the extremes a number may matter only together with others that are absurd as well. These are not counted, and
    are left alone for the rest of this search.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    same = _outcome(name, (), factor)
    found = []
    left = list(left)
    known = 0  # so many of the first change nothing together
    while time.monotonic() <= ends and _outcome(name, left, factor) != same:
        most = len(left)
        while most - known > 1:
            middle = (known + most) // 2
            known, most = (middle, most) if _outcome(name, left[:middle], factor) == same else (known, middle)
        one = left.pop(most - 1)
        alone = _outcome(name, [one], factor)
        if alone != same:
            found.append((one.key, f"{name} x{factor:g}: {_short(same)}, now {_short(alone)}"))
    return found


def _outcome(name: str, of: Sequence[Threshold], factor: float) -> Outcome:
    """How a recording is judged with these numbers changed: the verdict, and each finding with its place."""
    for module in [m for m in sys.modules if m.startswith(tuple(f"leakscope.{folder}" for folder in JUDGING))]:
        del sys.modules[module]  # so that it is loaded anew, and nothing it remembers is left
    finder = _Changed(of, factor)
    sys.meta_path.insert(0, finder)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST_S)
    try:
        reporting: ModuleType = importlib.import_module("leakscope.reporting")
        report = reporting.analyze(_recordings[name])
    except Exception as error:
        return (None, None, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
        sys.meta_path.remove(finder)
    found = ((f.kind, f.subject.variable, f.subject.line) for f in report.findings)
    failed = tuple(skip.reason for skip in report.skipped if skip.reason.startswith("failed"))
    return (report.verdict.leaking, report.verdict.killed, *found, *failed)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"judging takes longer than {LONGEST_S} s")


def _short(outcome: Outcome) -> str:
    leaking, _, *said = outcome
    word = {True: "leaking", False: "not leaking", None: "cannot tell"}[leaking]
    return " ".join([word, *(" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in said[:2])])


class _Changed(importlib.abc.MetaPathFinder):
    """Loads files of the package with some of their numbers changed."""

    def __init__(self, of: Sequence[Threshold], factor: float) -> None:
        self.factor = factor
        self.files: dict[str, list[Threshold]] = {}
        for threshold in of:
            self.files.setdefault(_module(threshold.file), []).append(threshold)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.files:
            return None
        file = PACKAGE / self.files[name][0].file
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), tuple(self.files[name]), self.factor)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, of: tuple[Threshold, ...], factor: float) -> None:
        super().__init__(name, path)
        self.changes = of, factor

    def get_code(self, fullname: str) -> CodeType:
        return _compiled(self.path, *self.changes)


@lru_cache(maxsize=1000)
def _compiled(path: str, of: tuple[Threshold, ...], factor: float) -> CodeType:
    source = Path(path).read_text(encoding="utf-8")
    return compile(changed(source, of, factor), path, "exec", dont_inherit=True)


def _module(file: str) -> str:
    return ".".join(("leakscope", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
