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

_FLOAT, _INT4, _UINT2, _UINT4, _UINT8 = (struct.Struct(f) for f in (">d", "<i", "<H", "<I", "<Q"))
_MARK = object()


def _references_of_one() -> int:
    """What ``sys.getrefcount`` says of an object that one variable holds: not the same in each Python."""
    alone = PlainList()
    return sys.getrefcount(alone)


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
        self._memo: dict[int, Any] = {}
        self._held_bytes = 0

    def load(self) -> Any:
        """The value that the pickle holds."""
        stack: list[Any] = []
        marks: list[int] = []
        steps = _STEPS
        while True:
            if self._at + 16 > len(self._data):
                self._refill(16)
            if self._at >= len(self._data):
                raise Refused("it ends in the middle: the copy or the job that wrote it was cut off")
            opcode = self._data[self._at]
            self._at += 1
            if opcode == 0x2E:  # STOP
                break
            step = steps[opcode]
            if step is None:
                raise Refused(f"{_named(opcode)} at byte {self._before + self._at - 1:,} is in no torch snapshot")
            try:
                step(self, stack, marks)
            except Refused:
                raise
            except (LookupError, TypeError, ValueError, AttributeError):
                raise Refused(f"its opcodes make no sense at byte {self._before + self._at:,}") from None
        if len(stack) != 1 or marks:
            raise Refused("it ends in the middle of a value")
        return stack[0]

    def replace(self, value: Any, smaller: Any) -> None:
        """Have ``smaller`` stand for a list or dict in the memo as well: then nobody holds it any more."""
        at = value.at
        if at is not None and at in self._memo and self._memo[at] is value:
            self._memo[at] = smaller

    # The parts of opcodes.

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            self._refill(count)
            if self._at + count > len(self._data):
                raise Refused("it ends in the middle: the copy or the job that wrote it was cut off")
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece

    def _refill(self, count: int) -> None:
        rest = self._data[self._at :]
        self._before += self._at
        if self._before > MOST_BYTES:
            raise Refused(f"it is longer than {MOST_BYTES >> 30} GiB")
        more = self._stream.read(max(_CHUNK, count))
        self._data, self._at = rest + more, 0

    def _text(self, size: int) -> str:
        if size > _MOST_STRING:
            raise Refused(f"a string in it has {size:,} bytes")
        self._hold(_VALUE_BYTES + 4 * size if size > 1000 else _VALUE_BYTES + size)
        return self._take(size).decode("utf-8", "replace")

    def _hold(self, bytes: int) -> None:
        self._held_bytes += bytes
        if self._held_bytes > MOST_HELD_BYTES:
            raise Refused(f"what it holds takes more than {MOST_HELD_BYTES >> 20} MiB of memory")

    def _remember(self, stack: list[Any], key: int) -> None:
        value = stack[-1]
        if key not in self._memo:
            self._hold(_CONTAINER_BYTES)
        self._memo[key] = value
        if type(value) is PlainDict or type(value) is PlainList:
            value.at = key

    def _new(self, stack: list[Any], marks: list[int], value: Any) -> None:
        if len(marks) > MOST_DEPTH:
            raise Refused(f"it has containers {MOST_DEPTH} deep in each other")
        self._hold(_CONTAINER_BYTES)
        stack.append(value)

    def _push(self, stack: list[Any], value: Any) -> None:
        self._held_bytes += _VALUE_BYTES
        if self._held_bytes > MOST_HELD_BYTES:
            self._hold(0)
        stack.append(value)

    def _dict_done(self, stack: list[Any]) -> None:
        whole = stack.pop()
        small = self._smaller(whole)
        if small is not whole:
            self.replace(whole, small)
            lists = [value for value in whole.values() if type(value) is PlainList]
            count = len(whole)
            whole.clear()
            # What somebody still refers to is not gone, whatever stands in its place.
            if sys.getrefcount(whole) <= _ALONE:
                self._held_bytes -= _CONTAINER_BYTES + 2 * _VALUE_BYTES * count - _VALUE_BYTES
            while lists:
                one = lists.pop()
                if sys.getrefcount(one) <= _ALONE:
                    self._held_bytes -= _CONTAINER_BYTES + _VALUE_BYTES * len(one)
        stack.append(small)


_ALONE = _references_of_one()
_Step = Callable[[PlainPickle, "list[Any]", "list[int]"], None]
_STEPS: list[_Step | None] = [None] * 256


def _named(opcode: int) -> str:
    import pickletools

    known = {ord(op.code): op.name for op in pickletools.opcodes}
    return f"opcode {known[opcode]}" if opcode in known else f"byte {opcode:#04x}"


