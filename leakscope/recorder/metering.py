"""Starts the processes that tell metrics while a recording goes on (``leakscope/metering``). Runs in the recorder.

The recorder takes the port and hands it on: that others have it is told at once, and no client ever meets the recorder.
The processes end when their standard input is closed, so also when the recorder is killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..endpoints import otlp_host
from ..options import RecordOptions
from . import finalizing
from .companion import Talkers, Word, nameless_file, streams
from .helpers import too_full

if TYPE_CHECKING:
    import socket

SERVES, PUSHES = "serves metrics", "pushes metrics"
# Of their own memory, seen: 20 MiB, with the SDK of OpenTelemetry 45 MiB.
_ROOM_BYTES = {SERVES: 32 << 20, PUSHES: 64 << 20}
_CODE = "gc.enable(); from leakscope.metering.__main__ import main; os._exit(main(sys.argv[1:]))"
_LAST_WAIT_S = 4.0  # for the last push, when the job has ended


class Metering(Talkers):
    """The processes that tell metrics of one recording. ``notes``: lines for the user."""

    left_out = "no metrics are served"
    wait_s = _LAST_WAIT_S

    def __init__(self, options: RecordOptions, output: str, listener: socket.socket | None) -> None:
        """``listener``: taken before the job began; None: another rank of it has the port."""
        super().__init__()
        self._output, self._is_heard = output, not options.quiet
        self._alive: dict[int, int] = {}  # our end of each one's standard input
        if options.metrics is not None:
            self._serve(options.metrics, listener)
        if options.otlp is not None and self._start(PUSHES, ["push", options.otlp], []):
            self.notes.append(f"metrics are pushed to {otlp_host(options.otlp)}")

    def ended(self, pid: int, status: int) -> Word | None:
        if (alive := self._alive.pop(pid, None)) is not None:
            os.close(alive)
        return super().ended(pid, status)

    def close(self) -> None:
        """The recording is complete: they look at it once more, and end."""
        for alive in self._alive.values():
            os.close(alive)
        self._alive.clear()

    def finish(self) -> str:
        """Let them end, for a while, and no longer. Returns what they said."""
        said = super().finish()
        for pid in list(self.pids):
            finalizing.stop(pid)
            word = self.ended(pid, 0)
            said += word.text if word is not None else ""
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
            self._full = full
            return False
        said = nameless_file() if self._is_heard else None
        ends: tuple[int, ...] = ()
        try:
            reading, alive = ends = os.pipe()
            pid = finalizing.spawn(finalizing.command(_CODE, self._output, *words), [*actions, *streams(said, reading)])
        except OSError as error:
            for descriptor in (*ends, said):
                if descriptor is not None:
                    os.close(descriptor)
            self.notes.append(f"the process that {what} could not be started: {error.strerror}")
            return False
        os.close(reading)
        self.begun(pid, what, said)
        self._alive[pid] = alive
        return True
