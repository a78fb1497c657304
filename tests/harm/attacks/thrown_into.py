"""An exception is thrown into what waits for another: its stack is taken down, and finalizers run meanwhile.

What runs then has an instruction before it at which only those that wait stop, and no stack that could be read.
"""

from busy import rounds


class Stop(Exception):
    pass


class Awaited:
    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return 1

    def __del__(self):
        for _ in range(20_000):
            pass
        finalized.append(True)


def generate():
    held = [1]
    yield from Awaited()
    return held


async def wait():
    held = [1]
    await Awaited()
    return held


async def numbers():
    held = [1]
    await Awaited()
    yield held


finalized, right = [], True
for _ in rounds():
    for one in (generate(), wait(), numbers().__anext__()):
        one.send(None)
        try:
            one.throw(Stop)
        except Stop:
            pass
    right = right and len(finalized) == 3
    del finalized[:]
print(right)
