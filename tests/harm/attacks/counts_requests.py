"""A service whose requests are counted by leakscope's own middlewares. What is hard about it: the argument."""

import asyncio
import atexit
import os
import signal
import sys
import threading
import time

from busy import rounds

from leakscope.integrations import _counting
from leakscope.integrations.asgi import CountRequests as CountAsgi
from leakscope.integrations.wsgi import CountRequests as CountWsgi


class Hostile(dict):
    """A scope, or an environ: whoever asks it for more than its type is noted."""

    def __noted(self, *_):
        asked.append(sys._getframe().f_back.f_code.co_name)
        raise RuntimeError("who asks?")

    __class__ = property(__noted)
    __len__ = __iter__ = __repr__ = __contains__ = __eq__ = keys = items = values = get = __noted
    __hash__ = None


class Failed(BaseException):
    pass


def answer(environ, start_response):
    outcome = dict.get(environ, "fails")
    if outcome is not None:
        raise outcome
    return ["one"]


async def answer_later(scope, receive, send):
    outcome = dict.get(scope, "fails")
    await asyncio.sleep(0)
    if outcome is not None:
        raise outcome


service, later = CountWsgi(answer), CountAsgi(answer_later)
OUTCOMES = (None, OSError("theirs"), KeyError("theirs"), StopIteration(), RecursionError("theirs"), Failed("theirs"))


def outcome_of(ask, fails):
    try:
        ask(fails)
    except BaseException as error:
        return type(error).__name__
    return "answered"


def asks(fails):
    service(Hostile(fails=fails), None)


def asks_later(fails):
    for kind in ("http", "lifespan"):
        asyncio.run(later(Hostile(type=kind, fails=fails), None, None))


def hostile():
    said = set()
    for number in rounds():
        fails = OUTCOMES[number % len(OUTCOMES)]
        said.add((type(fails).__name__, outcome_of(asks, fails), outcome_of(asks_later, fails)))
        held = [[one] for one in range(3000)]
    print(sorted(said), asked, len(held))


def watched():
    seen = set()

    def see(frame, event, arg):
        name = getattr(arg, "__name__", None) if event.startswith("c_") else frame.f_code.co_name
        seen.add((os.path.basename(frame.f_code.co_filename), event, name))
        return see

    watch = getattr(sys, sys.argv[2])
    watch(see)
    for _ in rounds():
        service({}, None)
    watch(None)
    print(sorted(one for one in seen if one[1] in ("call", "c_call")))


class Told(Exception):
    pass


def signals():
    """The handler raises wherever it is called; nothing but requests are served meanwhile."""

    def handle(number, frame):
        handled.append(number)
        raise Told

    handled, caught = [], 0
    signal.signal(signal.SIGALRM, handle)
    for number in rounds():
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + number % 7 * 0.0001)
            while True:
                count_one()
        except Told:
            caught += 1
    print("all caught", caught == len(handled))


def count_one():
    for _ in range(50):
        _counting.count("requests")


def threads():
    """They are at work as the process forks, again and again, and as it ends."""
    done = []

    def serve():
        while not done:
            service({}, None)

    for _ in range(4):
        threading.Thread(target=serve, daemon=True).start()
    ends = set()
    for number in rounds():
        if number % 20 == 0:
            child = os.fork()
            if child == 0:
                for _ in range(1000):
                    service({}, None)
                os._exit(3)
            ends.add(os.waitpid(child, 0)[1])
        time.sleep(0.005)
    print(ends)
    atexit.register(lambda: [service({}, None) for _ in range(1000)] and print("served to the last"))


class AtTheEnd:
    def __del__(self):
        for _ in range(100):
            service({}, None)
        os.write(1, b"served by a finalizer\n")


def ends():
    global kept
    kept = AtTheEnd()
    for _ in rounds():
        service({}, None)
    sys.exit(5)


def deep():
    """At the greatest depth at which the service itself can answer."""

    def at(left):
        return at(left - 1) if left else service({}, None)

    def greatest():
        depth = 1
        while True:
            try:
                at(depth)
            except RecursionError:
                return depth - 1
            depth += 1

    sys.setrecursionlimit(500)
    found = {greatest() for _ in rounds()}
    print(found)


def green():
    from gevent import monkey

    monkey.patch_all()
    import gevent

    served = []

    def serve():
        for _ in range(100):
            served.append(service({}, None))
            gevent.sleep(0)

    for _ in rounds():
        gevent.joinall([gevent.spawn(serve) for _ in range(5)])
    child = os.fork()
    if child == 0:
        gevent.joinall([gevent.spawn(serve) for _ in range(5)])
        os._exit(3)
    print(len(served) > 0, os.WEXITSTATUS(os.waitpid(child, 0)[1]))


def interpreters():
    """Strangers within the process: they have no agent, and count for nobody."""
    try:
        import _interpreters as interpreters

        run = interpreters.exec
    except ImportError:
        import _xxsubinterpreters as interpreters

        run = interpreters.run_string
    code = "import runpy\ncount = runpy.run_path(%r)['count']\n" % (_counting.__file__,)
    code += "for _ in range(100): count('requests')"
    began = time.monotonic()
    for number in rounds():
        if number < 5 and time.monotonic() - began < 1.0:
            one = interpreters.create()
            run(one, code)
            interpreters.destroy(one)
        service({}, None)
    print(number > 0)


asked = []
globals()[sys.argv[1]]()
