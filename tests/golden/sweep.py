"""What each hand-set number buys: all of them made smaller, then larger, together, over the golden recordings.

Of a recording only those are changed that are looked at for it. Where it is judged otherwise, each half of them is
changed apart, and so on until the one that did it is left. That one matters and is not tried again. What is left is
tried at the extremes: at 0, then at infinity. A number that changes nothing even there, and that no unit test notices
either (``noticed.py``), goes with the code that it was for; or the case that it guards gets a test.
``numbers.json`` has a line for each number, with what was found: a sweep that was stopped goes on from it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import pickle
import resource
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa

from leakscope.storage import Recording, open_recording
from tests.end_to_end.programs import Program

from . import FOLDER, golden_programs, recording_of
from .movable import Movable, Numbers
from .thresholds import Threshold, judging_files, thresholds

RESULTS = FOLDER / "numbers.json"
FACTORS = (0.8, 1.25, 0.0, math.inf)  # in this order: what matters at 0.8 is no news at 0
LONGEST_CPU_S = 30  # of one judging: a number may keep a loop going
MOST_BYTES = 6 << 30  # of one process, for the same reason

Outcome = tuple[Any, ...]
Found = tuple[str, str]  # a number's key, and how it matters

_recordings: dict[str, Recording] = {}  # opened before all forks, so that each has their tables at hand


class Sweep:
    """The judging code, loaded so that its numbers can be changed."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.finder = Movable(self.numbers, thresholds(), judging_files())
        self.analyze = self.finder.load()
        of_classes = {one.key for one in thresholds() if one.is_of_class}
        self.at_loading = frozenset(self.numbers.used) | of_classes  # code that is loaded anew sees a change of these

    def outcome(self, name: str, keys: Collection[str], factor: float) -> tuple[Outcome, frozenset[str]]:
        """How a recording is judged with these numbers changed, and which numbers were looked at for it.

        In a process of its own, so that nothing that was remembered on the way is left.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with open(writer, "wb") as pipe:
                pickle.dump(self._judged(name, keys, factor), pipe)
                pipe.flush()
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return pickle.loads(said) if said else ((None, None, "ended"), frozenset())

    def _judged(self, name: str, keys: Collection[str], factor: float) -> tuple[Outcome, frozenset[str]]:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, LONGEST_CPU_S, 1.0)  # again: who runs the diagnoses goes on with the next
        resource.setrlimit(resource.RLIMIT_CPU, (2 * LONGEST_CPU_S, 2 * LONGEST_CPU_S))
        self.numbers.change(keys, factor)
        self.numbers.read.clear()
        try:
            analyze = self.analyze if self.at_loading.isdisjoint(keys) else self.finder.load()
            report = analyze(_recordings[name])
        except Exception as error:
            return (None, None, f"{type(error).__name__}: {error}"), frozenset()
        found = ((f.kind, f.subject.variable, f.subject.line) for f in report.findings)
        failed = tuple(skip.reason for skip in report.skipped if skip.reason.startswith("failed"))
        outcome = (report.verdict.leaking, report.verdict.killed, *found, *failed)
        return outcome, frozenset(self.numbers.read | self.at_loading)

    def search(self, name: str, factor: float, left: Sequence[str], same: Outcome, ends: float) -> Iterator[Found]:
        """The numbers that matter to a recording, each with ``name x0.8: was, now is``.

        Halves are tried apart: numbers that are absurd together tell nothing of each other.
        """
        if not left or time.monotonic() > ends:
            return
        new, _ = self.outcome(name, left, factor)
        if new == same:
            return
        if len(left) == 1:
            yield left[0], f"{name} x{factor:g}: {self.told(same)}, now {self.told(new)}"
            return
        half = len(left) // 2
        yield from self.search(name, factor, left[:half], same, ends)
        yield from self.search(name, factor, left[half:], same, ends)

    def told(self, outcome: Outcome) -> str:
        leaking, _, *said = outcome
        word = {True: "leaking", False: "not leaking", None: "cannot tell"}[leaking]
        return " ".join([word, *(" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in said[:2])])


def sweep(programs: Sequence[Program], of_file: str, minutes: float | None, at_once: int) -> None:
    """Find the numbers that matter to some recording (``of_file``: anew those of files whose path contains it).

    What is found of some of the programs, or in too little time, is written too: then no number is known to be idle.
    """
    present = {threshold.key: threshold for threshold in thresholds()}
    matters = {
        key: row["matters"]
        for key, row in results().items()
        if key in present and row["text"] == present[key].text and row["matters"] and not (of_file and of_file in key)
    }
    tried = {key for key, threshold in present.items() if not of_file or of_file in threshold.file}
    ends = time.monotonic() + (minutes or float("inf")) * 60
    _open_all(programs)
    swept = Sweep()
    context = multiprocessing.get_context("fork")
    with context.Pool(at_once, initializer=_begin, initargs=(swept,)) as pool:
        known: dict[str, AsIs] = {}
        undone = 0

        def look(job: tuple[str, float]) -> None:
            nonlocal undone
            name, factor = job
            undone += time.monotonic() > ends
            if time.monotonic() > ends:
                return
            if name not in known:
                known[name] = pool.apply(_as_is, (name,))
            left = sorted(known[name].read & tried - matters.keys())
            for key, difference in pool.apply(_look, (name, factor, left, known[name].outcome, ends)):
                matters.setdefault(key, difference)
                print(f"{key} = {present[key].text}: {difference}", flush=True)
            write(present, matters, is_whole=False)  # whoever stops it loses one recording at most

        for factor in FACTORS:
            with ThreadPoolExecutor(at_once) as threads:
                list(threads.map(look, [(name, factor) for name in _recordings]))
            print(f"x{factor:g}: {len(matters)} of {len(present)} numbers matter to some recording", flush=True)
    is_whole = not undone and time.monotonic() <= ends and len(programs) == len(golden_programs())
    write(present, matters, is_whole)
    if is_whole:
        unread = set(present).difference(*(one.read for one in known.values()))
        idle = [key + (" (never looked at)" if key in unread else "") for key in present if key not in matters]
        print("\n  ".join(["the others change nothing:", *idle]))


class AsIs(NamedTuple):
    """How a recording is judged with every number as it is written, and which numbers were looked at for it."""

    outcome: Outcome
    read: frozenset[str]


_swept: Sweep  # of a worker


def _begin(swept: Sweep) -> None:
    global _swept
    _swept = swept


def _as_is(name: str) -> AsIs:
    return AsIs(*_swept.outcome(name, (), 1))


def _look(name: str, factor: float, left: list[str], same: Outcome, ends: float) -> list[Found]:
    return list(_swept.search(name, factor, left, same, ends))


def write(present: dict[str, Threshold], matters: dict[str, str], is_whole: bool) -> None:
    """``matters``: to which recording, and how; None: to none, empty: not swept yet. A ``fact`` stays as it is."""
    unknown, known = None if is_whole else "", results()
    rows = [
        {"file": one.file, "name": one.name, "text": one.text, "matters": matters.get(key, unknown)}
        | ({"fact": known[key]["fact"]} if key in known and "fact" in known[key] else {})
        for key, one in sorted(present.items())
    ]
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")  # a number a line


def renew() -> None:
    """A line for each number, with what was found of those that are still as they were then; nothing is tried."""
    present, known = {one.key: one for one in thresholds()}, results()
    same = {key: row for key, row in known.items() if key in present and row["text"] == present[key].text}
    write(present, {key: row["matters"] for key, row in same.items()}, is_whole=False)
    print(f"{len(present)} numbers; new or changed: {', '.join(sorted(present.keys() - same.keys())) or 'none'}")


def results() -> dict[str, dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    return {f"{row['file']} {row['name']}": row for row in json.loads(RESULTS.read_text(encoding="utf-8"))}


def _open_all(programs: Sequence[Program]) -> None:
    """The smallest first: most is found where a look costs least."""
    pa.set_cpu_count(1)  # threads do not outlive a fork
    there = {recording_of(p): p.name for p in programs if recording_of(p).exists()}
    for path in sorted(there, key=lambda path: path.stat().st_size):
        recording = open_recording(path)
        for name in recording.tables.written():
            recording.tables[name]
        _recordings[there[path]] = recording


def _too_long(*_: object) -> None:
    raise TimeoutError(f"judging takes longer than {LONGEST_CPU_S} s of CPU time")
