"""An exception is thrown into what waits for another: its stack is taken down, and finalizers run meanwhile.

What runs then has an instruction before it at which only those that wait stop, and no stack that could be read. An
argument, ``monitored``: a tool is told of what is raised, as debuggers are, before the stack is taken down.
"""

import sys

from busy import rounds


class Stop(Exception):
    pass


def work(done):
    for _ in range(10_000):
        pass
    done.append(True)


class Awaited:
    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return 1

    def __del__(self):
        work(finalized)


class Refuses(Awaited):
    throw = float  # which raises another error, and keeps nothing


def generate(awaited):
    held = [1]
    yield from awaited()
    return held


async def wait(awaited):
    held = [1]
    await awaited()
    return held


async def numbers(awaited):
    held = [1]
    await awaited()
    yield held


def holds_nothing(_):
    del _
    yield from Refuses()
    unbound = 1
    return unbound


def monitor():
    monitoring, tool = sys.monitoring, 4
    monitoring.use_tool_id(tool, "attack")
    monitoring.register_callback(tool, monitoring.events.RAISE, lambda *_: work(told))
    monitoring.set_events(tool, monitoring.events.RAISE)
    return lambda: monitoring.set_events(tool, 0)


finalized, told, right = [], [], True
stop_monitoring = monitor() if "monitored" in sys.argv else bool
for _ in rounds():
    for awaited in (Awaited, Refuses):
        for one in (generate(awaited), wait(awaited), numbers(awaited).__anext__(), holds_nothing(awaited)):
            one.send(None)
            try:
                one.throw(Stop)
            except (Stop, TypeError):
                pass
    right = right and len(finalized) == 8
    del finalized[:]
stop_monitoring()
print(right, len(told) > 0)
