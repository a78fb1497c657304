"""The hooks of the interpreter are Python's own until the job sets its own, and those are called as ever."""

import gc
import sys
import threading

from busy import rounds

seen = []


def own():
    pairs = [(sys.excepthook, sys.__excepthook__), (sys.displayhook, sys.__displayhook__)]
    pairs += [(sys.unraisablehook, sys.__unraisablehook__), (sys.breakpointhook, sys.__breakpointhook__)]
    if hasattr(threading, "__excepthook__"):
        pairs.append((threading.excepthook, threading.__excepthook__))
    names = [getattr(hook, "__module__", None) for hook, _ in pairs]
    return [hook is original for hook, original in pairs], names


class Fails:
    def __del__(self):
        raise ValueError("in a finalizer")


def fail():
    raise KeyError("in a thread")


def main():
    print(own(), gc.callbacks, sys.gettrace(), sys.getprofile())
    for number in rounds():
        if number == 50:
            sys.unraisablehook = lambda what: seen.append(("unraisable", str(what.exc_value)))
            threading.excepthook = lambda what: seen.append(("thread", str(what.exc_value)))
        if number in (60, 500, 5000):
            Fails()
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
    print(seen)


def end(kind, value, trace):
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename.rpartition("/")[2])
        trace = trace.tb_next
    print("ended by", kind.__name__, value, files)


sys.excepthook = end
main()
raise LookupError("at the end")
