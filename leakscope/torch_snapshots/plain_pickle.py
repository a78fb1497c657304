"""Pickles without any object: a reader that knows containers, numbers and strings, and no way to anything else.

It is no unpickler with a list of what is allowed: opcodes that name a class, call something or load from elsewhere do
not exist here, so nothing in a file can be executed. It reads in one pass in bounded memory: whoever calls it may put
something smaller in the place of each dict as soon as the dict is complete.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

MOST_BYTES = 4 << 30  # of a pickle, decompressed
MOST_HELD_BYTES = 500 << 20  # what the values may take at once, estimated
MOST_DEPTH = 64  # of containers in containers: a snapshot has 6
_CHUNK = 1 << 20
_MOST_STRING = 16 << 20  # a line of settings or a message, and not a file
_MOST_DIGITS = 16  # bytes of an integer: addresses have 8
# What a value takes in CPython, with its place in a container; measured, rounded up.
_CONTAINER_BYTES, _VALUE_BYTES = 120, 40
_CUT_OFF = "it ends in the middle: the copy or the job that wrote it was cut off"

_FLOAT, _INT4, _UINT1, _UINT2, _UINT4, _UINT8 = (struct.Struct(f) for f in (">d", "<i", "<B", "<H", "<I", "<Q"))


class Refused(ValueError):
    """Bytes that are no plain pickle, in words for a person: what is wrong."""


class PlainDict(dict[Any, Any]):
    """A dict of the pickle. ``at``: its place in the memo."""

    __slots__ = ("at",)
    at: int | None


class PlainList(list[Any]):
    """A list of the pickle. ``at``: its place in the memo."""

    __slots__ = ("at",)
    at: int | None


def _references_of_one() -> int:
    """What ``sys.getrefcount`` says of an object that one variable holds: not the same in each Python."""
    alone = PlainList()
    return sys.getrefcount(alone)


_ALONE = _references_of_one()


class PlainPickle:
    """Reads one pickle from a stream.

    ``smaller(value)`` is asked of each dict when its items are in; what it returns stands in its place from then on,
    also where the pickle refers to it again, and is taken to need ``_VALUE_BYTES``. **Errors** ``Refused``; OSError and
    EOFError of the stream. **Cost** 0.5 us an opcode, of which an event of torch's allocator has 25.
    """

    def __init__(self, stream: BinaryIO, smaller: Callable[[PlainDict], Any]) -> None:
        self._stream = stream
        self._smaller = smaller
        self._data, self._at, self._before = b"", 0, 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._held_bytes = 0

    def load(self) -> Any:
        """The value that the pickle holds."""
        stack, values, steps = self._stack, _VALUES, _STEPS
        while True:
            if self._at + 16 > len(self._data):
                self._refill(16)
            if self._at >= len(self._data):
                raise Refused(_CUT_OFF)
            opcode = self._data[self._at]
            self._at += 1
            if opcode == 0x2E:  # STOP
                break
            try:
                if (value := values.get(opcode)) is not None:
                    stack.append(value(self))
                    self._held_bytes += _VALUE_BYTES
                    if self._held_bytes > MOST_HELD_BYTES:
                        self._hold(0)
                elif (step := steps.get(opcode)) is not None:
                    step(self)
                else:
                    place = f"byte {self._before + self._at - 1:,}"
                    raise Refused(f"{_named(opcode)} at {place} is in no torch snapshot")
            except Refused:
                raise
            except (LookupError, TypeError, ValueError, AttributeError):
                raise Refused(f"its opcodes make no sense at byte {self._before + self._at:,}") from None
        if len(stack) != 1 or self._marks:
            raise Refused("it ends in the middle of a value")
        return stack[0]

    def replace(self, value: Any, smaller: Any) -> None:
        """Have ``smaller`` stand for a list or dict in the memo as well: then nobody holds it any more."""
        at = value.at
        if at is not None and at in self._memo and self._memo[at] is value:
            self._memo[at] = smaller

    # ---- what is read

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            self._refill(count)
            if self._at + count > len(self._data):
                raise Refused(_CUT_OFF)
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece

    def _refill(self, count: int) -> None:
        rest = self._data[self._at :]
        self._before += self._at
        if self._before > MOST_BYTES:
            raise Refused(f"it is longer than {MOST_BYTES >> 30} GiB")
        self._data, self._at = rest + self._stream.read(max(_CHUNK, count)), 0

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._take(form.size))[0]

    def _long(self) -> int:
        size = self._number(_UINT1)
        if size > _MOST_DIGITS:
            raise Refused(f"a number in it has {size} bytes")
        return int.from_bytes(self._take(size), "little", signed=True)

    def _text(self, form: struct.Struct) -> str:
        size = self._number(form)
        if size > _MOST_STRING:
            raise Refused(f"a string in it has {size:,} bytes")
        self._hold(_VALUE_BYTES + 4 * size if size > 1000 else _VALUE_BYTES + size)
        return self._take(size).decode("utf-8", "replace")

    def _remembered(self, form: struct.Struct) -> Any:
        return self._memo[self._number(form)]

    # ---- what is made of it

    def _hold(self, bytes: int) -> None:
        self._held_bytes += bytes
        if self._held_bytes > MOST_HELD_BYTES:
            raise Refused(f"what it holds takes more than {MOST_HELD_BYTES >> 20} MiB of memory")

    def _protocol(self) -> None:
        if self._number(_UINT1) > 5:
            raise Refused("it is of a newer pickle protocol than 5")

    def _mark(self) -> None:
        if len(self._marks) > MOST_DEPTH:
            raise Refused(f"it has containers {MOST_DEPTH} deep in each other")
        self._marks.append(len(self._stack))

    def _new(self, container: PlainDict | PlainList) -> None:
        container.at = None
        self._hold(_CONTAINER_BYTES)
        self._stack.append(container)

    def _remember(self, key: int) -> None:
        value = self._stack[-1]
        if key not in self._memo:
            self._hold(_CONTAINER_BYTES)
        self._memo[key] = value
        if type(value) is PlainDict or type(value) is PlainList:
            value.at = key

    def _taken(self, count: int | None = None) -> list[Any]:
        """So many values from the top of the stack; None: those above the last mark."""
        start = self._marks.pop() if count is None else len(self._stack) - count
        if start < (self._marks[-1] if self._marks else 0):
            raise IndexError
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _top(self, kind: type) -> Any:
        """The container that values are put into."""
        if len(self._stack) <= (self._marks[-1] if self._marks else 0) or type(self._stack[-1]) is not kind:
            raise TypeError
        return self._stack[-1]

    def _tuple(self, count: int | None = None) -> None:
        self._hold(_CONTAINER_BYTES)
        self._stack.append(tuple(self._taken(count)))

    def _extend(self, count: int | None = None) -> None:
        values = self._taken(count)
        self._top(PlainList).extend(values)

    def _update(self, count: int | None = None) -> None:
        """The dict is done then. Its keys hash fast and like nothing else: many of one hash would take hours."""
        values = self._taken(count)
        whole: PlainDict = self._top(PlainDict)
        if len(values) % 2 or any(type(key) is not str for key in values[::2]):
            raise TypeError
        whole.update(zip(values[::2], values[1::2]))
        del self._stack[-1]
        small = self._smaller(whole)
        if small is not whole:
            self.replace(whole, small)
            del values  # what somebody still refers to is not gone, whatever stands in its place
            lists = [value for value in whole.values() if type(value) is PlainList]
            count = len(whole)
            whole.clear()
            if sys.getrefcount(whole) <= _ALONE:
                self._held_bytes -= _CONTAINER_BYTES + 2 * _VALUE_BYTES * count - _VALUE_BYTES
            while lists:
                one = lists.pop()
                if sys.getrefcount(one) <= _ALONE:
                    self._held_bytes -= _CONTAINER_BYTES + _VALUE_BYTES * len(one)
        self._stack.append(small)


def _named(opcode: int) -> str:
    import pickletools

    known = {ord(op.code): op.name for op in pickletools.opcodes}
    return f"opcode {known[opcode]}" if opcode in known else f"byte {opcode:#04x}"


# All opcodes that there are: those of a value that comes onto the stack, and the others.
_VALUES: dict[int, Callable[[PlainPickle], Any]] = {
    ord("N"): lambda p: None,
    0x88: lambda p: True,
    0x89: lambda p: False,
    ord(")"): lambda p: (),
    ord("J"): lambda p: p._number(_INT4),
    ord("K"): lambda p: p._number(_UINT1),
    ord("M"): lambda p: p._number(_UINT2),
    ord("G"): lambda p: p._number(_FLOAT),
    0x8A: lambda p: p._long(),
    0x8C: lambda p: p._text(_UINT1),
    ord("X"): lambda p: p._text(_UINT4),
    0x8D: lambda p: p._text(_UINT8),
    ord("h"): lambda p: p._remembered(_UINT1),
    ord("j"): lambda p: p._remembered(_UINT4),
}
_STEPS: dict[int, Callable[[PlainPickle], Any]] = {
    0x80: lambda p: p._protocol(),
    0x95: lambda p: p._take(8),  # FRAME: how much may be read at once, which is nothing to us
    ord("("): lambda p: p._mark(),
    ord("}"): lambda p: p._new(PlainDict()),
    ord("]"): lambda p: p._new(PlainList()),
    ord("t"): lambda p: p._tuple(),
    0x85: lambda p: p._tuple(1),
    0x86: lambda p: p._tuple(2),
    0x87: lambda p: p._tuple(3),
    ord("a"): lambda p: p._extend(1),
    ord("e"): lambda p: p._extend(),
    ord("s"): lambda p: p._update(2),
    ord("u"): lambda p: p._update(),
    0x94: lambda p: p._remember(len(p._memo)),  # MEMOIZE
    ord("q"): lambda p: p._remember(p._number(_UINT1)),
    ord("r"): lambda p: p._remember(p._number(_UINT4)),
}
