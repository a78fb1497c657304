"""Ways into our code that nobody who traces, profiles or debugs can see. Runs in the job.

A tracer, profiler or debugger is told of every Python function that begins, ours included: coverage would list our
files, a debugger would step into them. So what the interpreter or a library calls is made of C functions only, joined
by ``itertools``: they ask first whether anybody looks, in any thread, and only if nobody does begin a function of ours.
While they ask, no other thread gets its turn: the interpreter changes threads between bytecodes, and there are none.
Nor does one begin where the job's calls are so deep that ours would be a RecursionError, raised in the job.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import types
from _functools import _lru_cache_wrapper, partial
from _operator import add, attrgetter, ge, is_, itemgetter, methodcaller, ne, not_, sub, truth
from itertools import accumulate, chain, compress, repeat, takewhile

from . import collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Function = Callable[[], Any]

_TOOL_IDS = range(6)  # of sys.monitoring
_SCANNED_BYTES = 256  # of a thread's state: who traces it is said before that in every CPython from 3.8 to 3.14
LEAST_CALLS = 100  # one in the other that are left until Python's limit: a snapshot takes some 60
_call = methodcaller("__call__")
_libc = ctypes.PyDLL(None)  # whose functions keep other threads waiting
thread_state = ctypes.pythonapi["PyThreadState_Get"]
thread_state.restype = ctypes.c_void_p


class _Watchers(ctypes.Structure):
    """Part of a thread's state: the functions of C that are told of its calls, and what they are told with.

    For sys.setprofile and sys.settrace that is the job's function; a profiler written in C may have nothing there.
    """

    _fields_ = [(name, ctypes.c_void_p) for name in ("profile_function", "trace_function", "profile", "trace")]


def again(function: Callable[..., Any], *arguments: Any) -> Any:
    """An iterable that asks ``function(*arguments)`` for a new iterator each time, without a function of Python."""
    return type("Again", (), {"__slots__": (), "__iter__": staticmethod(partial(function, *arguments))})()


def _find_watchers() -> int | None:
    """Where they stand in a thread's state, found by setting some; None where that cannot be told."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return None
    memory = (ctypes.c_char * _SCANNED_BYTES).from_address(thread_state())
    places = []
    for watch in (sys.setprofile, sys.settrace):
        nobody: Any = "".format  # takes whatever it is told, and is told nothing: no function of Python begins here
        watch(nobody)
        found = memory.raw
        watch(None)
        places.append(found.find(id(nobody).to_bytes(8, sys.byteorder)))
    profile, trace = places
    is_found = profile > _Watchers.profile.offset and not profile % 8 and trace == profile + 8
    return profile - _Watchers.profile.offset if is_found else None


def _of_all_threads(offset: int) -> Any:
    """Something that is not None if somebody watches one of the main interpreter's threads; else None, or nothing.

    The state of a thread that ends is freed. None does meanwhile: no bytecode runs here, nor what a collection or an
    audit hook would run, which ``from_address`` tells.
    """
    main, first, following = (
        ctypes.pythonapi[name]
        for name in ("PyInterpreterState_Main", "PyInterpreterState_ThreadHead", "PyThreadState_Next")
    )
    for function in (main, first, following):
        function.restype = ctypes.c_void_p
    first.argtypes = following.argtypes = (ctypes.c_void_p,)
    differs = _libc.memcmp
    differs.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    heads = again(chain, again(map, first, (main(),)), repeat(0))
    states = again(accumulate, heads, following)  # which gets a 0 besides, and does not look at it
    addresses = again(map, add, again(takewhile, truth, states), repeat(offset))
    size = ctypes.sizeof(_Watchers)
    who = again(map, differs, addresses, repeat(bytes(size)), repeat(size))
    watched = again(map, any, (who,))
    return again(filter, None, _uncollected(watched))


def _uncollected(answers: Iterable[Any]) -> Iterable[Any]:
    """The greatest of these answers; no collection begins meanwhile, as up to Python 3.11 it may with any new object.

    What it is decided by is lowered, and raised again by as much.
    """
    count = None if sys.version_info >= (3, 12) else collector.count()
    if count is None:
        return again(map, max, (answers,))
    lower, raised = (_added_to(count, amount) for amount in (-_HELD_BACK, _HELD_BACK))
    return again(map, max, (again(chain, lower, answers, raised),))


