"""Holders of snapshots that are graphs, worked out in a child process, which ends with it: pandas takes 80 MB.

The child is a fork, and has the rows already. It is made only where pandas is installed and memory has room, and so
seldom that it takes a hundredth of a core.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from importlib import util

from ..recorder.helpers import too_full
from ..watching.holders import Holder, Process
from ..watching.scene import Scene

_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES = 256 << 20, 10**9
_MOST_SHARE = 0.01  # of a core
_MOST_S = 300.0  # it gets what is left of a busy machine
_MOST_BYTES = 16 << 20
_PART_BYTES = 1 << 16
_NICE = 5  # the job goes first; at 19 a busy machine would let it wait for an hour
_MOST_PROCESSES = 4  # those with the most memory: ranks of one job are alike
_PR_SET_PDEATHSIG = 1


class ExactHolders:
    """Keeps the snapshots of a scene supplied. ``descriptor``: of the answer to come, if one is."""

    def __init__(self, scene: Scene) -> None:
        self.descriptor: int | None = None
        self._scene = scene
        self._asked: dict[Process, int] = {}  # the newest snapshot that somebody was asked about
        self._pid = 0
        self._said = b""
        self._began_s = self._next_s = 0.0
        self._is_possible = util.find_spec("pandas") is not None

    def begin_if_due(self) -> None:
        now_s = time.monotonic()
        if self.descriptor is not None:
            if now_s - self._began_s > _MOST_S:
                self._end(now_s)
            return
        if not self._is_possible or now_s < self._next_s:
            return
        newest = self._scene.holders.due()
        self._asked = {process: number for process, number in self._asked.items() if process in newest}
        due = [process for process, number in newest.items() if self._asked.get(process) != number]
        if not due:
            return
        if too_full(_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES) is not None:
            self._next_s = now_s + _MOST_S
            return
        members = self._scene.members
        due.sort(key=lambda process: -(members[process].memory_bytes if process in members else 0))
        self._begin({process: newest[process] for process in due[:_MOST_PROCESSES]}, now_s)
        self._asked |= {process: newest[process] for process in due}

    def take_in(self) -> None:
        """What the child says. Does not wait."""
        if self.descriptor is None:
            return
        part = os.read(self.descriptor, _PART_BYTES)
        self._said += part
        if part and len(self._said) <= _MOST_BYTES:
            return
        said = self._said
        self._end(time.monotonic())
        with suppress(ValueError):
            for pid, start_ticks, number, holders in json.loads(said):
                process = pid, start_ticks
                self._scene.holders.put(process, number, [Holder(process, *one) for one in holders])

    def wait(self) -> None:
        """Until what is due is worked out."""
        self._next_s = 0.0
        self.begin_if_due()
        while self.descriptor is not None:
            left_s = self._began_s + _MOST_S - time.monotonic()
            if left_s <= 0 or not select.select([self.descriptor], [], [], left_s)[0]:
                self._end(time.monotonic())
            else:
                self.take_in()

    def close(self) -> None:
        if self.descriptor is not None:
            self._end(time.monotonic())

    def _begin(self, asked: dict[Process, int], now_s: float) -> None:
        self.descriptor, writing = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self.descriptor)
            self.descriptor, self._next_s = None, now_s + _MOST_S
        else:
            if self._pid == 0:
                _work(self._scene, asked, writing, parent)
            self._began_s = now_s
        finally:
            os.close(writing)

    def _end(self, now_s: float) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor, self._said = None, b""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # whatever it still does, nobody hears it
        spent_s = now_s - self._began_s
        with suppress(ChildProcessError):
            usage = os.wait4(self._pid, 0)[2]
            spent_s = usage.ru_utime + usage.ru_stime
        self._next_s = now_s + spent_s / _MOST_SHARE


def _work(scene: Scene, asked: dict[Process, int], writing: int, parent: int) -> None:
    """In the child: never returns."""
    status = 1
    try:
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.nice(_NICE)
        if os.getppid() == parent:
            with os.fdopen(writing, "wb") as stream:
                stream.write(json.dumps(_told(scene, asked)).encode())
            status = 0
    finally:
        os._exit(status)


def _told(scene: Scene, asked: dict[Process, int]) -> list[tuple[int, int, int, list[object]]]:
    """Of each process the snapshot that is asked for, and its holders: what ``Holder`` has of them but for its ends."""
    return [
        (*process, number, [holder[1:-2] for holder in scene.holders.worked_out(process, number)])
        for process, number in asked.items()
    ]
