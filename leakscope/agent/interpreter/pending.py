"""Calls that the interpreter makes for us on the main thread, between two bytecodes. Runs in the job."""

from __future__ import annotations

import ctypes
import sys
from _functools import partial
from time import monotonic

from . import doors, quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class PendingCall:
    """Run a function once on the main thread between two bytecodes, if nobody traces, profiles or debugs by then.

    A signal handler of the job may run inside ours, and what it raises is the job's. So the C function that is put on
    the interpreter's list is ``PyObject_IsTrue``, with an object of ours as its argument, and hands an exception on to
    the frame that was interrupted. (A ctypes callback would print and swallow it.)

    While one runs no other is asked for: Python 3.11 under a profiler (set meanwhile) then never gets
    past the beginning of a function, since what is pending keeps it from going on and cannot be served.
    """

    def __init__(self, function: Callable[[], object], otherwise: Iterable[Callable[[], object]] = ()) -> None:
        """``otherwise``: C functions to call instead while somebody watches."""
        self._function = function
        self._asked: list[float] = []
        self._entry = doors.entry(self._run, (self._asked.clear,), otherwise)
        # To ask without a function of Python, whether it can be now or not.
        self.ask_unseen = doors.unless(_REFUSED, partial(_add_pending_call, _is_true, id(self._entry)))

    @property
    def asked_at(self) -> float | None:
        """When it was asked for, seconds (monotonic); None: it is not waited for."""
        return max(tuple(self._asked), default=None)

    def forget(self) -> None:
        """In a forked child: what was pending is the parent's."""
        self._asked.clear()
        _running.clear()

    def _run(self) -> bool:
        hidden = quiet.hide()  # it may come in the middle of anything, also of what is compiled or traced
        try:
            _running.append(True)
            self._function()
        finally:
            _running.clear()
            quiet.show(hidden)
        return True

    quiet.keep_out(_run)

    def ask(self) -> bool:
        """False if it cannot be now: ask later. The object must outlive the call."""
        asked = self._asked
        if asked:
            return True
        asked.append(monotonic())
        # Threads change places at calls: nothing is called between this look and the call that follows from it.
        if _running or doors.main_is_deep() or self.ask_unseen():
            asked.clear()
            return False
        return True


_running: list[bool] = []  # something while a pending call runs
_add_pending_call = ctypes.pythonapi["Py_AddPendingCall"]
_add_pending_call.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
_is_true = ctypes.cast(ctypes.pythonapi["PyObject_IsTrue"], ctypes.c_void_p)


class _PendingCalls(ctypes.Structure):
    """Of Python 3.8's runtime, where it begins, up to the first call ever asked for."""

    _fields_ = [
        ("finishing", ctypes.c_int), ("lock", ctypes.c_void_p), ("count", ctypes.c_int), ("async", ctypes.c_int),
        ("function", ctypes.c_void_p), ("argument", ctypes.c_void_p),
    ]  # fmt: skip


def _finishing() -> Iterable[Any]:
    """When no call can be pending any more, as Python ends; to ask for one then prints an error in 3.8, and only there.

    An iterable of one number. Found by the first call that is asked for, of nothing.
    """
    if sys.version_info >= (3, 9):
        return ()
    nothing = ()
    _add_pending_call(_is_true, id(nothing))
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    asked = b"".join(word.to_bytes(8, sys.byteorder) for word in (_is_true.value or 0, id(nothing)))
    at = (ctypes.c_char * _RUNTIME_BYTES).from_address(runtime).raw.find(asked)
    if at < 0:
        return (True,)
    return doors.fields(_PendingCalls, "finishing", runtime + at - _PendingCalls.function.offset)


_RUNTIME_BYTES = 2048  # of more; the pending calls come after 1,000
# Since 3.12 what is pending is called on the main thread whichever interpreter runs there, with a lock of its own.
_REFUSED = (doors.other_interpreters, _finishing())