def _step(code: bytes) -> Callable[[_Step], _Step]:
    def add(step: _Step) -> _Step:
        _STEPS[code[0]] = step
        return step

    return add


@_step(b"\x80")  # PROTO
def _proto(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    if p._take(1)[0] > 5:
        raise Refused("it is of a newer pickle protocol than 5")


@_step(b"\x95")  # FRAME: how much may be read at once, which is nothing to us
def _frame(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._take(8)


@_step(b"(")
def _mark(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    if len(marks) > MOST_DEPTH:
        raise Refused(f"it has containers {MOST_DEPTH} deep in each other")
    marks.append(len(stack))


@_step(b"}")
def _empty_dict(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    made = PlainDict()
    made.at = None
    p._new(stack, marks, made)


@_step(b"]")
def _empty_list(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    made = PlainList()
    made.at = None
    p._new(stack, marks, made)


@_step(b")")
def _empty_tuple(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, ())


@_step(b"t")
def _tuple(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    start = marks.pop()
    p._hold(_CONTAINER_BYTES)
    stack[start:] = [tuple(stack[start:])]


def _tuple_of(count: int) -> _Step:
    def step(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
        if len(stack) - (marks[-1] if marks else 0) < count:
            raise IndexError
        p._hold(_CONTAINER_BYTES)
        stack[-count:] = [tuple(stack[-count:])]

    return step


for _count, _code in ((1, 0x85), (2, 0x86), (3, 0x87)):
    _STEPS[_code] = _tuple_of(_count)


@_step(b"a")
def _append(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    value = stack.pop()
    _list_at(stack, marks).append(value)


@_step(b"e")
def _appends(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    start = marks.pop()
    values = stack[start:]
    del stack[start:]
    _list_at(stack, marks).extend(values)


@_step(b"s")
def _setitem(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    key, value = stack[-2:]
    del stack[-2:]
    _dict_at(stack, marks)[_key(key)] = value
    p._dict_done(stack)


@_step(b"u")
def _setitems(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    start = marks.pop()
    values = stack[start:]
    del stack[start:]
    if len(values) % 2:
        raise IndexError
    target = _dict_at(stack, marks)
    for key in values[::2]:
        _key(key)
    target.update(zip(values[::2], values[1::2]))
    p._dict_done(stack)


def _list_at(stack: list[Any], marks: list[int]) -> PlainList:
    if len(stack) <= (marks[-1] if marks else 0) or type(stack[-1]) is not PlainList:
        raise TypeError
    found: PlainList = stack[-1]
    return found


def _dict_at(stack: list[Any], marks: list[int]) -> PlainDict:
    if len(stack) <= (marks[-1] if marks else 0) or type(stack[-1]) is not PlainDict:
        raise TypeError
    found: PlainDict = stack[-1]
    return found


def _key(key: Any) -> Any:
    """Only what hashes fast and like nothing else: many keys of one hash would take hours."""
    if type(key) is not str:
        raise TypeError
    return key


@_step(b"\x94")  # MEMOIZE
def _memoize(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._remember(stack, len(p._memo))


@_step(b"q")
def _binput(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._remember(stack, p._take(1)[0])


@_step(b"r")
def _long_binput(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._remember(stack, _UINT4.unpack(p._take(4))[0])


@_step(b"h")
def _binget(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._memo[p._take(1)[0]])


@_step(b"j")
def _long_binget(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._memo[_UINT4.unpack(p._take(4))[0]])


@_step(b"N")
def _none(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, None)


@_step(b"\x88")
def _true(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, True)


@_step(b"\x89")
def _false(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, False)


@_step(b"J")
def _binint(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, _INT4.unpack(p._take(4))[0])


@_step(b"K")
def _binint1(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._take(1)[0])


@_step(b"M")
def _binint2(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, _UINT2.unpack(p._take(2))[0])


@_step(b"\x8a")  # LONG1
def _long1(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    size = p._take(1)[0]
    if size > _MOST_DIGITS:
        raise Refused(f"a number in it has {size} bytes")
    p._push(stack, int.from_bytes(p._take(size), "little", signed=True))


@_step(b"G")
def _binfloat(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, _FLOAT.unpack(p._take(8))[0])


@_step(b"\x8c")  # SHORT_BINUNICODE
def _short_text(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._text(p._take(1)[0]))


@_step(b"X")
def _binunicode(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._text(_UINT4.unpack(p._take(4))[0]))


@_step(b"\x8d")  # BINUNICODE8
def _long_text(p: PlainPickle, stack: list[Any], marks: list[int]) -> None:
    p._push(stack, p._text(_UINT8.unpack(p._take(8))[0]))
