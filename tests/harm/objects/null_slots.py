"""Lists, tuples, struct sequences and arrays with slots that hold nothing, in every place that is looked into."""

import array
import ctypes
import os
import time
import types

import look

api = ctypes.pythonapi
for name in ("PyList_New", "PyTuple_New", "PyStructSequence_New"):
    getattr(api, name).restype = ctypes.py_object
api.PyList_New.argtypes = api.PyTuple_New.argtypes = (ctypes.c_ssize_t,)
api.PyType_GenericAlloc.restype = ctypes.py_object
api.PyType_GenericAlloc.argtypes = (ctypes.py_object, ctypes.c_ssize_t)
api.PyStructSequence_New.argtypes = (ctypes.py_object,)
api.Py_IncRef.argtypes = (ctypes.py_object,)
api.PyList_SetItem.argtypes = (ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p)
SIZES = [1, 2, 3, 33, 64, 65, 300, 5000, 150_000]
STRUCTS = [os.stat_result, time.struct_time, os.terminal_size, os.times_result]


class Listed(list):
    pass


class Tupled(tuple):
    __slots__ = ()


class Arrayed(array.array):
    pass


def put(one, position, value):
    """Into a slot that is empty as yet, as C code does."""
    api.Py_IncRef(value)
    if isinstance(one, list):
        assert api.PyList_SetItem(one, position, id(value)) == 0
    else:
        ctypes.c_void_p.from_address(id(one) + tuple.__basicsize__ + 8 * position).value = id(value)


def partly(one, size):
    """Filled from the front, from the end, here and there, or not at all."""
    how = look.choose.choice(["front", "end", "some", "none"])
    many = look.choose.randrange(size + 1)
    positions = {
        "front": range(many), "end": range(size - many, size), "none": (),
        "some": look.choose.sample(range(size), min(size, 50)),
    }[how]  # fmt: skip
    members = [[1], "text" * 2000, {"a": "some words of a row %d" % many}, 7, (1, 2), b"x" * 9000]
    for position in positions:
        put(one, position, look.choose.choice(members))
    return one


def emptied(cls, size):
    one = cls(range(size))
    for position in look.choose.sample(range(size), min(size, 10)):
        assert api.PyList_SetItem(one, position, None) == 0
    return one


def make():
    for size in SIZES:
        yield partly(api.PyList_New(size), size)
        yield partly(api.PyTuple_New(size), size)
        yield emptied(list, size)
        yield emptied(Listed, size)
    for kind in STRUCTS:
        yield api.PyStructSequence_New(kind)
    for kind in (array.array, Arrayed):
        yield api.PyType_GenericAlloc(kind, 0)  # which does not know yet of what type its items are


class Holder(object):
    __slots__ = ("one", "__dict__")


def function(first, *, second=None):
    def inner():
        return first

    return inner


def in_places(one):
    """Held by all that can hold it."""
    holder = Holder()
    holder.one = one
    holder.two = [one, one]
    made = function(one)
    made.__defaults__ = (one,)
    error = ValueError(one)
    many = [one] * 300
    defaults = types.FunctionType(function.__code__, {}, "odd", (one,))
    if isinstance(one, tuple):
        defaults.__defaults__ = one
    return [holder, made, error, many, {"a": one}, {1: one}, {(7, 8): one}, defaults, types.SimpleNamespace(one=one)]


def generate(one):
    held = [one]
    yield held
    yield one


look.begin()
held = []
for number, one in enumerate(make()):
    api.Py_IncRef(one)
    globals()["odd%d" % number] = one
    held.append(in_places(one))
    waiting = generate(one)
    next(waiting)
    held.append(waiting)
look.here()
look.here()
look.between()
look.beside()
look.here()
look.end(len(held))
