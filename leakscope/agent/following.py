"""Where memory in use grows in work that is over before another thread gets its turn. Runs in the job.

A loop that works for a millisecond and then sleeps is never seen at work from the agent's thread: that waits 5 ms for
the GIL. So the main thread is followed from one sleep to the next: a pending call looks, and asks for itself again.
The interpreter serves it after calls of C functions, where functions begin and where loops turn.

What a line asks for and another frees is told apart from what stays: only a way from a point back to the same point
counts, and what was freed on it is taken off what it equals. That is one turn of the outermost loop; where such a turn
is too long, many of an inner one. There a list that is filled, and dropped later, looks like a leak: only lines that
keep something in most turns count then, and whoever asks has to compare with what a whole turn keeps.
"""

import ctypes
import sys
from collections import Counter
from time import monotonic, thread_time

from . import names, quiet
from .allocators import malloc_in_use_bytes

POINTS = 600  # of the first way; 25 us each, most of it the calls that come again at the same point
MOST_POINTS = 4800  # of the next, where the first did not come round: 0.1 s
INNER_POINTS = 1200  # once it is known that the outermost loop is longer
LEAST_TURNS = 6  # of an inner loop
MOST_OF_IT = 0.7  # of the longest way round: loops within it turn more often, and round as long a way
OFTEN = 0.5  # of the turns of an inner loop, in which a line keeps something
CALLS = 40  # of the pending call for each point: it comes up to 32 times
MOST_DEPTH = 200  # calls on the stack, of the 1,000 that Python allows
PATIENCE_S = 2.0  # for a main thread that sleeps before or on its way
CALL_S = 0.0000005  # of CPU time, for the pending call by itself


# Newer versions were not tried, and without a GIL another thread would read what the main thread is writing.
CAN_FOLLOW = sys.version_info < (3, 14) and getattr(sys, "_is_gil_enabled", lambda: True)()


class Follower(object):
    """Follows the main thread when it is asked to. It must outlive its pending call: one lives as long as the agent.

    Unlike a ``PendingCall`` it asks again while it runs: what it may cost is bounded by the number of its calls.
    """

    def __init__(self, place):
        """``place``: what stands for a frame in the answer."""
        self._place = place
        self._add = ctypes.pythonapi.Py_AddPendingCall
        self._add.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._is_true = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
        self._hooks = None
        self._points = POINTS
        self._until = 0.0
        self.follows = False
        self._begin()

    def _begin(self):
        self._calls = self._in_use = 0
        self._last = None
        self._way = []  # [(point, bytes grown since the one before, place)]
        self._looks_s = 0.0

    def start(self):
        """Follow the main thread from where it goes on next."""
        self._begin()
        quiet.skip_code(Follower.__bool__)
        self._until = monotonic() + PATIENCE_S
        self.follows = True
        if not CAN_FOLLOW or self._add(self._is_true, id(self)) != 0:
            self.follows = False

    def end(self):
        """(first place, [(bytes, place), ...] that stayed, is it a whole turn, CPU seconds); None while on its way.

        The first place is None if nothing came round.
        """
        if self.follows and monotonic() < self._until:
            return None
        self._until, self.follows = 0.0, False
        way, self._way = self._way, []
        cost_s = self._looks_s + CALL_S * self._calls
        if len(way) > 1 and way[0][0] == way[-1][0]:
            return way[0][2], kept(way), True, cost_s
        if len(way) < self._points:
            return None, [], False, cost_s
        if self._points == POINTS:
            self._points = MOST_POINTS
            return None, [], False, cost_s
        self._points = INNER_POINTS
        return way[0][2], kept_often(way), False, cost_s

    def __bool__(self):
        self._calls += 1
        frame = sys._getframe(0).f_back  # None at the end of the interpreter
        if frame is None or not self.follows or self._calls > CALLS * self._points or self._is_traced():
            self.follows = False
            return False
        here = (id(frame), frame.f_lasti)
        if here != self._last:
            self._last = here
            self._look(frame)
        del frame
        if self.follows and self._add(self._is_true, id(self)) != 0:
            self.follows = False
        return False  # anything else would be an error to the list of pending calls

    quiet.keep_out(__bool__)

    def _is_traced(self):
        """Somebody traces or profiles the main thread: they would see us, and Python 3.11 would hang.

        It then never gets past the beginning of a function, since what is pending keeps it from going on and cannot be
        served. There a tracer in C is looked for where it is kept: some leave nothing for sys.gettrace to return.
        """
        if self._hooks is None:
            self._hooks = _hooks() if sys.version_info[:2] == (3, 11) else ()
        return any(self._hooks) or sys.gettrace() is not None or sys.getprofile() is not None

    def _look(self, frame):
        hidden = quiet.hide()
        began = thread_time()
        try:
            way = self._way
            grown = malloc_in_use_bytes() - self._in_use if way else 0
            point = _point(frame)
            if point is None:
                self.follows = False
                return
            way.append((point, grown, self._place(frame) if grown or not way else None))
            came_round = len(way) > 1 and way[-1][0] == way[0][0]
            if came_round or len(way) >= self._points or monotonic() > self._until:
                self.follows = False
            self._in_use = malloc_in_use_bytes()  # what the look itself took is nobody's growth
        except BaseException as error:
            self.follows = False
            if names.is_foreign(error):  # raised by a signal handler of the job
                raise
        finally:
            self._looks_s += thread_time() - began
            quiet.show(hidden)


