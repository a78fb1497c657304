"""PyHeap: heap dumps of `pyheap_dump` (`.pyheap`, version 1 of its format), also compressed by gzip."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime

from ._facts import UNIX, Fact, NotThisFormat
from ._heap_dump import MOST_REFERENCES, HeapDump
from ._source import Source

LACKS = "has the objects of the heap at one moment (leakscope heap shows who holds them), not the process's memory"
_MAGIC = struct.pack("!Q", 123_000_321)  # at the beginning and at the end
_VERSION = 1
_WITH_TEXTS = 1
_U64, _U32, _LENGTH, _SHORT, _OBJECT = (struct.Struct(form) for form in ("!Q", "!I", "!H", "!h", "!QQI"))
_CONTAINERS = ("dict", "list", "set", "tuple")


def sniff(head: bytes, name: str) -> bool:
    return head.startswith(_MAGIC)


def read(source: Source) -> Iterator[Fact]:
    """One snapshot. Numbers in the file are big-endian; it is written after PyHeap 0.7's own dumper and reader."""
    source.tool, source.clock = "PyHeap", UNIX
    file = _File(source)
    if file.bytes(8) != _MAGIC:
        raise NotThisFormat("is no dump of PyHeap")
    version = file.count()
    if version != _VERSION:
        raise NotThisFormat(
            f"is of version {version} of PyHeap's format, and {_VERSION} is known: use PyHeap 0.2 to 0.7"
        )
    at_s = _moment(file.text())
    with_texts = bool(file.u64() & _WITH_TEXTS)
    known = {file.text(): file.u64() for _ in range(file.count())}
    if not with_texts:
        source.notes.append("it was made without texts (--str-repr-len -1), which most names are")
    dump = HeapDump()
    _threads(file, dump)
    names = [file.text() for _ in range(file.count())]
    common = set()  # types whose attributes are said once
    for _ in range(file.count()):
        common.add(file.u64())
        _attributes(file, names)
    containers = {known[name]: name for name in _CONTAINERS if name in known}
    for _ in range(file.count()):
        address, type_address, own_bytes = file.numbers(_OBJECT)
        container = containers.get(type_address)
        dump.add(address, type_address, own_bytes)
        members = file.addresses(2 if container == "dict" else 1) if container else ()
        for at, member in enumerate(members):
            dump.refers(member, is_value=container == "dict" and at % 2 == 1)
        others = file.addresses()
        attributes = {} if type_address in common else _attributes(file, names)
        for other in others:
            dump.refers(other, attributes.get(other, ""))
        if with_texts and not container:
            text = file.text()
            if type_address == known.get("str"):
                dump.says(text)
    type_names = {file.u64(): file.text() for _ in range(file.count())}
    if file.bytes(8) != _MAGIC:
        raise NotThisFormat("does not end as a dump of PyHeap does: it was cut off, or is damaged")
    yield from dump.facts(source, at_s, type_names)


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise NotThisFormat("does not say when it was made: it is damaged") from None


def _threads(file: _File, dump: HeapDump) -> None:
    """Each with its calls, the innermost first."""
    for _ in range(file.count()):
        thread = file.text()
        file.bytes(2)  # whether it lives, and is a daemon
        depth = file.count()
        for at in range(depth):
            path, line, function = file.text(), file.count(), file.text()
            locals = {file.text(): file.u64() for _ in range(file.count())}
            dump.runs(thread, depth - at, function, path, line, locals)


def _attributes(file: _File, names: list[str]) -> dict[int, str]:
    """{address of a value: name of the attribute}; of frequent names the file has numbers, from -1 down."""
    found = {}
    for _ in range(file.count()):
        (length,) = file.numbers(_SHORT)
        if length < 0 and -length > len(names):
            raise NotThisFormat("has an attribute without a name: it is damaged")
        name = names[-length - 1] if length < 0 else file.bytes(length).decode("utf-8", "replace")
        found[file.u64()] = name
    return found


class _File:
    """Its bytes, one after the other. **Errors** NotThisFormat where they end too soon."""

    def __init__(self, source: Source) -> None:
        self._pieces = source.pieces()
        self._buffer = b""
        self._at = 0

    def bytes(self, count: int) -> bytes:
        self._have(count)
        found = self._buffer[self._at : self._at + count]
        self._at += count
        return found

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        self._have(form.size)
        found = form.unpack_from(self._buffer, self._at)
        self._at += form.size
        return found

    def addresses(self, each: int = 1) -> tuple[int, ...]:
        """As many as a number before them says, times ``each``."""
        count = self.count() * each
        if count > MOST_REFERENCES:
            raise NotThisFormat(f"has more than {MOST_REFERENCES:,} references: dump the process sooner")
        return self.numbers(struct.Struct(f"!{count}Q"))

    def u64(self) -> int:
        return self.numbers(_U64)[0]

    def count(self) -> int:
        return self.numbers(_U32)[0]

    def text(self) -> str:
        (length,) = self.numbers(_LENGTH)
        return self.bytes(length).decode("utf-8", "replace")

    def _have(self, count: int) -> None:
        missing = count - (len(self._buffer) - self._at)
        if missing <= 0:
            return
        parts = [self._buffer[self._at :]]
        while missing > 0:
            piece = next(self._pieces, b"")
            if not piece:
                raise NotThisFormat("ends in the middle: the dump was cut off, or the copy failed")
            parts.append(piece)
            missing -= len(piece)
        self._buffer, self._at = b"".join(parts), 0