def _added_to(number: ctypes.c_int, amount: int) -> Iterable[Any]:
    """An iterable that adds it, and gives False."""
    changed = again(map, add, again(map, attrgetter("value"), (number,)), (amount,))
    return again(map, truth, again(map, setattr, (number,), ("value",), changed))


_HELD_BACK = 1 << 28  # a quarter of what a snapshot lowers it by
_offset = _find_watchers()
_of_threads = again(map, _call, (sys.gettrace, sys.getprofile))  # of this one alone, where it cannot be told of others
if _offset is not None:
    _of_threads = _of_all_threads(_offset)
if os.environ.get("LEAKSCOPE_STRESS", "").endswith(",traced"):  # for a test that watches us by a profiler in C
    _of_threads = ()
_of_interpreter = ()
if hasattr(sys, "monitoring"):  # it is told of our own thread, too
    _of_interpreter = again(map, sys.monitoring.get_tool, _TOOL_IDS)


def _find_depth() -> tuple[int, bool] | None:
    """(where a thread's state counts calls one in the other, whether it counts those that are left); or None.

    Found by calling: what counts has gone up or down by as many.
    """
    memory = (ctypes.c_char * _SCANNED_BYTES).from_address(thread_state())
    counted = {depth: _read_below(depth, memory) for depth in (0, 1, 7)}
    for at in range(0, _SCANNED_BYTES, 4):
        here, one, seven = (int.from_bytes(raw[at : at + 4], sys.byteorder) for raw in counted.values())
        if one - here in (1, -1) and seven - here == 7 * (one - here):
            return at, one < here
    return None


def _read_below(depth: int, memory: Any) -> bytes:
    return _read_below(depth - 1, memory) if depth else memory.raw


def _left_in(states: Iterable[Any]) -> Any:
    """How many more calls a thread may begin before RecursionError, by the address of its state; each one number."""
    if _depth is None:
        return again(repeat, sys.maxsize, 1)
    at, counts_down = _depth
    counters = again(map, ctypes.c_int.from_address, again(map, add, states, repeat(at)))
    counted = again(map, attrgetter("value"), counters)
    return counted if counts_down else again(map, sub, again(map, _call, (sys.getrecursionlimit,)), counted)


_depth = _find_depth()
_main_state = [thread_state()]
_has_room = again(map, ge, _left_in(again(map, _call, (thread_state,))), repeat(LEAST_CALLS))

# Whether the main thread is near the limit of Python, as it is now: what it is asked to do would raise there.
main_is_deep = partial(any, again(map, not_, again(map, ge, _left_in(_main_state), repeat(LEAST_CALLS))))


def main_state() -> int | None:
    """Address of the main thread's state."""
    return _main_state[0]


def this_is_the_main_thread() -> None:
    """In a forked child: it may have been another's."""
    _main_state[:] = [thread_state()]


_nobody = again(map, is_, again(chain, _of_threads, _of_interpreter), repeat(None))
_is_open = again(chain, _nobody, _has_room)
_own = again(map, _call, (sys.gettrace, sys.getprofile))
_nobody_here = again(map, is_, again(chain, _own, _of_interpreter), repeat(None))  # looks at the thread that asks
_never = object()  # what no function returns

# Whether no thread is traced, profiled or debugged. **Cost** 3 us.
is_unwatched = partial(all, _nobody)

# Whether a function of Python of ours may begin: nobody watches, and there is room for it.
is_open = partial(all, _is_open)


def _calls(functions: Iterable[Function]) -> Any:
    """An iterable that calls each, and gives as often False."""
    return again(map, is_, again(map, _call, functions), repeat(_never))


def _ways(function: Function, first: Iterable[Function], otherwise: Iterable[Function]) -> Any:
    opened = again(map, all, (again(chain, _is_open, again(map, _call, (function,))),))
    return again(chain, _calls(first), opened, _calls(otherwise))


def door(function: Function, otherwise: Iterable[Function] = ()) -> Function:
    """A callable that begins ``function`` if nobody watches, else calls the C functions ``otherwise``.

    ``function`` must return True; what it raises is raised.
    """
    return partial(any, _ways(function, (), otherwise))


def entry(function: Function, first: Iterable[Function] = (), otherwise: Iterable[Function] = ()) -> object:
    """An object whose truth, asked by C code, is the same way in, and False. The C functions ``first`` are called
    whoever watches."""
    asked = again(map, any, (_ways(function, first, otherwise),))
    return type("Entry", (), {"__slots__": (), "__bool__": staticmethod(partial(all, again(chain, asked, (False,))))})()


