"""Containers that are being emptied or freed, for as long as the finalizers of their members run; some come back."""

import collections
import gc
import threading
import weakref

from busy import rounds

finalized, revived, called = [], [], []


def linger():
    for _ in range(2_000):
        pass


class Member:
    def __init__(self):
        self.held = [self.__class__]

    def __del__(self):
        linger()
        finalized.append(1)


class Back:
    def __del__(self):
        linger()
        revived.append(self)


def generate():
    held = [Member()]
    try:
        yield held
    finally:
        linger()


def empty(container):
    container.clear()
    return len(container) == 0


def members():
    return [Member() for _ in range(5)]


local = threading.local()
right = True
for _ in rounds():
    right = right and empty(members())
    right = right and empty(dict(enumerate(members())))
    right = right and empty(set(members()))
    right = right and empty(collections.deque(members()))
    right = right and empty(collections.OrderedDict(enumerate(members())))
    right = right and empty(collections.defaultdict(list, enumerate(members())))
    tuple(members())
    Back()
    waiting = generate()
    next(waiting)
    waiting.close()
    del waiting
    cycle = members()
    for one in cycle:
        one.cycle = cycle
    watched = weakref.ref(cycle[0], lambda _: (linger(), called.append(1)))
    del cycle, one
    gc.collect()
    right = right and watched() is None
    local.held = members()
    del local.held
    held = Member()
    held.__dict__ = {"held": members()}
    del held
    right = right and (len(finalized), len(revived), len(called)) == (52, 1, 1)
    del finalized[:], revived[:], called[:]
print(right)
