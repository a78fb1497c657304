"""Snapshots at a moment that the program chooses, and all that the job's objects were called by meanwhile.

Bare, nothing looks, and all of this does nothing: what ``end`` prints must be the same.
"""

import collections
import ctypes
import os
import random
import re
import sys
import time

SEED = int(os.environ.get("OBJECTS_SEED", "0"))
choose = random.Random(SEED)
WAITS_S = 120.0  # among many other programs; where there is time, it waits for a tenth of a second
PATIENCE_S = 0.1  # of the agent, for a main thread that sleeps: 5 s are too long for so many states
_calls = collections.Counter()
_main = getattr(sys.modules.get("_leakscope_agent"), "main", None)
_snapshots = getattr(getattr(_main, "_agent", None), "snapshots", None)
_watch = None
_reader = None  # by itself, in place of the agent: see again.py
_made = {"here": 0, "beside": 0, "between": 0}
# What the agent calls itself: functions of the standard library that get strings and numbers of ours.
# A finder of modules asks those behind it, as the import system would; what is written is masked by expressions.
_LIBRARY = re.compile(
    r".* in life/hooks\.py (_find|_answer)$|.*, in masking\.py "
    r"|<frozen |.*/(json|encodings|importlib|ctypes)/"
    r"|.*/(posixpath|genericpath|os|codecs|struct|abc)\.py "
)


def called(name):
    """To be called by every method of an object that nobody but this program should call."""
    _calls[name] += 1


def choose_error():
    """What a hostile method raises: some of it is no Exception."""
    return choose.choice([ValueError, KeyboardInterrupt, SystemExit, MemoryError, StopIteration, RecursionError])("odd")


def expected(count_before):
    """Calls that the program itself made since ``count()``: forgotten."""
    _calls.clear()
    _calls.update(count_before)


def count():
    return collections.Counter(_calls)


def here():
    """A snapshot on this thread, at this very moment, wherever that is."""
    if _reader is not None:
        _reader.look()
    if _snapshots is None or (_snapshots.is_making and _is_looked_at()):
        return
    while _snapshots.is_making:
        time.sleep(0.001)
    number = _snapshots.number
    _snapshots.wanted = "pressure"
    _snapshots.make("pending-call")
    _made["here"] += _snapshots.number > number


def _is_looked_at():
    """Whether a look called this thread, which then must not make another: what it waits for is its own end."""
    frame = sys._getframe()
    while frame is not None:
        if "_leakscope_agent" in str(frame.f_globals.get("__name__")):
            return True
        frame = frame.f_back
    return False


def between():
    """One that comes by itself, between two bytecodes."""
    _wait("between", lambda: None)


def beside():
    """One on the agent's thread, while this one sleeps in C."""
    _wait("beside", lambda: time.sleep(4 * PATIENCE_S))


def _wait(how, rest):
    if _reader is not None:
        _reader.look()
    if _snapshots is None:
        return
    patience = sys.modules["_leakscope_agent"].main.maker
    number, before = _snapshots.number, patience.PATIENCE_S
    patience.PATIENCE_S = PATIENCE_S if how == "beside" else before
    began = time.monotonic()
    while _snapshots.number == number and time.monotonic() - began < WAITS_S:
        rest()
    patience.PATIENCE_S = before
    _made[how] += _snapshots.number > number


def begin():
    """Once the program's modules are there: from here on every function that our code calls is told."""
    global _watch, _reader
    folder = os.environ.get("OBJECTS_READER")
    if folder:
        from again import Reader

        _reader = Reader(folder, SEED)
    library = os.environ.get("OBJECTS_WATCH")
    if _snapshots is not None and library:
        _watch = ctypes.PyDLL(library)
        _watch.what_was_told.restype = ctypes.c_char_p
        _watch.how_many_began.restype = ctypes.c_long
        folder = os.path.dirname(sys.modules["_leakscope_agent"].__file__)
        _watch.watch(os.fsencode(folder + os.sep))


def end(*said):
    """Print what the program has found out, and every call that nobody here made."""
    print(*said)
    for name, number in sorted(_calls.items()):
        print("called", name, number)
    if _watch is not None:
        for line in _watch.what_was_told().decode("utf-8", "replace").splitlines():
            if not _LIBRARY.match(line):
                print("began", line)
        assert _watch.how_many_began() > 100 * _made["here"], "nothing was watched"
    if _reader is not None:
        _reader.look()
        with open(os.environ["OBJECTS_LOOKED"], "w") as stream:
            stream.write("%d %d %d" % (_reader.taken, _reader.labelled, _reader.short))
    if _snapshots is not None:
        with open(os.environ["OBJECTS_LOOKED"], "w") as stream:
            stream.write("%(here)d %(between)d %(beside)d" % _made)
    sys.stdout.flush()