def counting_hook(count: Function, ways_in: Iterable[Function]) -> Callable[..., Any]:
    """For a library that calls what it is given with three arguments, which nobody gets; returns 0. Calls the C
    function ``count`` each time, and then what is in ``ways_in`` by then: mostly nothing.

    **Cost** 2 us, where a way in that is taken costs 40.
    """
    asked = _calls(again(chain, (count,), ways_in))
    return _hook(type("Entry", (), {"__slots__": (), "__bool__": staticmethod(partial(any, asked))})())


def _hook(way_in: object) -> Callable[..., Any]:
    is_true = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.py_object] * 4)(("PyObject_IsTrue", ctypes.pythonapi))
    return types.MethodType(is_true, way_in)


def answering(function: Function, value: object) -> object:
    """What stands for an attribute of a class, and is ``value``; who asks for it comes this way in first."""
    opened = again(map, all, (again(chain, _is_open, again(map, _call, (function,))),))
    nothing = again(filter, None, again(map, is_, opened, repeat(_never)))
    get = _following(again(chain, nothing, (value,)), 4)
    return type("Answer", (), {"__slots__": (), "__get__": get})()


def asking(function: Function, parameters: tuple[tuple[int, str] | tuple[int, str, None], ...]) -> Callable[..., Any]:
    """A door that returns what ``function()`` does, or None while somebody watches.

    It can be called as a function of Python with these parameters can: ``(1, name)``, ``(1, name, default)``.
    """
    opened = again(map, _call, again(compress, (function,), again(map, all, (_is_open,))))
    return _following(again(chain, opened, (None,)), 1 + len(parameters), ((1, "answers"), *parameters))


def _following(answers: Iterable[Any], argument_count: int, parameters: Any = None) -> Callable[..., Any]:
    """A callable of so many arguments (it counts as one), which nobody gets: the first of ``answers``, asked anew."""
    firsts = map(next, map(iter, repeat(answers)))
    kind = ctypes.PYFUNCTYPE(*[ctypes.py_object] * (1 + argument_count))
    return types.MethodType(kind(("PyIter_Next", ctypes.pythonapi), parameters), firsts)


def followed(function: Callable[[Any], Any], by: Function, first: Iterable[Function] = ()) -> Callable[[Any], Any]:
    """A callable of one argument: ``function``, and once it has returned this way in; ``first`` as for ``entry``."""
    objects = ctypes.py_object
    parameters = ((1, "function"), (1, "argument"), (1, "end", None))
    call = ctypes.PYFUNCTYPE(objects, objects, objects, ctypes.c_void_p)(
        ("PyObject_CallFunctionObjArgs", ctypes.pythonapi), parameters
    )
    call.errcheck = _hook(entry(by, first))
    return types.MethodType(call, function)


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], Iterable[Any]]:
    """(a callable that does what ``function`` does, an iterable of one number: how often it was called)."""
    counter = _lru_cache_wrapper(function, 0, False, max)  # a cache of nothing: all that it has to say are its misses
    return counter, again(map, _call, (counter.cache_info,))


def and_then(condition: Iterable[Any], function: Function) -> Function:
    """A callable: what ``function()`` returns if all of the iterable ``condition`` is true; else False."""
    return partial(all, again(chain, condition, again(map, _call, (function,))))


def unless(conditions: Iterable[Iterable[Any]], function: Function) -> Function:
    """A callable: True if any of the iterables ``conditions`` has something true, else whether ``function()`` is."""
    return partial(any, again(chain, *conditions, again(map, _call, (function,))))


def fields(structure: type[ctypes.Structure], name: str, address: int) -> Iterable[Any]:
    """An iterable of one: what lies in a field of a structure there, read anew each time."""
    return again(map, attrgetter(name), (structure.from_address(address),))


def _interpreters() -> Iterable[Any]:
    """An iterable of one: whether there is an interpreter beside the main one.

    The newest stands first, the main one last. Nothing is read of either: another thread, with a lock of its own, may
    be ending the newest, whose state is freed then.
    """
    newest, main = (ctypes.pythonapi[name] for name in ("PyInterpreterState_Head", "PyInterpreterState_Main"))
    for function in (newest, main):
        function.restype = ctypes.c_void_p
    return again(map, ne, again(map, _call, (newest,)), again(map, _call, (main,)))


other_interpreters = _interpreters()


