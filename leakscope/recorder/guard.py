"""A recorder that is killed takes its command with it, as if the command had been killed itself. Runs beside it.

Whoever starts ``leakscope record`` in a job's place knows the recorder's process id and no other. A launcher that kills
its child when its time is over (``subprocess.run(timeout=...)``, torchrun, a scheduler) means the job: it would else go
on with nobody to end it, and keep its GPU. SIGKILL cannot be passed on by who gets it, so a small process of ours waits
for the recorder's end, and then sends it to the command.

Not where nobody killed the recorder: where it crashed (``faulthandler`` leaves words in the pipe), or where the kernel
was out of memory (its count of kills has risen since the recorder last looked). Then the command goes on, as it does
with ``--outlive``. What the command had started is left to itself, as it is by a bare SIGKILL.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from contextlib import suppress

from . import proc

ROOM_BYTES = 8 * 1024 * 1024  # what it takes once the recorder has changed all the pages that they share
_COUNT_BYTES = 8
_DONE = b"done"


class Guard:
    """Who waits for the end of this process; ``pid`` is its."""

    def __init__(self, job_pid: int) -> None:
        """**Errors** OSError, AttributeError where the kernel or Python has no descriptors of processes."""
        job = os.pidfd_open(job_pid)  # not reaped yet, so it is this one
        try:
            self._count = os.memfd_create("leakscope")
            self.remember(_kills())
            reading, self._writing = os.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                try:
                    _keep_only(reading, job, self._count)
                    _wait_and_kill(reading, job, self._count)
                finally:
                    os._exit(0)
            os.close(reading)
        finally:
            os.close(job)
        faulthandler.enable(self._writing)

    def remember(self, kill_count: int | None) -> None:
        """How many processes the kernel has killed so far for want of memory, as of this look."""
        with suppress(OSError):
            os.pwrite(self._count, (kill_count or 0).to_bytes(_COUNT_BYTES, "little", signed=True), 0)

    def dismiss(self) -> None:
        """The command has ended, or is to go on whatever happens to us."""
        if self._writing < 0:
            return
        faulthandler.disable()
        with suppress(OSError):
            os.write(self._writing, _DONE)
        os.close(self._writing)
        os.close(self._count)
        self._writing = self._count = -1


def _kills() -> int | None:
    return proc.count_of(proc.read("/proc/vmstat") or b"", b"oom_kill")


def _wait_and_kill(reading: int, job: int, count: int) -> None:
    if os.read(reading, 1):
        return  # the recorder has said something before it went: that it is done, or how it crashed
    before = int.from_bytes(os.pread(count, _COUNT_BYTES, 0), "little", signed=True)
    if (_kills() or 0) <= before:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(job, signal.SIGKILL)


def _keep_only(*descriptors: int) -> None:
    """Whoever reads what the recorder or the job writes waits for the last who could."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in descriptors:
            with suppress(OSError):
                os.close(int(name))
