"""A recorder that is killed takes its command with it, as if the command had been killed itself. Runs beside it.

Whoever starts ``leakscope record`` in a job's place knows the recorder's process id and no other. A launcher that kills
its child when its time is over (``subprocess.run(timeout=...)``, torchrun, a scheduler) means the job: it would else go
on with nobody to end it, and keep its GPU. SIGKILL cannot be passed on by who gets it, so a small process of ours waits
for the recorder's end, and then sends it to the command. It is a shell: a fork of the recorder would keep its pages as
they were, 4.6 MB once the recorder has changed them, and in a cgroup that is full the job lacks those.

Not where nobody killed the recorder: where it crashed (``faulthandler`` leaves words in the pipe), or where the kernel
was out of memory (its count of kills has risen since the recorder last looked). Then the command goes on, as it does
with ``--outlive``. What the command had started is left to itself, as it is by a bare SIGKILL.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from contextlib import suppress
from typing import Any

if sys.platform != "win32":
    import fcntl

from . import proc

ROOM_BYTES = 1024 * 1024
_SHELL = "/bin/sh"
_DONE = b"done\n"
_SAID, _COUNT = 3, 4  # descriptors of its own
# Only what every shell has built in. $1: the pid of the command, $2: when it began, in ticks: so it is this one.
_WAIT_AND_KILL = f"""
read -r said <&{_SAID}
[ -z "$said" ] || exit
read -r before <&{_COUNT}
while read -r name count; do
    [ "$name" != oom_kill ] || [ "$count" -le "$before" ] || exit
done </proc/vmstat
pid=$1 ticks=$2
read -r stat <"/proc/$pid/stat" || exit
set -f
set -- ${{stat##*) }}
[ "${{20}}" != "$ticks" ] || kill -9 "$pid"
"""


class Guard:
    """Who waits for the end of this process; ``pid`` is its."""

    def __init__(self, job_pid: int) -> None:
        """**Errors** OSError where there is no shell, or the command is gone."""
        job = proc.stat(job_pid)  # not reaped yet, so it is this one
        if job is None:
            raise ProcessLookupError(job_pid)
        count = os.memfd_create("leakscope")
        self._count = fcntl.fcntl(count, fcntl.F_DUPFD_CLOEXEC, _COUNT + 1)
        os.close(count)
        self.remember(_kills())
        pipe = os.pipe()
        # None of them is a number that the shell gets another by before.
        reading, self._writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _COUNT + 1) for end in pipe)
        for end in pipe:
            os.close(end)
        words = ["sh", "-c", _WAIT_AND_KILL, "leakscope-guard", str(job_pid), str(job.start_ticks)]
        try:  # in our process group, with our signals blocked: who ends us by ^C does not end it
            self.pid = os.posix_spawn(_SHELL, words, {}, file_actions=_file_actions(reading, self._count))
        except OSError:
            os.close(self._writing)
            os.close(self._count)
            raise
        finally:
            os.close(reading)
        faulthandler.enable(self._writing)

    def remember(self, kill_count: int | None) -> None:
        """How many processes the kernel has killed so far for want of memory, as of this look."""
        with suppress(OSError):
            os.pwrite(self._count, b"%19d\n" % (kill_count or 0), 0)

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


def _file_actions(reading: int, count: int) -> list[tuple[Any, ...]]:
    """It has these two and no others: who reads what the recorder or the job writes waits for the last who could."""
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, ours, its) for ours, its in ((0, 1), (0, 2), (reading, _SAID), (count, _COUNT))]
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if int(name) > _COUNT and os.get_inheritable(int(name)):
                actions.append((os.POSIX_SPAWN_CLOSE, int(name)))
    return actions
