"""Proxies that make their object when they are first touched: who but the job may touch them?

The first argument: ``written`` here, or the library they come from.
"""

import sys

from busy import rounds

calls = []


class Timeout(BaseException):
    """As gevent's."""


def factory():
    calls.append(1)
    raise Timeout


class Written:
    """As lazy_object_proxy.slots and wrapt have it."""

    __slots__ = ("__factory__", "__target__")

    def __init__(self, factory):
        object.__setattr__(self, "__factory__", factory)

    def __resolve__(self):
        target = object.__getattribute__(self, "__factory__")()
        object.__setattr__(self, "__target__", target)
        return target

    @property
    def __dict__(self):
        return self.__resolve__().__dict__

    @property
    def __class__(self):
        return self.__resolve__().__class__

    def __getattr__(self, name):
        return getattr(self.__resolve__(), name)

    def __len__(self):
        return len(self.__resolve__())

    def __iter__(self):
        return iter(self.__resolve__())

    def __hash__(self):
        return hash(self.__resolve__())

    def __bool__(self):
        return bool(self.__resolve__())

    def __eq__(self, other):
        return self.__resolve__() == other


def kinds():
    if sys.argv[1] == "written":
        return [Written]
    if sys.argv[1] == "lazy_object_proxy":
        import lazy_object_proxy
        import lazy_object_proxy.slots

        return [lazy_object_proxy.Proxy, lazy_object_proxy.slots.Proxy]
    import wrapt

    return [wrapt.LazyObjectProxy]


def main():
    few = [kind(factory) for kind in kinds()]
    many = [[kind(factory) for _ in range(3_000)] for kind in kinds()]
    inside = {"settings": kinds()[0](factory)}
    for _ in rounds():
        pass
    return len(few) and len(many) and len(inside)


print(main() > 0, "factory called", len(calls))
