"""Containers of the job's own classes, long and short, held in every way: none of their methods may be called.

The first argument says what these do: count, or raise what would end a program.
"""

import collections
import sys

from busy import rounds

how = sys.argv[1]
armed, calls = [], []
NAMES = (
    "__iter__ __len__ __getitem__ __missing__ __contains__ __bool__ __sizeof__ __repr__ __str__ __reversed__ "
    "__length_hint__ __next__ __reduce_ex__ __copy__ __dir__ items keys values get copy pop popitem"
).split()


class End(BaseException):
    pass


def watched(base, with_hash):
    def method(name):
        original = getattr(base, name, None)

        def call(self, *arguments):
            if armed:
                calls.append(base.__name__ + "." + name)
                if how == "raises":
                    raise End(name)
            return original(self, *arguments)

        return call

    namespace = {name: method(name) for name in NAMES if hasattr(base, name)}
    if with_hash:
        namespace["__hash__"] = method("__hash__") if base.__hash__ is not None else lambda self: 1
        namespace["__eq__"] = method("__eq__")
    return type("Watched" + base.__name__, (base,), namespace)


def long(cls):
    made = cls()
    if hasattr(made, "keys"):
        for i in range(3_000):
            made[i] = [i]
        return made
    return cls([i] for i in range(3_000)) if not issubclass(cls, (set, frozenset)) else cls(range(3_000))


BASES = (
    dict, list, tuple, set, frozenset, collections.OrderedDict, collections.defaultdict, collections.deque,
    collections.Counter, collections.UserDict, collections.UserList, collections.ChainMap,
)  # fmt: skip
kinds = [watched(base, with_hash) for base in BASES for with_hash in (False, True)]
module_level = [long(cls) for cls in kinds]


class Holder:
    pass


def main():
    holder = Holder()
    holder.held = [long(cls) for cls in kinds]
    in_a_local = long(kinds[0])
    few = [[cls() for _ in range(600)] for cls in kinds]
    nested = {i: [cls() for cls in kinds] for i in range(300)}

    def generate():
        own = long(kinds[2])
        yield len(nested)
        yield own

    waiting = generate()
    next(waiting)
    armed.append(True)
    for _ in rounds():
        pass
    armed.clear()
    return [type(part) is not None for part in (holder, in_a_local, few, waiting)]


print(main(), sorted(set(calls)))
