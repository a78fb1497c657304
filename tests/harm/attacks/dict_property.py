"""``__dict__`` is a property of the job's, and so are other names of instances: nobody but the job may ask for them.

The first argument says what they do: count, or raise what would end a program.
"""

import sys

from busy import rounds

how = sys.argv[1]
armed, calls = [], []


def asked(name):
    if armed:
        calls.append(name)
        if how == "raises":
            raise KeyboardInterrupt(name)


class Slotted:
    __slots__ = ("_held",)

    def __init__(self):
        self._held = {}

    @property
    def __dict__(self):
        asked("__dict__")
        return self._held


class Lying:
    def __init__(self):
        self.held = []

    @property
    def __dict__(self):
        asked("__dict__ over a dict")
        return {}

    @property
    def __class__(self):
        asked("__class__")
        return dict


class Answering:
    def __init__(self):
        self.held = []

    def __getattribute__(self, name):
        asked(name)
        return super().__getattribute__(name)


class Descriptor:
    def __get__(self, instance, owner):
        asked("descriptor")
        return 1

    def __set__(self, instance, value):
        asked("descriptor set")


class Described:
    held = Descriptor()
    __slots__ = ()
    __len__ = __dict__ = __sizeof__ = Descriptor()


one = Slotted(), Lying(), Answering(), Described()


def main():
    many = [[cls() for _ in range(3_000)] for cls in (Slotted, Lying, Answering, Described)]
    armed.append(True)
    for _ in rounds():
        pass
    armed.clear()
    return len(many)


print(main(), sorted(set(calls)))
