"""Starts the processes that tell metrics while a recording goes on (``leakscope/metering``). Runs in the recorder.

The recorder takes the port and hands it on: that others have it is told at once, and no client ever meets the recorder.
The processes end when their standard input is closed, so also when the recorder is killed.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..endpoints import otlp_host
from ..options import RecordOptions
from . import finalizing
from .helpers import Room, goes_first, too_full

if TYPE_CHECKING:
    import socket

SERVES, PUSHES = "serves metrics", "pushes metrics"
# Of their own memory, seen: 20 MiB, with the SDK of OpenTelemetry 45 MiB.
_ROOM_BYTES = {SERVES: 32 << 20, PUSHES: 64 << 20}
_CODE = "gc.enable(); from leakscope.metering.__main__ import main; os._exit(main(sys.argv[1:]))"
_LAST_WAIT_S = 4.0  # for the last push, when the job has ended
_POLL_S = 0.02
_SAID_BYTES = 16 * 1024


class _Helper(NamedTuple):
    """One at work. ``alive``: our end of its standard input; ``said``: a file of ours for what it has to say."""

    what: str
    alive: int
    said: int | None


class Metering:
    """The processes that tell metrics of one recording. ``notes``: lines for the user; ``full``: no room for one."""

    def __init__(self, options: RecordOptions, output: str, listener: socket.socket | None) -> None:
        """``listener``: taken before the job began; None: another rank of it has the port."""
        self.notes: list[str] = []
        self.full: Room | None = None
        self._output, self._is_heard = output, not options.quiet
        self._living: dict[int, _Helper] = {}
        if options.metrics is not None:
            self._serve(options.metrics, listener)
        if options.otlp is not None and self._start(PUSHES, ["push", options.otlp], []):
            self.notes.append(f"metrics are pushed to {otlp_host(options.otlp)}")

    @property
    def helpers(self) -> dict[int, str]:
        """Their pids, and what each does."""
        return {pid: helper.what for pid, helper in self._living.items()}

    def note_exit(self, pid: int) -> str:
        """A child of the recorder was reaped; what it had to say, if it was one of these."""
        helper = self._living.pop(pid, None)
        if helper is None:
            return ""
        if helper.alive >= 0:
            os.close(helper.alive)
        if helper.said is None:
            return ""
        try:
            return os.pread(helper.said, _SAID_BYTES, 0).decode("utf-8", "replace")
        finally:
            os.close(helper.said)

    def close(self) -> None:
        """The recording is complete: they look at it once more, and end."""
        for pid, helper in self._living.items():
            os.close(helper.alive)
            self._living[pid] = helper._replace(alive=-1)

    def finish(self) -> str:
        """Let them end, for a while. Returns what they said."""
        said, deadline_s = "", time.monotonic() + _LAST_WAIT_S
        while self._living:
            is_late = time.monotonic() >= deadline_s
            for pid in list(self._living):
                with suppress(ChildProcessError, ProcessLookupError):
                    if is_late:
                        os.kill(pid, signal.SIGKILL)
                    if os.waitpid(pid, 0 if is_late else os.WNOHANG)[0] == 0:
                        continue
                said += self.note_exit(pid)
            if self._living:
                time.sleep(_POLL_S)
        return said

    def _serve(self, text: str, listener: socket.socket | None) -> None:
        if listener is None:
            self.notes.append(f"no metrics of this rank: another one has {text}")
            return
        with listener:
            host, port = listener.getsockname()[:2]
            number = 3 if listener.fileno() != 3 else 4  # onto itself it would stay closed in the helper
            actions = [(os.POSIX_SPAWN_DUP2, listener.fileno(), number)]
            if self._start(SERVES, ["serve", str(number)], actions):
                at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                self.notes.append(f"metrics are at http://{at}/metrics")

    def _start(self, what: str, words: list[str], actions: list[tuple[Any, ...]]) -> bool:
        if (full := too_full(_ROOM_BYTES[what])) is not None:
            self.full = full
            return False
        said = _file_without_a_name() if self._is_heard else None
        nothing = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        ends: tuple[int, ...] = ()
        try:
            reading, alive = ends = os.pipe()
            pid = finalizing.spawn(
                finalizing.command(_CODE, self._output, *words),
                [
                    *actions,
                    (os.POSIX_SPAWN_DUP2, reading, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, said, 2) if said is not None else nothing,
                ],
            )
        except OSError as error:
            for descriptor in (*ends, said):
                if descriptor is not None:
                    os.close(descriptor)
            self.notes.append(f"the process that {what} could not be started: {error.strerror}")
            return False
        os.close(reading)
        goes_first(pid)
        self._living[pid] = _Helper(what, alive, said)
        return True


def _file_without_a_name() -> int | None:
    with suppress(OSError, AttributeError):  # an old kernel
        return os.memfd_create("leakscope")
    return None
