"""Programs that are hard on whoever looks into them end as they do bare: status, output, complaints, files.

Each runs under ``record`` while snapshots are made every 50 ms (``LEAKSCOPE_STRESS``), and must really have had some;
but none while a tracer, profiler or debugger is set, and then one note says why. ``LEAKSCOPE_PYTHONS`` says with which
interpreters. What a snapshot reads of objects it reads in C; where there is no library for that it reads less, in
Python, with rules of its own (``IN_PYTHON``).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leakscope.agent.journal import read_blocks

from ..recorder.runs import environment, record_command
from .interpreters import Interpreter, interpreters

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "attacks"
STRESS_S = "0.05"
BARE_S, RECORDED_S = 0.6, 2.5  # how long a program works; what it says does not depend on it
LIMIT_S = 120.0  # what hangs hangs for ever, and on a busy machine the slowest take a minute
LEAST_TAKEN, LONGER = 2, 4  # snapshots, or they prove nothing; times the work, to have them
ALWAYS, AT_TIMES, NEVER = "always", "at times", "never"  # is a tracer or profiler set?
_TRACER = re.compile("tracer|profiler|debugger")
_ADDRESS = re.compile("0x[0-9a-f]+")
_OURS = re.compile(r"^leakscope: .*\n", re.MULTILINE)  # of the recorder: that it kept its journal


def as_it_is(text: str) -> str:
    return text


def table_of_functions(text: str) -> str:
    """Of the table that profilers print: whose functions are in it, without times and counts."""
    head, _, table = text.partition("filename:lineno(function)")
    functions = {_ADDRESS.sub("0x", line.split(None, 5)[-1]) for line in table.splitlines() if line.strip()}
    return "\n".join([head.splitlines()[0], *sorted(functions)])


def without_times(text: str) -> str:
    return re.sub(r" in [\d.]+s", "", text).replace("=", "")


class Attack(NamedTuple):
    """One program and what is to be expected of it, beside that it ends as it does bare."""

    name: str
    words: tuple[str, ...]  # after the interpreter
    traced: str = NEVER
    needs: tuple[str, ...] = ()  # libraries; with "|" one of two
    since: tuple[int, ...] = (3, 8)
    until: tuple[int, ...] = (4,)  # the first that it is not for
    typed: tuple[str | float, ...] = ()  # on stdin; a number: seconds that the recorded one waits
    files: tuple[str, ...] = ()  # beside busy.py; none: the program among the words
    tidy: Callable[[str], str] = as_it_is  # stdout, without what is never the same twice
    afterwards: tuple[tuple[str, ...], ...] = ()  # commands on what it left, bare on both sides
    env: tuple[tuple[str, str], ...] = ()
    ends: str = "status 0"
    works_s: float = RECORDED_S
    must_look: bool = True  # False: it may keep us from it
    known: str | None = None  # why it cannot be helped: then it may fail
    known_since: tuple[int, ...] = (3, 8)


def of(name: str, program: str, *arguments: str, **expected: Any) -> Attack:
    return Attack(name, (f"{program}.py", *arguments), **expected)


AUDITED = "snapshots and the agent's files raise audit events, as all of Python's do"
LISTED = "the agent's thread is one of Python's, and listed as such"
ALONE = "the kernel lets none into a user namespace who has a second thread, whose ever it is"
BENEATH = "a handler of a signal that comes while the main thread makes a snapshot has its frames below it"
COVERAGE = ("-m", "coverage", "run", "locals_kept.py")
REPORTED: dict[str, Any] = {
    "needs": ("coverage",), "afterwards": (("-m", "coverage", "report"),), "ends": "status 0, then 0",
}  # fmt: skip
# Our own plugin lies outside site-packages where this is a checkout: coverage would count it.
# A tool of sys.monitoring, which since 3.12 cProfile is, too, is told of all threads: also of what ours is in the midst
# of as one is set (2 ms of 500; in stress mode, much more).
OF_ALL_THREADS: dict[str, Any] = {"known": "a tool that is set while the agent is at work", "known_since": (3, 12)}
# Since 3.14 coverage is one, too, if nobody chooses.
BY_DEFAULT: dict[str, Any] = {**OF_ALL_THREADS, "known_since": (3, 14)}
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:leakscope")
COVERED: dict[str, Any] = {"needs": ("pytest_cov",), "files": ("test_covered.py",), "tidy": without_times, **BY_DEFAULT}
UNFROZEN = (("PYDEVD_DISABLE_FILE_VALIDATION", "1"),)  # no word about frozen modules
STEPS = ("n\n" * 8, "s\n" * 1600, "q\n")
BUSY_PROMPT = "!import busy; busy.spin()\n"

TRACERS = [
    Attack("profile", ("-m", "profile", "locals_kept.py"), ALWAYS, tidy=table_of_functions),
    Attack("cprofile", ("-m", "cProfile", "locals_kept.py"), ALWAYS, tidy=table_of_functions, **OF_ALL_THREADS),
    Attack("trace-count", ("-m", "trace", "--count", "-C", "counts", "locals_kept.py"), ALWAYS),
    of("setprofile", "watched", "setprofile", "nothing", traced=ALWAYS),
    of("settrace", "watched", "settrace", "calls", traced=ALWAYS),
    of("settrace-files", "watched", "settrace", "files", traced=ALWAYS),
    of("setprofile-files", "watched", "setprofile", "files", traced=ALWAYS),
    of("settrace-of-a-thread", "of_a_thread", "settrace", traced=AT_TIMES),
    of("setprofile-of-a-thread", "of_a_thread", "setprofile", traced=AT_TIMES),
    of("monitoring-profiler", "monitoring", "2", traced=AT_TIMES, since=(3, 12), **OF_ALL_THREADS),
    of("monitoring-other", "monitoring", "4", traced=AT_TIMES, since=(3, 12), **OF_ALL_THREADS),
    Attack("pdb-steps", ("-m", "pdb", "stepped.py"), ALWAYS, typed=STEPS),
    of("pdb-assigns", "prompt", traced=AT_TIMES, typed=("!x = 5\n", "!y = [7]\n", BUSY_PROMPT, "c\n")),
    of("pdb-waits", "prompt", traced=AT_TIMES, typed=("!x = 5\n", "!y = [7]\n", 6.5, "c\n"), works_s=1.5),
    of("debugpy", "debugpy_listens", traced=AT_TIMES, needs=("debugpy",), env=UNFROZEN),
    Attack("coverage", COVERAGE, ALWAYS, **REPORTED, **BY_DEFAULT),
    Attack("coverage-in-python", COVERAGE, ALWAYS, env=(("COVERAGE_CORE", "pytrace"),), **REPORTED),
    Attack(
        "coverage-monitoring", COVERAGE, AT_TIMES, since=(3, 12), env=(("COVERAGE_CORE", "sysmon"),),
        **REPORTED, **OF_ALL_THREADS,
    ),
    Attack("pytest-cov", (*PYTEST, "--cov=.", "--cov-fail-under=80", "test_covered.py"), ALWAYS, **COVERED),
    Attack("pytest-cov-of-all", (*PYTEST, "--cov", "--cov-fail-under=80", "test_covered.py"), ALWAYS, **COVERED),
    of("tracemalloc", "traced_memory"),
    of("profiler-switched", "watch_switched", "profiler", traced=AT_TIMES),
    of("tracer-switched", "watch_switched", "tracer", traced=AT_TIMES),
    of("tool-switched", "watch_switched", "tool", traced=AT_TIMES, since=(3, 12), **OF_ALL_THREADS),
]  # fmt: skip
CODE_OF_THE_JOB = [
    of("metaclass-raises", "metaclass_raises"),
    of("metaclass-counts", "metaclass_counts"),
    of("dict-property-counts", "dict_property", "counts"),
    of("dict-property-raises", "dict_property", "raises"),
    of("lazy-proxies-written", "lazy_proxies", "written"),
    of("lazy-object-proxy", "lazy_proxies", "lazy_object_proxy", needs=("lazy_object_proxy",)),
    of("wrapt-lazy-proxy", "lazy_proxies", "wrapt", needs=("wrapt",)),
    of("class-bodies", "class_bodies"),
    of("mappings-count", "mappings", "counts"),
    of("mappings-raise", "mappings", "raises"),
    of("hostile-keys", "hostile_keys"),
    of("last-references", "last_references"),
]
GIVEN_BACK = (("MALLOC_MMAP_THRESHOLD_", "65536"),)
SUB_INTERPRETERS = ("_interpreters|_xxsubinterpreters",)
HALF_MADE = [
    of("pull-parsers", "pull_parsers"),
    of("half-made-tuples", "half_made", needs=("sqlite3",)),
    of("half-gone", "half_gone"),
    of("running-generators", "running_generators"),
    of("closed-generators", "closed_generators"),
    of("thrown-into", "thrown_into"),
    of("thrown-into-monitored", "thrown_into", "monitored", traced=AT_TIMES, since=(3, 12)),
    of("sub-interpreters", "sub_interpreters", "own", needs=SUB_INTERPRETERS),
    of("sub-interpreters-often", "sub_interpreters", "often", needs=SUB_INTERPRETERS, must_look=False),
    of("sub-interpreters-legacy", "sub_interpreters", "legacy", needs=SUB_INTERPRETERS),
    of("interpreters-end", "interpreters_end", needs=SUB_INTERPRETERS, since=(3, 12), must_look=False, env=GIVEN_BACK),
]
GREEN_THREADS_AND_CLOCKS = [
    of("gevent-waits", "green_forks", "gevent", "wait", needs=("gevent",)),
    of("gevent-joins", "green_forks", "gevent", "join", needs=("gevent",)),
    of("eventlet-forks", "green_forks", "eventlet", "wait", needs=("eventlet",)),
    of("freezegun", "frozen_clock", needs=("freezegun",)),
]
WHAT_IT_SEES_OF_ITSELF = [
    of("collector-polled", "collector_polled"),
    of("collector-of-a-thread", "collector_of_a_thread"),
    of("garbage-left", "garbage_left"),
    of("audit-refuses", "audit_refuses", must_look=False),
    of("audit-counts", "audit_counts", known=AUDITED),
    of("threads-counted", "threads_in_forks", "counted"),
    of("threads-frames", "threads_in_forks", "frames", known=LISTED),
    of("short-lives", "short_lives"),
    of("hooks", "hooks_seen", ends="status 1"),
    of("recursion", "recursion"),
    of("finders-asked", "finders_asked"),
]  # fmt: skip
SIGNALS_AND_THREADS = [
    of("signals-raise", "signals", "raises"),
    of("signals-interrupt", "signals", "interrupts"),
    of("signals-waited-for", "signals", "waits", works_s=5.0),
    of("signal-looks", "signal_looks", known=BENEATH),
    of("lock-held", "holds_lock", works_s=4.0),
    of("many-threads", "many_threads"),
    of("switches-often", "switches", "1e-6"),
    of("switches-rarely", "switches", "0.1", must_look=False),
    of("slow-callbacks", "slow_callbacks"),
    of("errors", "errors"),
    of("ends-in-order", "ends_in_order", ends="status 5"),
    of("interrupted", "interrupted", ends="status -2", must_look=False),
]
PROCESSES_AND_LIMITS = [
    of("no-children", "children"),
    of("pools", "pools"),
    of("forked-workers", "forked_workers"),
    of("forked-workers-share", "forked_share", works_s=5.0),
    of("traced-by-parent", "traced_by_parent"),
    of("becomes-daemon", "becomes_daemon"),
    of("closes-all", "closes_all"),
    of("low-numbers", "low_numbers"),
    of("closes-all-traced", "closes_all", "traced", traced=AT_TIMES),
    of("closes-all-monitored", "closes_all", "monitored", traced=AT_TIMES, since=(3, 12)),
    of("streams-closed", "streams_closed"),
    of("limit-of-files", "limits", "files", must_look=False),
    of("limit-of-size", "limits", "size", must_look=False),
    of("limit-of-memory", "limits", "memory", must_look=False),
    of("limit-of-stack", "limits", "stack"),
    of("namespace", "sandbox", "namespace"),
    of("namespace-of-users", "sandbox", "user", known=ALONE),
    of("other-root", "sandbox", "root", must_look=False),
    of("not-dumpable", "sandbox", "dumpable"),
]
# leakscope itself, whose middlewares these are, needs Python 3.9.
SERVICES = [
    of("requests-hostile", "counts_requests", "hostile", since=(3, 9)),
    of("requests-profiled", "counts_requests", "watched", "setprofile", traced=ALWAYS, since=(3, 9)),
    of("requests-traced", "counts_requests", "watched", "settrace", traced=ALWAYS, since=(3, 9)),
    of("requests-and-signals", "counts_requests", "signals", since=(3, 9)),
    of("requests-of-threads", "counts_requests", "threads", since=(3, 9), env=(("PYTHONWARNINGS", "ignore"),)),
    of("requests-to-the-end", "counts_requests", "ends", since=(3, 9), ends="status 5"),
    of("requests-deep", "counts_requests", "deep", since=(3, 9)),
    of("requests-green", "counts_requests", "green", since=(3, 9), needs=("gevent",)),
    of("requests-of-interpreters", "counts_requests", "interpreters", since=(3, 9), needs=SUB_INTERPRETERS),
]  # fmt: skip
ATTACKS = [
    *TRACERS, *CODE_OF_THE_JOB, *HALF_MADE, *GREEN_THREADS_AND_CLOCKS, *WHAT_IT_SEES_OF_ITSELF, *SIGNALS_AND_THREADS,
    *PROCESSES_AND_LIMITS, *SERVICES,
]  # fmt: skip


class Outcome(NamedTuple):
    """All that a user could compare."""

    status: str
    stdout: str
    stderr: str
    files: list[str]


class Snapshots(NamedTuple):
    """Of the recording: how many while the program worked, how many by the graph of all objects, be it before or
    afterwards, and what was noted about those that were not made."""

    taken: int
    graphs: int
    notes: list[tuple[int, str]]


@pytest.fixture(params=interpreters(), ids=str)
def python(request: pytest.FixtureRequest) -> Interpreter:
    chosen: Interpreter = request.param
    return chosen


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_it_ends_as_it_does_bare(tmp_path: Path, attack: Attack, python: Interpreter) -> None:
    skip_unless_it_fits(attack, python)
    bare, _ = run(tmp_path / "run", attack, python, recorded=False)
    assert bare.status == attack.ends, bare.stderr  # or the program itself is at fault
    with_it, snapshots = looked_at(tmp_path / "run", attack, python)
    excuse_what_is_known(attack, python, bare, with_it)
    assert with_it == bare
    looked_when_it_might(attack, python, snapshots)
    assert snapshots.graphs or not snapshots.taken


# It reads objects, frames and dicts in Python, mostly on the main thread, and holds the collector back meanwhile. So do
# looks at torch, which these programs do without.
IN_PYTHON = [
    *TRACERS, *CODE_OF_THE_JOB, *HALF_MADE, *GREEN_THREADS_AND_CLOCKS, *WHAT_IT_SEES_OF_ITSELF, *SIGNALS_AND_THREADS,
]  # fmt: skip


@pytest.mark.parametrize("attack", IN_PYTHON, ids=[attack.name for attack in IN_PYTHON])
def test_it_does_so_without_the_graph(tmp_path: Path, attack: Attack, python: Interpreter) -> None:
    skip_unless_it_fits(attack, python)
    bare, _ = run(tmp_path / "run", attack, python, recorded=False)
    with_it, snapshots = looked_at(tmp_path / "run", attack, python, graph=False)
    excuse_what_is_known(attack, python, bare, with_it)
    assert with_it == bare
    looked_when_it_might(attack, python, snapshots)
    assert not snapshots.graphs


def skip_unless_it_fits(attack: Attack, python: Interpreter) -> None:
    if not attack.since <= python.version < attack.until:
        pytest.skip(f"not for Python {python}")
    for alternatives in attack.needs:
        if not python.libraries.intersection(alternatives.split("|")):
            pytest.skip(f"Python {python} has no {alternatives}")


def excuse_what_is_known(attack: Attack, python: Interpreter, bare: Outcome, with_it: Outcome) -> None:
    """What cannot be helped is in what a program says or in its exit status: it is no crash, and no hang."""
    if attack.known is None or python.version < attack.known_since or with_it == bare:
        return
    if re.match(r"status \d", with_it.status):  # of a signal it is negative
        pytest.xfail(attack.known)


def looked_at(folder: Path, attack: Attack, python: Interpreter, graph: bool = True) -> tuple[Outcome, Snapshots]:
    """Recorded; it works longer where it shared the processor with so many that there was no time to look."""
    with_it, snapshots = run(folder, attack, python, recorded=True, graph=graph)
    if attack.traced == NEVER and attack.must_look and not python.is_refused and snapshots.taken < LEAST_TAKEN:
        longer = attack._replace(works_s=LONGER * attack.works_s)
        with_it, snapshots = run(folder, longer, python, recorded=True, graph=graph)
    return with_it, snapshots


def looked_when_it_might(attack: Attack, python: Interpreter, snapshots: Snapshots) -> None:
    """Otherwise nothing is proved; or the tracer was looked at, and the note is missing that says so."""
    if python.is_refused:  # that it ends as it does bare is all there is to prove
        assert not snapshots.taken and not snapshots.notes
        return
    if attack.traced == NEVER:
        assert not snapshots.notes
        assert snapshots.taken >= LEAST_TAKEN or not attack.must_look
        return
    if attack.traced == AT_TIMES and snapshots.taken:
        return
    assert snapshots.taken == 0
    processes = [pid for pid, _ in snapshots.notes]
    assert processes and len(set(processes)) == len(processes), snapshots.notes  # one each


def run(
    folder: Path, attack: Attack, python: Interpreter, recorded: bool, graph: bool = True
) -> tuple[Outcome, Snapshots]:
    """In the same folder bare as recorded, since its name may be in the output; it is moved out of the way."""
    work = folder / "work"
    work.mkdir(parents=True)
    for name in ("busy.py", *attack.files, *(() if attack.files else filter(is_program, attack.words))):
        # A name that pytest would collect here too stands for another.
        shutil.copy(PROGRAMS / ("covered_program.py" if name == "test_covered.py" else name), work / name)
    words = [python.path, *attack.words]
    if recorded:
        words = record_command("-q", "-o", str(folder / "run.parquet"), "--", *words, graph=graph)
    env = environment(
        LEAKSCOPE_STRESS=STRESS_S,
        PYTHONDONTWRITEBYTECODE="1",
        ATTACK_S=str(attack.works_s if recorded else BARE_S),
        ATTACK_WINDOW=str(folder / "window"),
        **dict(attack.env),
    )
    status, out, err = finished(words, work, env, attack, waits=recorded)
    for more in attack.afterwards:
        done = subprocess.run([python.path, *more], cwd=work, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        status += f", then {done.returncode}"
        out, err = out + done.stdout, err + done.stderr
    place = re.compile(re.escape(str(folder)))
    out, err = place.sub("HERE", attack.tidy(out)), place.sub("HERE", _OURS.sub("", err))
    files = sorted(str(file.relative_to(work)) for file in work.rglob("*"))
    found = snapshots_of(folder)
    kept = folder.with_name(f"{folder.name}-{'recorded' if recorded else 'bare'}")
    shutil.rmtree(kept, ignore_errors=True)  # of a run that was too short
    folder.rename(kept)
    return Outcome(status, out, err, files), found


def is_program(word: str) -> bool:
    return word.endswith(".py")


def finished(words: list[str], folder: Path, env: dict[str, str], attack: Attack, waits: bool) -> tuple[str, str, str]:
    """How it ended, within the attack's time, and what it said; into files, since what it leaves may hold a pipe."""
    with open(folder.parent / "out", "w+b") as out, open(folder.parent / "err", "w+b") as err:
        job = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
        )
        try:
            type_into(job, attack.typed, waits)
            status = f"status {job.wait(timeout=LIMIT_S)}"
        except subprocess.TimeoutExpired:
            status = f"did not end within {LIMIT_S:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        return status, text_of(out), text_of(err)


