"""Chains so deep that what goes down them by calling itself is at the end of the stack; OBJECTS_DEPTH may say more."""

import collections
import functools
import itertools
import os
import types

import look

DEPTH = int(os.environ.get("OBJECTS_DEPTH", "120000"))
KINDS = 4  # of each run: there is but so much memory


class Node(object):
    __slots__ = ("next",)


class Attributes(object):
    pass


def linked(one):
    node = Node()
    node.next = one
    return node


def attribute(one):
    node = Attributes()
    node.next = one
    return node


def error(one):
    made = ValueError()
    made.__context__ = one if isinstance(one, BaseException) else None
    return made


def cause(one):
    made = ValueError(one)
    made.__cause__ = one if isinstance(one, BaseException) else None
    return made


def closure(one):
    return lambda: one


def default(one):
    def function(held=one):
        return held

    return function


def waiting(one):
    yield one


def generator(one):
    made = waiting(one)
    next(made)
    return made


def keyword(one):
    return functools.partial(len, held=one)


def view(one):
    return types.MappingProxyType({"a": one})


def frame_chain():
    """A traceback of so many entries, without so many calls."""
    try:
        raise ValueError
    except ValueError as error:
        trace = error.__traceback__
    for _ in range(DEPTH):
        trace = types.TracebackType(trace, trace.tb_frame, 1, 1)
    return trace


STEPS = {
    "list": lambda one: [one],
    "tuple": lambda one: (one,),
    "dict": lambda one: {"a": one},
    "set": lambda one: {1: one, (2, 3): 4},
    "deque": lambda one: collections.deque([one]),
    "ordered": lambda one: collections.OrderedDict(a=one),
    "slots": linked,
    "attributes": attribute,
    "context": error,
    "cause": cause,
    "closure": closure,
    "default": default,
    "generator": generator,
    "partial": keyword,
    "map": lambda one: map(len, one),
    "filter": lambda one: filter(None, one),
    "chain": lambda one: itertools.chain(one),
    "islice": lambda one: itertools.islice(one, 3),
    "zip": lambda one: zip(one),
    "enumerate": lambda one: enumerate(one),
    "takewhile": lambda one: itertools.takewhile(len, one),
    "method": lambda one: types.MethodType(len, one),
    "view": view,
    "static": staticmethod,
    "property": property,
    "namespace": lambda one: types.SimpleNamespace(one=one),
    "slice": lambda one: slice(one),
    "repeat": itertools.repeat,
    "cell": types.CellType,
}


def build(step):
    one = iter([1])
    for _ in range(DEPTH):
        one = step(one)
    return one


look.begin()
kinds = look.choose.sample(sorted(STEPS), KINDS)
held = {kind: build(STEPS[kind]) for kind in kinds}
held["traceback"] = frame_chain()
globals().update(held)
look.here()
look.here()
look.between()
look.beside()
look.end(sorted(held))
os._exit(0)  # not all of them can be freed without an end to the stack
