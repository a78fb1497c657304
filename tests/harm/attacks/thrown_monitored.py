"""The same where a tool is told of what is raised, as debuggers are: its code runs before the stack is taken down."""

import sys

from busy import rounds


class Stop(Exception):
    pass


class Awaited:
    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return 1


def generate():
    held = [1]
    yield from Awaited()
    return held


async def wait():
    held = [1]
    await Awaited()
    return held


def told(code, offset, error):
    for _ in range(20_000):
        pass
    raised.append(type(error).__name__)


tool, raises = 4, sys.monitoring.events.RAISE
sys.monitoring.use_tool_id(tool, "attack")
sys.monitoring.register_callback(tool, raises, told)
raised, right = [], True
sys.monitoring.set_events(tool, raises)
for _ in rounds():
    for one in (generate(), wait()):
        one.send(None)
        try:
            one.throw(Stop)
        except Stop:
            pass
    right = right and raised == ["Stop"] * 4
    del raised[:]
sys.monitoring.set_events(tool, 0)
print(right)