def type_into(job: subprocess.Popen[bytes], typed: tuple[str | float, ...], waits: bool) -> None:
    assert job.stdin is not None
    with suppress(BrokenPipeError), job.stdin as stream:
        for part in typed:
            if isinstance(part, str):
                stream.write(part.encode())
                stream.flush()
            elif waits:
                time.sleep(part)


def text_of(stream: Any) -> str:
    stream.seek(0)
    read: bytes = stream.read()
    return read.decode("utf-8", "backslashreplace")


def snapshots_of(folder: Path) -> Snapshots:
    """Those that began while the program was at work, by its own word; in any of its processes."""
    window = folder / "window"
    times = [tuple(map(int, line.split())) for line in window.read_text().splitlines()] if window.exists() else []
    count, graphs, notes = 0, 0, []
    for file in sorted((folder / "run.parquet.journal").glob("agent-*.jnl")):
        for table, block in read_blocks(str(file)):
            if table == "takes":
                count += sum(any(began <= row["time_mono_ns"] < ended for began, ended in times) for row in block)
            elif table == "heap_graphs":
                graphs += len(block)
            elif table == "agent_notes":
                skipped = [row for row in block if row["note"] == "take-skipped" and _TRACER.search(row["text"])]
                notes += [(row["pid"], row["text"]) for row in skipped]
    return Snapshots(count, graphs, notes)


