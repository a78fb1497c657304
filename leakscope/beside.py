"""`leakscope.record`: a part of a program, or a notebook's kernel, recorded by a recorder that is started beside it.

The recorder is that of ``leakscope attach``, in a process and a session of its own: an interrupt of the kernel does not
reach it, and it ends in order when the kernel dies. The agent is started here, by the program that asks for it, as it
is in any recorded process; it leaves when the recording is over. Allocations are not sampled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from . import isolation
from .agent.journal import read_blocks
from .errors import BadInput, LeakscopeError
from .recorder import attach, naming, staging
from .recorder.output import JOURNAL_SUFFIX

_AGENT = "_leakscope_agent"
_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_FLUSH_S = 1.0  # the agent sees as late that a recording is over
_LOOK_S = 0.05
_START_S, _STOP_S = 20.0, 120.0
_SNAPSHOT_S = 5.0  # for the first and the last; one that takes longer is made without us
_GRAPH_S = 2.0  # after the snapshot, until its graph is worked out


def record(path: str | os.PathLike[str] = "run.parquet", *, force: bool = False) -> Recorder:
    """Record this process and its children, from ``with`` to its end or from ``start()`` to ``stop()``.

        with leakscope.record("run.parquet"):
            train()
        leakscope.open_recording("run.parquet").report()

    ``path`` may have the fields of ``leakscope record -o``, such as ``{time}``. An earlier recording of that name is
    renamed, or deleted with ``force``. There is a snapshot of all objects at the beginning and at the end, and others
    as ``leakscope record`` makes them. **Errors** BadInput, LeakscopeError when it starts or stops, in one line.
    """
    return Recorder(os.fspath(path), force)


class Recorder:
    """One recording of the process that it is made in; starts once."""

    def __init__(self, path: str, force: bool) -> None:
        self.path = naming.output_path(path, os.environ, time.time())
        self._force = force
        self._process: subprocess.Popen[str] | None = None
        self._pid = os.getpid()

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except LeakscopeError as problem:
            if error is None:
                raise
            print(f"leakscope: {problem}", file=sys.stderr)  # the program's own error is the one to see

    def __repr__(self) -> str:
        state = "recording" if self.is_running else "not recording"
        return f"<Recorder of process {self._pid}: {state}, {naming.shown(self.path)}>"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the recorder, and the agent here; returns when both are at work."""
        if self._process is not None:
            raise BadInput(f"{naming.shown(self.path)} was begun already: leakscope.record() makes another")
        agent = sys.modules.get(_AGENT)
        if agent is not None and not _within(2 * _FLUSH_S + 1, agent.is_over):
            raise BadInput("this process is being recorded already; the first recording must end before another begins")
        journal = self.path + JOURNAL_SUFFIX
        if os.path.lexists(journal):
            raise BadInput(
                f"{naming.shown(journal)} is there, of a recording that goes on or was cut off: choose another name"
            )
        words = ["attach", "--quiet", "--no-summary", "--invited", "--flush", f"{_FLUSH_S:g}s"]
        words += ["--force"] if self._force else []
        command = isolation.command(_MAIN, *words, "-o", self.path, str(os.getpid()))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEAKSCOPE_")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=environment,
        )  # fmt: skip
        if not _within(_START_S, lambda: self._process_ended() or staging.run_of(journal) is not None):
            self._process.kill()
        if not self.is_running:
            raise BadInput(f"the recorder did not start: {self._said() or 'it gave no reason'}")
        folder = staging.run_of(journal)
        if folder is not None:
            sys.modules.pop(_AGENT, None)  # that of a recording which is over
            attach.enter_here(folder, journal)
            self._snapshot(journal)

    def stop(self) -> str:
        """End the recording; returns the path of its file, which is whole then. Another time it does nothing."""
        if self._process is None:
            raise BadInput("nothing is being recorded: leakscope.record() begins")
        if self.is_running and os.getpid() == self._pid:
            self._snapshot(self.path + JOURNAL_SUFFIX)
            self._process.terminate()
        try:
            status = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise LeakscopeError(f"the recorder does not end; what it has is in {self.path}{JOURNAL_SUFFIX}") from None
        said = self._said()
        if status != 0:
            raise LeakscopeError(said or f"the recorder ended with status {status}")
        return self.path

    def _snapshot(self, journal: str) -> None:
        """Ask for one and wait until it is written down; where none can be made, no longer than that may take."""
        agent: Any = sys.modules.get(_AGENT)
        if agent is None or agent.is_over():
            return
        asked_ns = time.monotonic_ns()
        with suppress(Exception):
            agent.snapshot()
        taken: list[int] = []

        def is_taken() -> bool:
            taken.extend(row["take"] for row in self._rows(journal, "takes") if row["time_mono_ns"] >= asked_ns)
            return bool(taken)

        if _within(_SNAPSHOT_S, is_taken):
            _within(_GRAPH_S, lambda: any(row["take"] == taken[0] for row in self._rows(journal, "heap_graphs")))

    def _rows(self, journal: str, table: str) -> Iterator[dict[str, Any]]:
        with suppress(OSError):
            for name in os.listdir(journal):
                if name.startswith(f"agent-{self._pid}-") and name.endswith(".jnl"):
                    for _, rows in read_blocks(os.path.join(journal, name), (table,)):
                        yield from rows

    def _process_ended(self) -> bool:
        return not self.is_running

    def _said(self) -> str:
        """What the recorder said last, without its name."""
        assert self._process is not None
        lines = (
            self._process.stderr.read() if self._process.stderr and not self._process.stderr.closed else ""
        ).splitlines()
        if self._process.stderr is not None:
            self._process.stderr.close()
        return lines[-1].replace("leakscope: ", "", 1) if lines else ""


def _within(seconds: float, is_so: Callable[[], bool]) -> bool:
    """Wait for it on this thread, in steps: a snapshot needs the main thread to come by."""
    until_s = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True
