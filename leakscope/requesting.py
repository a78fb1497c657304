"""`leakscope snapshot`: one snapshot of a process that runs, asked for from outside. Runs beside the job.

Who is recorded has the agent inside. It is asked by a file in the journal's folder, which its thread looks for at each
tick, so that no signal is sent and nothing is put into the process. Into any other process only the interpreter itself
lets us, from Python 3.14 on (PEP 768). Refused: to write into its memory by ptrace, which has ended jobs (attach.py).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .agent.config import SWITCHED_OFF
from .agent.graph.whole import SUFFIX
from .agent.journal import FOR_ALL, read_blocks, request_name
from .errors import BadInput, LeakscopeError, NoWayIn
from .recorder import attach, naming, proc, staging
from .recorder.output import Output, request
from .recorder.sources import process_memory
from .recorder.tree import Tree
from .schema import SCHEMA_VERSION
from .storage import whole_heap
from .storage.finalize import finalize
from .storage.meta import read_meta
from .units import format_duration
from .version import __version__

LOOK_S = 0.1
WAIT_S = 60.0  # for a moment at which the process can be looked at, and while its graph is worked out
_SETTLED_S = 3.0  # of readings after a snapshot, without its graph: none was read
_OF_THE_PROCESS = ("agent_notes", "sources", "library_sources")  # rows that belong to no snapshot and help to read one

Row = dict[str, Any]


class Taken(NamedTuple):
    """Where it was written; ``without_graph``: why it has no heap graph, None where it has one.

    ``whole``: the file with the whole heap; ``without_whole``: why there is none although one was asked for.
    """

    path: str
    without_graph: str | None
    whole: str | None = None
    without_whole: str | None = None


def take_one(pid: int, output: str, *, full_heap: bool = False, wait_s: float = WAIT_S) -> Taken:
    """A recording that holds one snapshot of a process and no more; beside it every object, if ``full_heap``.

    **Errors** NoWayIn where it cannot be looked into, or did not come by a moment for it; BadInput, LeakscopeError.
    """
    stat = proc.stat(pid)
    if stat is None or stat.is_dead:
        raise BadInput(f"there is no process {pid}")
    attach.check(pid)
    journal = staging.journal_of_agent(pid, stat.start_ticks)
    if journal is not None:
        return _of_recorded(_Agent(pid, stat.start_ticks, journal, full_heap), output, wait_s)
    if not _is_python(pid):
        raise NoWayIn(f"no way into process {pid}: it is no Python")
    if not attach.can_enter():
        raise NoWayIn(
            f"no way into process {pid}: leakscope's agent is not inside, and before Python 3.14 no interpreter lets "
            "others in later. Start it with `leakscope record`; from then on this works at any moment"
        )
    return _of_stranger(pid, stat.start_ticks, output, full_heap, wait_s)


class _Agent:
    """The agent inside a process, and what it wrote."""

    def __init__(self, pid: int, start_ticks: int, journal: str, full_heap: bool) -> None:
        self.pid = pid
        self.full_heap = full_heap
        self.start_ticks = start_ticks
        self.journal = journal
        self._request = os.path.join(journal, request_name(pid, start_ticks))
        self._sizes: dict[str, int] = {}
        self._rows: list[tuple[str, Row]] = []

    def snapshot(self, wait_s: float) -> int:
        """Ask for one and wait for it; its number. **Errors** NoWayIn, OSError."""
        asked_ns = time.monotonic_ns()
        self._ask()
        try:
            return self._wait(asked_ns, wait_s)
        finally:
            with suppress(OSError):
                os.unlink(self._request)

    def _ask(self) -> None:
        request(self._request, FOR_ALL if self.full_heap else "leakscope snapshot")

    def rows(self, number: int) -> Iterator[tuple[str, Row]]:
        """Those of a snapshot, and what helps to read them."""
        for table, row in self._rows:
            if row.get("take") == number or table in _OF_THE_PROCESS:
                yield table, row

    def _wait(self, asked_ns: int, wait_s: float) -> int:
        while True:
            is_gone = not self._lives()  # before its rows are read: what it wrote is there
            is_at_rest = not self._read()
            take = next((row for table, row in self._rows if table == "takes" and _is_answer(row, asked_ns)), None)
            if take is not None and is_at_rest and (self._is_whole(take) or is_gone):
                return int(take["take"])
            if take is None and is_gone:
                raise NoWayIn(f"process {self.pid} ended before a snapshot could be made")
            never = self._never()
            if take is None and never is not None:
                raise NoWayIn(f"no snapshot of process {self.pid}: {never}")
            if take is None and not os.path.lexists(self._request):
                self._ask()  # another who asked has its answer, and took the request away
            if time.monotonic_ns() - asked_ns > wait_s * 1e9:
                raise NoWayIn(self._why_not(wait_s))
            time.sleep(LOOK_S)

    def _lives(self) -> bool:
        stat = proc.stat(self.pid)
        return stat is not None and not stat.is_dead and stat.start_ticks == self.start_ticks

    def _read(self) -> bool:
        """Everything anew where there is more: some MiB, in a process of our own. Whether there was.

        What is written at once is not seen at once: each table comes by itself.
        """
        with suppress(OSError):  # the recording has just ended
            names = [name for name in os.listdir(self.journal) if name.startswith(f"agent-{self.pid}-")]
            paths = [os.path.join(self.journal, name) for name in sorted(names) if name.endswith(".jnl")]
            sizes = {path: os.stat(path).st_size for path in paths}
            if sizes != self._sizes:
                self._sizes = sizes
                self._rows = [(table, row) for path in paths for table, rows in read_blocks(path) for row in rows]
                return True
        return False

    def _is_whole(self, take: Row) -> bool:
        """Its graph is there, or the agent has gone on without: its thread works one out before it reads on."""
        ended_ns = take["time_mono_ns"] + (take["duration_s"] + _SETTLED_S) * 1e9
        return any(
            (table == "heap_graphs" and row["take"] == take["take"])
            or (table == "sentinels" and row["time_mono_ns"] > ended_ns)
            for table, row in self._rows
        )

    def _notes(self, *kinds: str) -> list[str]:
        return [row["text"] for table, row in self._rows if table == "agent_notes" and row["note"] in kinds]

    def _never(self) -> str | None:
        """Why none is ever made there, as far as its agent said; one that made some has changed its mind."""
        if any(table == "takes" for table, _ in self._rows):
            return None
        off = [text for text in self._notes("take-skipped") if text == SWITCHED_OFF]
        return next(iter([*off, *self._notes("helper", "forked")]), None)

    def _why_not(self, wait_s: float) -> str:
        said = self._notes("take-skipped", "failed", "take-interrupted")
        why = f"the last reason it gave: {said[-1]}" if said else "it came by no moment that allows one"
        return f"no snapshot of process {self.pid} within {format_duration(wait_s)}: {why}"

    def whole_heap(self, number: int) -> str | None:
        """The file that the agent made of a snapshot."""
        path = os.path.join(self.journal, f"heap-{self.pid}-{self.start_ticks}-{number}{SUFFIX}")
        return path if os.path.exists(path) else None

    def why_without_whole(self) -> str:
        said = self._notes("full-heap")
        return said[-1] if said else "it has no heap graph"

    def why_without_graph(self, number: int) -> str | None:
        """None where a snapshot has one."""
        if any(table == "heap_graphs" and row["take"] == number for table, row in self._rows):
            return None
        said = self._notes("no-heap-graph", "reduced-take")
        return said[-1] if said else "too little memory is left, or the pause would be too long"


def _is_answer(row: Row, asked_ns: int) -> bool:
    return bool(row["time_mono_ns"] >= asked_ns and row["reason"] not in ("exit", "exception"))


def _of_recorded(agent: _Agent, path: str, wait_s: float) -> Taken:
    meta = read_meta(Path(agent.journal))
    try:
        number = agent.snapshot(wait_s)
    except OSError as error:
        raise NoWayIn(f"process {agent.pid} cannot be asked: {agent.journal}: {error.strerror or error}") from None
    output = _claimed(path, agent.pid, meta, None)
    for table, row in agent.rows(number):
        output.journal.add(table, row)
    whole = agent.whole_heap(number) if agent.full_heap else None
    if whole is not None:
        with suppress(OSError):  # it is a part of the other recording as well
            shutil.copyfile(whole, os.path.join(output.journal_path, os.path.basename(whole)))
    return _finished(output, agent, number)


def _of_stranger(pid: int, start_ticks: int, path: str, full_heap: bool, wait_s: float) -> Taken:
    """From Python 3.14 on: the agent is let in, asked once, and leaves when its recording is over."""
    output = _claimed(path, pid, {}, {"recorder_pid": os.getpid(), "start_mono_ns": time.monotonic_ns()})
    try:
        if output.staged is None:
            raise NoWayIn("; ".join(output.notes))
        refusal = attach.enter(pid, output.staged, output.journal_path)
        if refusal is not None:
            raise NoWayIn(refusal)
        agent = _Agent(pid, start_ticks, output.journal_path, full_heap)
        number = agent.snapshot(wait_s)
    except BaseException:
        output.remove()
        raise
    return _finished(output, agent, number)


def _claimed(path: str, pid: int, meta: dict[str, Any], agent_config: dict[str, Any] | None) -> Output:
    now_unix_ns, now_mono_ns = time.time_ns(), time.monotonic_ns()
    ours = {
        "format_version": SCHEMA_VERSION,
        "command": attach.commands([pid]),
        "cwd": os.getcwd(),
        "host": os.uname().nodename,
        "kernel": os.uname().release,
        "boot_id": proc.read_text("/proc/sys/kernel/random/boot_id"),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_unix_ns / 1e9)),
        "start_mono_ns": now_mono_ns,
        "start_unix_ns": now_unix_ns,
        "recorder_pid": os.getpid(),
        "leakscope_version": __version__,
        "labels": {},
        "attached": True,
    }
    return Output.claim(
        naming.output_path(path, os.environ, now_unix_ns / 1e9),
        force=False,
        meta={**ours, **meta, "attached": True},
        agent_config=agent_config,
    )


def _finished(output: Output, agent: _Agent, number: int) -> Taken:
    pid = agent.pid
    try:
        tree = Tree(pid, os.getpid(), None, [pid])
        now_ns = time.monotonic_ns()
        for row in tree.update(now_ns / 1e9, now_ns):
            _add(output, "processes", row)
        for row in process_memory.rows(tree):
            _add(output, process_memory.TABLE, row)
        _add(output, "events", {"event": "end", "pid": pid, "text": f"one snapshot of process {pid}, which goes on"})
        output.journal.close()
    except OSError as error:
        raise LeakscopeError(f"cannot write {output.path}: {error.strerror or error}") from None
    finally:
        output.release()
        output.remove_agent()
    finalize(output.path)
    whole = whole_heap.file_of(Path(output.path), pid, number)
    taken = Taken(output.path, agent.why_without_graph(number))
    if not agent.full_heap:
        return taken
    is_there = whole_heap.identity_of(whole) == (pid, agent.start_ticks, number)
    return taken._replace(whole=str(whole)) if is_there else taken._replace(without_whole=agent.why_without_whole())


def _add(output: Output, table: str, row: Row) -> None:
    clocks = {"time_unix_ns": time.time_ns(), "time_mono_ns": time.monotonic_ns()}
    output.journal.add(table, {**row, **clocks, "time_boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)})


def _is_python(pid: int) -> bool:
    """By the file it runs, or the library of an interpreter that it has loaded."""
    maps = (proc.read(f"/proc/{pid}/maps") or b"").splitlines()
    files = {line.split()[-1].rpartition(b"/")[2] for line in maps if b"/" in line}
    return any(name.startswith((b"python", b"libpython", b"pypy")) for name in files)
