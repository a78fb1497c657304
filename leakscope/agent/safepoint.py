"""When a take runs, on which thread, and what it may cost. Runs in the job.

The agent's thread decides that a take is due; the take itself runs where the job's objects hold still: in torch's
optimizer-step hook on the training thread, or on the main thread between two bytecodes (a pending call). Only if
neither comes within some seconds (the main thread waits for others) a reduced take runs on the agent's thread.
"""

import ctypes
import os
import sys
from _functools import partial
from time import monotonic

from . import doors, names, quiet, reading

FIRST_TAKE_S = 1.5
EARLY_S = 60.0  # short runs are common: in the first minute takes are denser than later
EARLY_INTERVAL_S = 2.0
CREDIT_S = 120.0  # the share of this time may be spent in advance (1.2 s at 1 %): a run of 20 seconds gets its takes
LATE_FACTOR = 2.0  # of its usual interval: a take that costs put off by more than that is worth a word
EARLY_STRETCH = 0.35  # of the time since the first: 1.5, 3.5, 5.5, … 10, 14, 18, 25, 34, 45 s for a cheap take
FIRST_TAKES = 3  # as often as any: what is wasted from the start is told from weights at several moments
FLAT_FACTOR = 8.0  # of the usual interval: the next take where memory stands still, which then finds the same
PATIENCE_S = 5.0  # how long a due take waits for its safe point
STEPPING_S = 5.0  # a job whose last optimizer step is younger is taken at the next one
GROWTH_FRACTION = 0.3  # of resident memory since the last take: a take is due early
GROWTH_MIN_BYTES = 64 * 1024 * 1024


class Budget(object):
    """What takes may cost: ``fraction`` of the time elapsed, and of ``CREDIT_S`` in advance.

    Costs are CPU time: on a crowded machine a take lasts longer, but so does everything else.
    """

    def __init__(self, fraction, interval_s):
        self._fraction = fraction
        self._interval_s = interval_s
        self.spent_s = 0.0
        self.last_cost_s = 0.03
        self._first_s = None
        self._count = 0
        self._next_s = self._flat_s = self._late_s = FIRST_TAKE_S

    def allows(self, elapsed_s):
        return self.spent_s + self.last_cost_s <= self._fraction * (elapsed_s + CREDIT_S)

    def left_s(self, elapsed_s):
        """What may still be spent."""
        return self._fraction * (elapsed_s + CREDIT_S) - self.spent_s

    def is_due(self, elapsed_s, is_flat=bool):
        """``is_flat()`` tells whether memory stands where it stood after the last take."""
        if elapsed_s < self._next_s or not self.allows(elapsed_s):
            return False
        return self._count < FIRST_TAKES or elapsed_s >= self._flat_s or not is_flat()

    def charge(self, cost_s):
        """Pay for what is no take of its own."""
        self.spent_s += cost_s

    def spend(self, cost_s, elapsed_s):
        self.charge(cost_s)
        self._count += 1
        self.last_cost_s = cost_s
        if self._first_s is None:
            self._first_s = elapsed_s
        # The early takes are as dense for a job that imported for ten seconds before the first.
        early_s = elapsed_s - self._first_s + FIRST_TAKE_S
        usual_s = self._interval_s if elapsed_s > EARLY_S else max(EARLY_INTERVAL_S, EARLY_STRETCH * early_s)
        # So long that the take is paid for; less in the first minute, so that a run of 20 seconds gets three.
        fair_s = cost_s / self._fraction
        fair_s = fair_s if elapsed_s > EARLY_S else min(fair_s, 1.0 + 0.75 * early_s)
        self._next_s = elapsed_s + max(usual_s, fair_s)
        self._flat_s = elapsed_s + FLAT_FACTOR * usual_s
        self._late_s = elapsed_s + LATE_FACTOR * usual_s

    def holds_back(self, elapsed_s):
        """Why a take that would be due long since has to wait for its money; said once for each, else None."""
        if elapsed_s < self._late_s or self.is_due(elapsed_s):
            return None
        self._late_s = float("inf")
        return self.why()

    def why(self):
        """What speaks against a take now."""
        return "a take costs %.2g s of CPU, %.2g s are spent, and %.3g%% of the time is allowed" % (
            self.last_cost_s, self.spent_s, 100.0 * self._fraction,
        )  # fmt: skip


class Stress(Budget):
    """For tests of ours (``LEAKSCOPE_STRESS``): a take every ``interval_s``, whatever it costs and finds."""

    def __init__(self, interval_s):
        super().__init__(1.0, interval_s)
        self._next_s = 0.0

    def allows(self, elapsed_s):
        return True

    def is_due(self, elapsed_s, is_flat=bool):
        return elapsed_s >= self._next_s

    def spend(self, cost_s, elapsed_s):
        self._next_s = elapsed_s + self._interval_s

    def holds_back(self, elapsed_s):
        return None


