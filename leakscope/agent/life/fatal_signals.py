"""Where each thread stood when a fatal signal came: Python's ``faulthandler``, into a file of ours. Runs in the job.

It is on from the start, before any library sets handlers of its own, so those come on top of it and are served first.
After its text it gives the signal back to who had it before: the process ends by the same signal, with its core.
(The kernel's log has no line "segfault at" of a process that catches the signal. With faulthandler it has none.)

The job must find faulthandler as it would be without us, off: programs switch theirs on only if it is (Ray), or
switch it back to what it was (pytest). As soon as the job uses it, ours is gone and theirs is all there is.
"""

from __future__ import annotations

import _signal
import ctypes
import faulthandler
import os
import sys
import types

from .. import journal
from ..interpreter import doors, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE_NAME = "fault-%d-%d.txt"  # pid and start time; the recorder reads it when all is over
FAULTS = tuple(getattr(_signal, name) for name in ("SIGSEGV", "SIGFPE", "SIGBUS", "SIGILL"))  # of the code itself
_NUMBERS = FAULTS + (_signal.SIGABRT,)
_ACTION_BYTES = 512  # more than a struct sigaction has on any platform
_PUBLIC = ("enable", "disable", "is_enabled")


class FatalSignals:
    """faulthandler in our hands. ``is_ours`` until the job uses it itself.

    ``handler``: the address of the function that the kernel calls; 0 where it is not ours.
    """

    def __init__(self, folder: str, pid: int, start_ticks: int) -> None:
        """**Errors** OSError where the file cannot be made."""
        self.is_ours = False
        self.handler = 0
        self._folder = folder
        self._fd = -1
        if faulthandler.is_enabled() or any(_signal.getsignal(n) != _signal.SIG_DFL for n in _NUMBERS):
            return  # the job's own; or it was started with some of them ignored, and that is to stay
        self._original = {name: getattr(faulthandler, name) for name in _PUBLIC}
        self._sigaction = ctypes.CDLL(None).sigaction
        self._write_to_file_of(pid, start_ticks)
        handlers = {_handler(action) for action in self._actions().values()}
        if len(handlers) != 1:  # a libc that keeps it elsewhere: we could not tell its handler from others'
            self._original["disable"]()
            journal.close(self._fd, self._file)
            return
        self.handler = handlers.pop() or 0
        self.is_ours = True
        # As if it were off, until the job switches it on: no functions of Python, which a tracer would see. To ask for
        # ``enable`` is to have ours leave; while somebody watches, theirs takes over what ours has set.
        enable, self._enabled_by_job = doors.counted(self._original["enable"])
        for name in ("disable", "is_enabled"):
            setattr(faulthandler, name, doors.and_then(self._enabled_by_job, self._original[name]))
        del faulthandler.enable
        kind = {"__slots__": (), "enable": doors.answering(self._asked_to_leave, enable)}
        faulthandler.__class__ = type("module", (types.ModuleType,), kind)

    def _asked_to_leave(self) -> bool:
        self.leave()
        return True

    def forked(self, pid: int, start_ticks: int) -> None:
        """In a child: its text is not its parent's."""
        if self.is_ours:
            inherited, file = self._fd, self._file
            try:
                self._write_to_file_of(pid, start_ticks)
            except OSError:
                self.leave()
            else:
                journal.close(inherited, file)

    def tick(self) -> None:
        """The job may have switched it on. Or it is a daemon that has closed every descriptor it found: the text must
        not go to what then gets the number."""
        if self.is_ours and any(self._enabled_by_job):
            self._let_go()
        elif self.is_ours and journal.identity(self._fd) != self._file:
            self.leave()

    def leave_to_others(self) -> None:
        """At exit: handlers that libraries set after ours must stay, and Python's end would set them back.

        A virtual machine in the process (Java for HDFS) lives on meanwhile, and takes SIGSEGV every now and then.
        """
        self.tick()
        if self.is_ours and self._others():
            self.leave()

    def leave(self) -> None:
        """Switch it off as if it never had been on."""
        if not self.is_ours:
            return
        if not any(self._enabled_by_job):
            others = self._others()
            self._original["disable"]()
            for number, action in others.items():
                self._sigaction(number, action, None)
        self._let_go()

    def _let_go(self) -> None:
        self.is_ours = False
        faulthandler.__class__ = types.ModuleType
        for name, function in self._original.items():
            setattr(faulthandler, name, function)
        journal.close(self._fd, self._file)

    def _write_to_file_of(self, pid: int, start_ticks: int) -> None:
        path = os.path.join(self._folder, FILE_NAME % (pid, start_ticks))
        try:
            os.unlink(path)  # of the program that this process was before it called exec
        except FileNotFoundError:
            pass
        self._fd = files.create(path)
        self._file = journal.identity(self._fd)
        # Since 3.14 it can walk the C stack too, by functions that may wait for a lock the crashed code holds.
        more = {"c_stack": False} if sys.version_info >= (3, 14) else {}
        self._original["enable"](self._fd, all_threads=True, **more)

    def _actions(self) -> dict[int, Any]:
        """What is set for each signal now, as it lies in memory."""
        actions = {}
        for number in _NUMBERS:
            actions[number] = ctypes.create_string_buffer(_ACTION_BYTES)
            self._sigaction(number, None, actions[number])
        return actions

    def _others(self) -> dict[int, Any]:
        """Where a handler stands that is not faulthandler's. (To put that one back would be a crash without end.)"""
        return {number: action for number, action in self._actions().items() if _handler(action) != self.handler}


def _handler(action: Any) -> int | None:
    """The first field of a struct sigaction; of the others glibc fills in only what it uses."""
    return ctypes.c_void_p.from_buffer(action).value