def _hooks():
    """The profiling and the tracing function of this thread in Python 3.11; something true if they are not found."""
    python = ctypes.PyDLL(None)
    python.PyThreadState_Get.restype = python.PyInterpreterState_Get.restype = ctypes.c_void_p
    state = python.PyThreadState_Get()
    interpreter = ctypes.c_void_p.from_address(state + 16).value
    recursion_limit = ctypes.c_int.from_address(state + 36).value
    if (interpreter, recursion_limit) != (python.PyInterpreterState_Get(), sys.getrecursionlimit()):
        return (True,)
    return (ctypes.c_void_p * 2).from_address(state + 64)


def _point(frame):
    """A number for the place of every call on the stack: the same only in another turn of the same loop.

    None of a deep recursion: near its limit our own call would be the one that fails, in the job.
    """
    calls = []
    while frame is not None:
        if len(calls) > 2 * MOST_DEPTH:
            return None
        calls += (id(frame.f_code), frame.f_lasti)
        frame = frame.f_back
    return hash(tuple(calls))


def kept(way):
    """[(bytes, place), ...] of a way: what was asked for on it and not freed."""
    kept = []
    for _, grown, place in way[1:]:
        if grown > 0:
            kept.append([grown, place])
        elif grown < 0:
            _take_off(kept, -grown)
    return [(grown, place) for grown, place in kept if grown > 0 and place is not None]


def kept_often(way):
    """The same of many turns of an inner loop, where it stayed in most of them."""
    begin, end, turns = _turns(way)
    stayed = kept(way[begin : end + 1])
    times = Counter(place for _, place in stayed)
    return [(grown, place) for grown, place in stayed if turns >= LEAST_TURNS and times[place] >= OFTEN * turns]


def _turns(way):
    """(first, last, turns): where a way comes back to a point for as long as it can, and the fewest times."""
    seen = {}
    for number, (point, _, _) in enumerate(way):
        seen.setdefault(point, []).append(number)
    longest = max(numbers[-1] - numbers[0] for numbers in seen.values())
    long = [numbers for numbers in seen.values() if numbers[-1] - numbers[0] >= MOST_OF_IT * longest]
    outermost = min(long, key=len)
    return outermost[0], outermost[-1], len(outermost) - 1


def _take_off(kept, freed):
    """Freed was what has the same size, whichever it is; else part of the next larger; else several, largest first."""
    same = [one for one in kept if one[0] == freed]
    if same:
        places = {one[1] for one in same}
        latest = [next(one for one in reversed(same) if one[1] == place) for place in places]
        for one in latest:
            one[0] -= freed / float(len(latest))
        return
    larger = [one for one in kept if one[0] > freed]
    if larger:
        min(larger, key=lambda one: one[0])[0] -= freed
        return
    for one in sorted(kept, key=lambda one: -one[0]):
        if one[0] <= freed:
            freed -= one[0]
            kept.remove(one)
