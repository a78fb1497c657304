"""How objects that were found in the heap are read: as the collector reads them. Runs in the job.

An object that somebody else makes may be half made, for as long as its owner likes: a list of C code has slots that
are NULL (``xml.etree``'s parser has one always), and to copy, iterate or index it ends the process. Its class may have
methods, a metaclass or a ``__dict__`` of its own, which would run the job's code. So nothing of an object is called
here. Members are what ``tp_traverse`` shows (``gc.get_referents``), or slots of memory of which C code finds out if
they are NULL; dicts, sets and deques are gone through by the iterators of their own C types, whatever their class.

What reads memory does it in one call of C code: between two bytecodes another thread may change the object.
"""

from __future__ import annotations

import ctypes
import sys
import types
from _collections import deque
from _operator import getitem, gt
from gc import get_referents
from itertools import compress, islice, repeat

from .names import HEAPTYPE, flags_of, mro_of, namespace_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, FrameType
    from typing import Any

_slots = ctypes.POINTER(ctypes.py_object)
_MOST_LISTED = 100000  # members of a list with NULL slots that are listed to have a sample of the others
_CO_OPTIMIZED = 1
_CELL = types.CellType
_cell_contents = types.CellType.cell_contents.__get__
_MemberDescriptor = types.MemberDescriptorType
_GetSetDescriptor = types.GetSetDescriptorType


class _List(ctypes.Structure):
    """Of every CPython from 3.8 to 3.14 that keeps no list of all objects (``Py_TRACE_REFS``)."""

    _fields_ = [
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("size", ctypes.c_ssize_t),
        ("items", _slots),
    ]


class _Frame(ctypes.Structure):
    """A frame object since Python 3.11. What it stands for may move, and ``slots`` is read again at each look."""

    _fields_ = [
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("back", ctypes.c_void_p),
        ("slots", _slots),
    ]


class _Address(ctypes.Union):
    """One reference in a frame's slots, as whatever one would read there."""

    _fields_ = [
        ("address", ctypes.c_ssize_t),
        ("numbers", ctypes.POINTER(ctypes.c_ssize_t)),
        ("integers", ctypes.POINTER(ctypes.c_int)),
    ]


class _Tops(ctypes.Structure):
    """A frame object, to read what comes before its slots."""

    _fields_ = [*_Frame._fields_[:3], ("slots", _Address)]


# ---- containers

_BASES = {id(base): base for base in (list, tuple, dict, set, frozenset, deque)}


def base_of(cls: type) -> Any:
    """The C type that knows the members of objects of this class: list, tuple, dict, set, frozenset, deque, or None."""
    for above in mro_of(cls):
        base = _BASES.get(id(above))
        if base is not None:
            return base
    return None


def items_at(base: Any, obj: Any, positions: Sequence[int]) -> list[Any]:
    """Members of a list or tuple (``base``) at ``positions`` (a list or range), as far as any are there.

    **Cost** 0.5 us each.
    """
    in_tuple = id(obj) + tuple.__basicsize__
    slots: Any = _List.from_address(id(obj)).items if base is list else ctypes.cast(in_tuple, _slots)
    are_there = map(gt, map(base.__len__, repeat(obj)), positions)
    try:  # one by one: a slice of ctypes takes NULL for an object
        return list(map(getitem, repeat(slots), compress(positions, are_there)))
    except ValueError:  # one of them is NULL
        pass
    if base.__len__(obj) > _MOST_LISTED:
        return []
    others = _listed(obj)
    length = len(others)
    return [others[position] for position in positions if position < length]


def _listed(obj: Any) -> list[Any]:
    """What a list or tuple refers to, which the collector is told from the end."""
    found = get_referents(obj)
    found.reverse()
    return found


KEYS = object()  # as ``base``: a dict's keys; dict itself stands for its values


def members(base: Any, obj: Any) -> list[Any]:
    """[member, ...] of a container of whatever subclass of ``base``, which may be KEYS."""
    if base is list or base is tuple:
        return _listed(obj) if type(obj) is base else items_at(base, obj, range(base.__len__(obj)))
    return list(iterator(base, obj))


def pairs(obj: Any, most: int | None = None) -> list[tuple[Any, Any]]:
    """[(key, value), ...] of a dict of whatever subclass: an OrderedDict's own order would hash the keys."""
    return list(islice(dict.items(obj), most))


def iterator(base: Any, obj: Any) -> Iterator[Any]:
    """To go through a set, frozenset, deque or dict; it raises RuntimeError where these change meanwhile."""
    if base is dict:
        return iter(dict.values(obj))
    return dict.__iter__(obj) if base is KEYS else base.__iter__(obj)


def backwards(base: Any, obj: Any) -> Iterator[Any] | None:
    """Members of a container from the end; None for one that has none (sets)."""
    if base is dict:
        return reversed(dict.values(obj))
    if base is KEYS:
        return reversed(dict.keys(obj))
    return deque.__reversed__(obj) if base is deque else None


# ---- attributes


def _getter(descriptor: object) -> int | None:
    """The C function behind a getset descriptor: ``PyDescr_COMMON`` is followed by its ``PyGetSetDef``."""
    definition: Any = ctypes.c_void_p.from_address(id(descriptor) + _DESCRIPTOR_BYTES).value
    return ctypes.c_void_p.from_address(definition + ctypes.sizeof(ctypes.c_void_p)).value