def if_alone(function: Function, otherwise: object) -> Callable[[], Any]:
    """A callable: ``function()`` while there is no other interpreter, else ``otherwise``.

    Since Python 3.12 each may run at the same time as ours, with a lock of its own. Some functions look at all of them:
    at counts of references, and memory, that nothing protects.
    """
    called = again(map, _call, again(compress, (function,), again(map, not_, other_interpreters)))
    return partial(next, map(next, map(iter, repeat(again(chain, called, (otherwise,))))))


current_frames = if_alone(sys._current_frames, {})
allocated_blocks = if_alone(sys.getallocatedblocks, None)


def waiting(for_one_of: Iterable[Any], pause: Function, times: int) -> Function:
    """A callable: returns once something of the iterable is true; calls the C function ``pause`` so often at most."""
    step = again(chain, for_one_of, _calls((pause,)))
    return partial(any, again(map, any, again(repeat, step, times)))


def unless_watched(function: Function) -> Callable[[], Any]:
    """A callable: ``function()`` if nobody watches as it begins, else None.

    Whoever asks first, and calls then, may be too late: to ask and to call takes functions of Python, and between two
    of their bytecodes another thread has its turn, and sets a tracer.
    """
    called = again(map, _call, again(compress, (function,), again(map, all, (_nobody,))))
    return partial(next, map(next, map(iter, repeat(again(chain, called, (None,))))))


def thread_body(
    begins: Iterable[Function],
    wait: Iterable[Function],
    tick: Function,
    is_asked_to_end: Function,
    ends: Iterable[Function],
) -> Function:
    """What a thread of ours runs: ``tick``, unless somebody watches this thread or all of them, and ``wait``.

    Until ``tick`` returns True, as it does once ``is_asked_to_end`` does; while somebody watches, that alone ends it.
    All but ``tick`` are C functions (``begins``, ``wait`` and ``ends`` several): the thread is no Python code then. Who
    asks must cut the wait short.
    """
    ticked = again(map, all, (again(chain, _nobody_here, again(map, _call, (tick,))),))
    asked = again(map, _call, (is_asked_to_end,))
    is_watched = again(map, not_, again(map, all, (_nobody_here,)))
    ended_unseen = again(map, all, (again(chain, asked, is_watched),))
    step = again(chain, ticked, ended_unseen, _calls(wait))
    loop = partial(any, again(map, any, repeat(step)))
    return partial(any, _calls((*begins, loop, *ends)))


def call_last_after_forks(function: Function) -> None:
    """Have the C function ``function`` called in a process that has forked, behind the hooks of all others.

    What it asks for may begin with the next function of Python. Were that a hook of the job (eventlet's), Python 3.13
    would count threads only then. The interpreter keeps no order but that of a list of Python's, which is sorted anew.
    """
    os.register_at_fork(after_in_parent=function)
    for registered in gc.get_referrers(function):
        if type(registered) is list:
            os.register_at_fork(before=partial(registered.sort, key=partial(is_, function)))  # a stable sort


def call_each(functions: Iterable[Function]) -> Function:
    """A callable that calls those which are in this list then."""
    return partial(any, _calls(functions))


def put(function: Function, own: list[Any]) -> Function:
    """A callable that puts what ``function()`` returns into a list of ours."""
    return partial(any, again(map, own.append, again(map, _call, (function,))))


class Appending:
    """``append()``, made of C functions, appends to a file that is there; where it is not any more, nothing.

    The file is opened anew: a descriptor may by then stand for a file of the job's. No other thread gets its turn in
    between, and opens something meanwhile. What is made for C functions to call are classes, which only the collector
    frees: so this is made once, and told what to append as often as that changes.
    """

    def __init__(self) -> None:
        self._path: list[bytes] = [b""]
        self._data: list[bytes] = [b""]
        self._length = [ctypes.c_size_t(0)]
        opened: list[int] = []
        flags = [os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC]
        steps = (
            put(with_first(_libc.open, self._path, flags), opened),
            with_first(_libc.write, opened, self._data, self._length),
            with_first(_libc.close, opened),
            opened.clear,
        )
        self.append = partial(any, _calls(steps))

    def is_to_append(self, path: str, data: bytes) -> None:
        self._path[:], self._data[:], self._length[:] = [os.fsencode(path)], [data], [ctypes.c_size_t(len(data))]


def with_first(function: Callable[..., Any], *arguments: list[Any]) -> Function:
    """A callable that calls ``function`` with the first member of each of these lists, as they are then."""
    return partial(next, map(function, *(map(itemgetter(0), repeat(one)) for one in arguments)))