class PendingCall(object):
    """Run a function once on the main thread between two bytecodes, if nobody traces, profiles or debugs by then.

    A signal handler of the job may run inside ours, and what it raises is the job's. So the C function that is put on
    the interpreter's list is ``PyObject_IsTrue``, with an object of ours as its argument, and hands an exception on to
    the frame that was interrupted. (A ctypes callback would print and swallow it.)

    While one runs no other is asked for: Python 3.11 under a profiler (that of memray, set meanwhile) then never gets
    past the beginning of a function, since what is pending keeps it from going on and cannot be served.
    """

    def __init__(self, function, otherwise=()):
        """``otherwise``: C functions to call instead while somebody watches."""
        self._function = function
        self._asked = []
        self._entry = doors.entry(self._run, (self._asked.clear,), otherwise)
        # To ask without a function of Python, whether it can be now or not.
        self.ask_unseen = doors.unless(_REFUSED, partial(_add_pending_call, _is_true, id(self._entry)))

    @property
    def asked_at(self):
        """When it was asked for, seconds (monotonic); None: it is not waited for."""
        return max(tuple(self._asked), default=None)

    def forget(self):
        """In a forked child: what was pending is the parent's."""
        self._asked.clear()
        _running.clear()

    def _run(self):
        hidden = quiet.hide()  # it may come in the middle of anything, also of what is compiled or traced
        try:
            _running.append(True)
            self._function()
        finally:
            _running.clear()
            quiet.show(hidden)
        return True

    quiet.keep_out(_run)

    def ask(self):
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


_running = []  # something while a pending call runs
_add_pending_call = ctypes.pythonapi.Py_AddPendingCall
_add_pending_call.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
_is_true = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)


class _PendingCalls(ctypes.Structure):
    """Of Python 3.8's runtime, where it begins, up to the first call ever asked for."""

    _fields_ = [
        ("finishing", ctypes.c_int), ("lock", ctypes.c_void_p), ("count", ctypes.c_int), ("async", ctypes.c_int),
        ("function", ctypes.c_void_p), ("argument", ctypes.c_void_p),
    ]  # fmt: skip


def _finishing():
    """When no call can be pending any more, as Python ends; to ask for one then prints an error in 3.8, and only there.

    An iterable of one number. Found by the first call that is asked for, of nothing.
    """
    if sys.version_info >= (3, 9):
        return ()
    nothing = ()
    _add_pending_call(_is_true, id(nothing))
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    asked = b"".join(word.to_bytes(8, sys.byteorder) for word in (_is_true.value, id(nothing)))
    at = (ctypes.c_char * _RUNTIME_BYTES).from_address(runtime).raw.find(asked)
    if at < 0:
        return (True,)
    return doors.fields(_PendingCalls, "finishing", runtime + at - _PendingCalls.function.offset)


_RUNTIME_BYTES = 2048  # of more; the pending calls come after 1,000
# Since 3.12 what is pending is called on the main thread whichever interpreter runs there, with a lock of its own.
_REFUSED = (doors.other_interpreters, _finishing())


class Steps(object):
    """Optimizer steps, counted by torch's global post-step hook. Installed when torch.optim is imported, never by us.

    With several optimizers (GAN) the step is that of the one that steps most often.
    """

    def __init__(self, on_step):
        self.count = None
        self.last_at = 0.0
        self._counts = {}
        self._on_step = on_step
        self.installed = False

    def hooks(self):
        """{module: callback} for ``hooks.Hooks``."""
        return {"torch.optim.optimizer": self._install}

    def _install(self, hooks, module):
        register = names.getattr_plain(module, "register_optimizer_step_post_hook")
        if register is not None and not self.installed:  # torch >= 2.0
            self.installed = True
            quiet.skip_code(PendingCall._run, self._after_step)
            register(doors.hook(self._after_step))

    def _after_step(self):
        hidden = quiet.hide()
        try:
            self._stepped(_optimizer_of(sys._getframe().f_back))
        except Exception as error:
            if names.is_foreign(error):
                raise
        finally:
            quiet.show(hidden)
        return True

    quiet.keep_out(_after_step)

    def _stepped(self, key):
        counts = self._counts
        if key not in counts and len(counts) >= 64:
            counts.clear()
            counts[key] = self.count or 0
        count = counts[key] = counts.get(key, 0) + 1
        if self.count is None or count > self.count:
            self.count = count
        self.last_at = monotonic()
        self._on_step()


def _optimizer_of(frame):
    """The id of the optimizer whose step calls its hooks from this frame, torch's; 0 where it is not to be found.

    It is their first argument, but none gets through a door.
    """
    for name, value in reading.frame_locals(frame):
        if name == "self":
            return id(value)
    return 0


def request_stamp(folder):
    """Modification time of the recorder's request for a take; None without one. **Cost** 3 us."""
    try:
        return os.stat(os.path.join(folder, "request-take")).st_mtime_ns
    except OSError:
        return None