_DESCRIPTOR_BYTES = 40
# Python's own two. That of another library (of a proxy) may do whatever it likes.
_GETTERS = frozenset(
    _getter(namespace_of(cls)["__dict__"]) for cls in (types.FunctionType, type("Plain", (), {}))
)  # fmt: skip


class Attributes:
    """How the attributes of objects of one class are read: its slots, [(name, descriptor), ...], and its ``__dict__``.

    Good for as long as the class lives, and somebody holds it.
    """

    __slots__ = ("cls", "slots", "_dict_of")

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.slots = []
        self._dict_of = None
        for base in mro_of(cls):
            namespace = namespace_of(base)
            if flags_of(base) & HEAPTYPE and "__slots__" in namespace:
                self.slots += [(text_of(n), d) for n, d in namespace.items() if type(d) is _MemberDescriptor]
        for base in mro_of(cls):
            descriptor = namespace_of(base).get("__dict__")
            if descriptor is not None:
                kind = type(descriptor)
                if kind is _MemberDescriptor or (kind is _GetSetDescriptor and _getter(descriptor) in _GETTERS):
                    self._dict_of = descriptor.__get__
                break

    def dict_of(self, obj: Any) -> dict[Any, Any] | None:
        """The object's own exact dict; None if it has none that can be had without its class."""
        found = None if self._dict_of is None else self._dict_of(obj)
        return found if type(found) is dict else None


def attributes_of(obj: Any) -> dict[Any, Any] | None:
    """The ``__dict__`` of one object; None where it has none."""
    return Attributes(type(obj)).dict_of(obj)


# ---- frames


def _inline(frame: FrameType) -> Any:
    """Up to Python 3.10 the locals are in the frame object itself, at its end."""
    return ctypes.cast(id(frame) + types.FrameType.__basicsize__ - _SLOT_BYTES, _slots)


def _behind(frame: FrameType) -> Any:
    """Since 3.11 it refers to what holds them, which moves when the function ends: looked up at each reading."""
    return _Frame.from_address(id(frame)).slots


_SLOT_BYTES = ctypes.sizeof(ctypes.c_void_p)
_slots_of = _inline if sys.version_info < (3, 11) else _behind


def _first_slot(one: object, other: object) -> int | None:
    """Where the locals of a frame begin, told by one whose first two are known; None: not where they should be.

    Looked for as numbers: what stands before them are not all objects.
    """
    numbers = ctypes.cast(_slots_of(sys._getframe()), ctypes.POINTER(ctypes.c_void_p))
    for first in range(1) if _slots_of is _inline else range(_MOST_BEFORE):
        if [(numbers[at] or 0) & ~_TAGS for at in (first, first + 1)] == [id(one), id(other)]:
            return first
    return None


def _top(frame: FrameType) -> int:
    """Since Python 3.13: how many slots of a frame are in use, locals and then the stack, if it is not running.

    Less than the locals: they have been let go, and what stands in their slots is left over. A generator that is closed
    has such a frame, and Python's own view of it ends the process.

    Nothing is called once memory is looked at: another thread would run, and the frame move or end.
    """
    read = _Tops.from_address(id(frame))
    if sys.version_info < (3, 14):  # a number, the last but for some flags
        return read.slots.integers[2 * _first - 2]
    return ((read.slots.numbers[_first - 2] or 0) - read.slots.address) // _SLOT_BYTES - _first


def _tops_are_told() -> bool:
    """Whether ``_top`` is true of a generator that waits, and of the same once it is closed.

    Then its variables are gone, or the frame goes on to hold them (seen with 3.14.8): the collector knows.
    """

    def generate(one: object) -> Iterator[object]:
        yield one

    held = object()
    waiting = generate(held)
    next(waiting)
    frame: Any = waiting.gi_frame  # type: ignore[attr-defined]
    waits = 1 <= _top(frame) <= 1 + frame.f_code.co_stacksize
    waiting.close()  # type: ignore[attr-defined]
    return waits and _top(frame) == sum(one is held for one in get_referents(frame))


_MOST_BEFORE = 16  # 9 words in 3.11 to 3.13
_TAGS = 3  # of the last bits: Python 3.14 says there who counts the reference
# Since 3.13 f_locals of a function is a view of them. Before, it is a dict that the frame keeps: what is in it lives on
# for as long as the frame, and under a tracer, profiler or debugger it is written back to the variables.
_HAS_VIEWS = sys.version_info >= (3, 13)
_first: Any = _first_slot(object(), object())
if _HAS_VIEWS and not (_first is not None and _tops_are_told()):
    _first = None


def frame_locals(frame: FrameType) -> list[tuple[str, Any]]:
    """[(name, value), ...] of a function's frame; of a module's or class's, nothing."""
    code = frame.f_code
    if not code.co_flags & _CO_OPTIMIZED:
        return []
    if _first is None:
        return []
    if _HAS_VIEWS:
        count = len(_local_names(code))
        if 0 <= _top(frame) < count:
            return []
        return list(frame.f_locals.items())  # no other thread has run since the look at its top
    found = []
    slots = _slots_of(frame)
    for at, name in enumerate(_local_names(code), _first):
        try:
            value = slots[at]
            if type(value) is _CELL:
                value = _cell_contents(value)
        except ValueError:  # not bound
            continue
        found.append((name, value))
    return found


def _local_names(code: CodeType) -> tuple[str, ...]:
    """In the order of their slots. Since 3.11 an argument that closures use stays in its own."""
    names, cells = code.co_varnames, code.co_cellvars
    if sys.version_info >= (3, 11):
        cells = tuple(name for name in cells if name not in names)
    return names + cells + code.co_freevars