FAULTS_LATER = of("faults-later", "faults_later", works_s=0.6)
TIMES, MORE = 10, 2  # how often each way; how many more crashes are chance


def test_tracebacks_of_running_threads_end_it_no_more_often_than_bare(tmp_path: Path, python: Interpreter) -> None:
    """``dump_traceback_later`` reads frames that run: Python's own defect, which ends jobs with threads at times."""
    crashes: dict[bool, int] = {}
    said = set()
    for recorded in (False, True):
        ends = [run(tmp_path / f"run-{at}", FAULTS_LATER, python, recorded)[0] for at in range(TIMES)]
        crashed = [end for end in ends if end.status == f"status {-signal.SIGSEGV}"]
        crashes[recorded] = len(crashed)
        said |= {(end.status, end.stdout, end.stderr) for end in ends if end not in crashed}
    assert len(said) == 1 and said.pop()[0] == "status 0"
    assert crashes[True] <= crashes[False] + MORE


FEWEST_LOST, MOST_LOST = 0, 100_000
MARGIN = 20  # what differs from run to run


def none_lost(folder: Path, count: int, python: Interpreter, recorded: bool) -> tuple[Outcome, Snapshots]:
    works_s = RECORDED_S if recorded else 0.0
    attack = of("none-lost", "none_lost", str(count), works_s=works_s)
    return run(folder, attack, python, recorded)


def test_references_to_none_suffice_as_long_as_they_do_bare(tmp_path: Path, python: Interpreter) -> None:
    """As many are lost as the program can bear by itself: it ends as well with an agent that lets go of its own."""
    if "ctypes" not in python.libraries:
        pytest.skip(f"Python {python} has no ctypes")
    fewest, most = FEWEST_LOST, MOST_LOST
    while most - fewest > MARGIN // 2:
        middle = (fewest + most) // 2
        bare, _ = none_lost(tmp_path / f"run-{middle}", middle, python, recorded=False)
        fewest, most = (middle, most) if bare.status == "status 0" else (fewest, middle)
    bearable = max(0, fewest - MARGIN)
    bare, _ = none_lost(tmp_path / "run", bearable, python, recorded=False)
    with_it, snapshots = none_lost(tmp_path / "run", bearable, python, recorded=True)
    assert with_it == bare
    assert bare.status == "status 0" and snapshots.taken >= 2
