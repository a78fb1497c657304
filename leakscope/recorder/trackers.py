"""``--log-to``: a helper for each tracker, which reads the journal beside the job. Runs in the recorder.

SDKs are large and need the network: they are in the helper alone, which the recorder never waits for while it samples.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from ..units import GiB, MiB
from . import finalizing
from .helpers import Room, goes_first, too_full

LAST_WAIT_S = 60.0  # for the summary and the page, when the job has ended; then a helper goes on by itself
_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES = 700 * MiB, 2 * GiB  # of its own memory, seen: 160 to 450 MiB
_SAID_BYTES = 16 * 1024
_POLL_S = 0.1
_CODE = "from leakscope.pushing.__main__ import main; sys.exit(main(sys.argv[1:]))"


class Trackers:
    """The helpers of one recording. ``full``: what left no room for one."""

    def __init__(self, output: str, targets: Sequence[str]) -> None:
        self.full: Room | None = None
        self._said: dict[int, int] = {}  # by pid: a file without a name, for what it has to say
        self._targets: dict[int, str] = {}
        for target in targets:
            self.full = too_full(_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES)
            if self.full is None:
                self._start(output, target)

    @property
    def pids(self) -> list[int]:
        """Those that run."""
        return list(self._said)

    def note_exit(self, pid: int) -> str:
        """A child of the recorder was reaped; what it had to say, if it was one of these."""
        said = self._said.pop(pid, None)
        self._targets.pop(pid, None)
        return "" if said is None else _words(said)

    def finish(self) -> str:
        """Let them end, for a while or until somebody wants the recorder to end. Returns what they said."""
        words = ""
        for pid in self.pids:
            finalizing.hurries(pid)
        until_s = time.monotonic() + LAST_WAIT_S
        while self._said and time.monotonic() < until_s and not signal.sigpending() & set(finalizing.ENDS_WAITING):
            for pid in self.pids:
                with suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG)[0] == 0:
                        continue
                words += self.note_exit(pid)
            time.sleep(_POLL_S)
        if self._said:
            words += f"leakscope: {' and '.join(self._targets.values())}: not done yet; it goes on by itself\n"
        return words

    def _start(self, output: str, target: str) -> None:
        said = os.memfd_create("leakscope-said", os.MFD_CLOEXEC)
        try:
            pid = finalizing.spawn(
                finalizing.command(_CODE, output, target),
                [
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, said, 2),
                ],
            )
        except OSError:  # no processes left: the recording is pushed later, by hand
            os.close(said)
            return
        finalizing.yields(pid)
        goes_first(pid)
        self._said[pid], self._targets[pid] = said, target.partition(":")[0]


def _words(said: int) -> str:
    """Its own lines; an SDK says much more."""
    try:
        size = os.fstat(said).st_size
        text = os.pread(said, _SAID_BYTES, max(0, size - _SAID_BYTES)).decode("utf-8", "replace")
    finally:
        os.close(said)
    lines = text.splitlines()
    own = [line for line in lines if line.startswith("leakscope: ")] or lines[-1:]
    return "".join(f"{line}\n" for line in own)
