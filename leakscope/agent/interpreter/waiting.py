"""How the agent's thread waits, and is woken: by C code that minds the process, or by a lock. Runs in the job.

waiting.c says what that code sees to. Where it is not there, a thread of ours is one like others: it keeps a process
alive whose main thread has ended, and does not notice that system calls are filtered.
"""

from __future__ import annotations

import _signal
import ctypes
import os
import sys
from _functools import partial
from _thread import allocate_lock

from . import doors, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[[], Any]

LIBRARY = "libleakscope_thread.so"
GOES_ON, IS_LAST, IS_SHUT = range(3)
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
_ACTION_BYTES = 512  # more than a struct sigaction has on any platform


class _LookedAt(ctypes.Structure):
    _fields_ = [("file", ctypes.c_int32), ("has_begun", ctypes.c_int32)] + [
        (name, kind)
        for kind, names in ((ctypes.c_uint64, ("device", "node")), (ctypes.c_int64, ("pid", "filters")))
        for name in names
    ]


class _State(ctypes.Structure):
    """``struct waiting`` of waiting.c."""

    _fields_ = [
        ("asked", ctypes.c_int32), ("state", ctypes.c_int32), ("process", _LookedAt),
        ("python_handler", ctypes.c_uint64), ("fault_handler", ctypes.c_uint64), ("look_ns", ctypes.c_int64),
        ("note_bytes", ctypes.c_uint64), ("note_file", ctypes.c_char_p), ("note", ctypes.c_char_p),
    ]  # fmt: skip


class _Library:
    """Its functions; ``held`` are called with the GIL."""

    def __init__(self) -> None:
        """**Errors** OSError where there is none for this machine."""
        free, held = ctypes.CDLL(_FILE), ctypes.PyDLL(_FILE)
        self.wait, self.wake, self.is_shut = free.waiting_wait, held.waiting_wake, held.waiting_is_shut
        self.mind_main_thread = held.waiting_mind_main_thread
        # Addresses of what gives a thread's state, or nothing where it has not the GIL; and of what lets go of that.
        current = "PyThreadState_GetUnchecked" if sys.version_info >= (3, 13) else "_PyThreadState_UncheckedGet"
        self.of_python = [
            ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p) for name in (current, "PyEval_SaveThread")
        ]
        self.sigaction = ctypes.CDLL(None).sigaction
        self.python_handler = 0  # address of what the kernel calls for a signal with a handler in Python; 0: not known
        self.begin, self.end, self.close = held.waiting_begin, held.waiting_end, held.waiting_close
        state = ctypes.POINTER(_State)
        self.wait.argtypes, self.is_shut.argtypes = (state, ctypes.c_double), (state, ctypes.c_int)
        self.mind_main_thread.argtypes = (ctypes.c_void_p,) * 3
        for function in (self.wait, self.wake, self.begin, self.end, self.close, self.mind_main_thread):
            function.restype = None
        for function in (self.wake, self.begin, self.end, self.close):
            function.argtypes = (state,)

    def find_python_handler(self) -> int:
        for number in range(1, _signal.NSIG):
            if not self.python_handler and callable(_signal.getsignal(number)):
                action = ctypes.create_string_buffer(_ACTION_BYTES)
                self.sigaction(number, None, action)
                self.python_handler = ctypes.c_void_p.from_buffer(action).value or 0
        return self.python_handler


class Waiting:
    """Of one thread. What stands in its attributes are C functions."""

    begins: tuple[Function, ...] = ()  # on the thread
    ends: tuple[Function, ...] = ()
    leaves: tuple[Function, ...] = ()  # where it is not in this process, but in the one that this was forked from
    wakes: tuple[Function, ...]  # all of them, on any thread

    def wait(self, seconds: float) -> Function:
        """Returns earlier if it is woken."""
        raise NotImplementedError

    def is_last(self) -> bool:
        """Whether all other threads have ended, the main one first, and the process will with this one."""
        return False

    def is_shut(self, at_exit: bool = False) -> bool:
        """Whether the job has set a filter of system calls since: nothing of ours makes one any more.

        ``at_exit``: may be asked once in a process, and on its main thread.
        """
        return False


class _ByLock(Waiting):
    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self.wakes = partial(self._lock.acquire, False), self._lock.release

    def wait(self, seconds: float) -> Function:
        return partial(self._lock.acquire, True, seconds)


class _InC(Waiting):
    def __init__(self, library: _Library, state: _State) -> None:
        self._library, self._state = library, state
        self.begins, self.ends = (partial(library.begin, state),), (partial(library.end, state),)
        self.leaves = (partial(library.close, state),)
        self.wakes = (partial(library.wake, state),)

    def wait(self, seconds: float) -> Function:
        return partial(self._library.wait, self._state, seconds)

    def is_last(self) -> bool:
        return bool(self._state.state == IS_LAST)

    def is_shut(self, at_exit: bool = False) -> bool:
        return bool(self._library.is_shut(self._state, at_exit))


_library: list[_Library] = []


def load() -> None:
    """As the process starts: the job has no other root then, and no limits."""
    if not _library:
        try:
            _library.append(_Library())
        except (OSError, AttributeError):
            pass  # installed without a compiler, or for another machine


class LastWill:
    """What is appended to the journal where the thread ends by itself; and whose handler of faults is ours."""

    def __init__(self) -> None:
        self._states: list[_State] = []
        self._note: list[tuple[bytes, bytes]] = []  # the one before stays, too: it may just be read
        self._fault_handler = 0

    def note(self, path: str, data: bytes) -> None:
        self._note = [*self._note[-1:], (os.fsencode(path), data)]
        self._tell()

    def faults_are_handled_by(self, address: int) -> None:
        self._fault_handler = address
        self._tell()

    def of(self, state: _State) -> None:
        self._states[:] = [state]
        self._tell()

    def _tell(self) -> None:
        for state in self._states:
            state.fault_handler = self._fault_handler
            for path, data in self._note[-1:]:
                state.note_file, state.note_bytes = path, len(data)
                state.note = data


def new(will: LastWill) -> Waiting:
    """For a thread that begins; to be called on the main one."""
    if not _library:
        return _ByLock()
    state = _State(python_handler=_library[0].python_handler or _library[0].find_python_handler())
    state.process.file = -1
    will.of(state)
    here = _InC(_library[0], state)
    files.refusals[:] = [here.is_shut]
    if doors.main_state() == doors.thread_state():
        _library[0].mind_main_thread(doors.main_state(), *_library[0].of_python)
    return here
