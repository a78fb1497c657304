"""One file that is read: its bytes in bounded pieces, and what its reader says of it beside the facts."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ._facts import ELAPSED, NotThisFormat

HEAD_BYTES = 64 * 1024
LONGEST_LINE = 1 << 20  # bytes: no line of these tools comes near
MOST_DOCUMENT = 64 << 20  # bytes of JSON, which takes up to ten times as much as it is read
MOST_VALUES = 4_000_000  # in it: an empty list is three bytes of text, and 64 of memory
_CHUNK = 1 << 16
_BOMB_BYTES, _BOMB_TIMES = 1 << 20, 300  # unpacked, of one byte: logs that say the same all the time come to 100
_GZIP = b"\x1f\x8b"
_CUT = "its end is missing, as gzip has it: the copy was cut off"


@dataclass
class Source:
    """The file, and what its reader found out about it.

    ``clock``: one of ``_facts.CLOCKS``, on which the moments of its facts are. ``boot_unix_s``: when the machine
    started, where the file says. ``about``: what is known of each process, by pid: columns of ``processes``.
    ``addresses``: of memory that its process holds, by which files of one process are known where none has a pid.
    ``notes``: sentences for a person. ``left_out``: lines or values that were none. ``undated_tables``: of which nobody
    said when they were printed, so that they were not read.
    """

    path: Path
    clock: str = ELAPSED
    tool: str = ""
    boot_unix_s: float | None = None
    about: dict[int, dict[str, Any]] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: int = 0
    undated_tables: int = 0
    addresses: frozenset[int] = frozenset()
    _unnamed: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name

    def head(self) -> bytes:
        """The first bytes, unpacked."""
        return next(self._chunks(HEAD_BYTES), b"")

    def pieces(self) -> Iterator[bytes]:
        """All of it, piece by piece."""
        yield from self._chunks(_CHUNK)

    def lines(self, longest: int = LONGEST_LINE) -> Iterator[str]:
        """Lines without their ends. **Errors** NotThisFormat for one without an end."""
        parts: list[bytes] = []  # of a line that has not ended
        for chunk in self._chunks(_CHUNK):
            end, *more = chunk.split(b"\n")
            parts.append(end)
            if more:
                for line in (b"".join(parts), *more[:-1]):
                    yield _line(line)
                parts = [more[-1]]
            if sum(map(len, parts)) > longest:
                raise NotThisFormat(f"has a line of more than {longest >> 20} MiB: it is none of these logs")
        if rest := b"".join(parts):
            yield _line(rest)

    def content(self, most_bytes: int = MOST_DOCUMENT) -> bytes:
        """All of it. **Errors** NotThisFormat above so many bytes."""
        parts, size = [], 0
        for chunk in self._chunks(_CHUNK):
            size += len(chunk)
            if size > most_bytes:
                raise NotThisFormat(f"has more than {most_bytes >> 20} MiB: cut it into parts, or ask for less time")
            parts.append(chunk)
        return b"".join(parts)

    def document(self) -> Any:
        """The JSON value in it. **Errors** NotThisFormat."""
        data = self.content()
        if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise NotThisFormat(f"has more than {MOST_VALUES:,} values: cut it into parts, or ask for less time")
        try:
            return json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            raise NotThisFormat("is JSON that is cut off or damaged: write it again") from None

    def unnamed(self, name: str, **about: Any) -> int:
        """A pid for a process of which the file does not say the pid; the same for the same ``name``."""
        pid = self._unnamed.setdefault(name, -1 - len(self._unnamed))
        self.knows(pid, **about)
        return pid

    def knows(self, pid: int, **about: Any) -> None:
        """Columns of ``processes`` for one; what is known already stays."""
        known = self.about.setdefault(pid, {})
        for column, value in about.items():
            if value is not None and value != "":
                known.setdefault(column, value)

    def _chunks(self, size: int) -> Iterator[bytes]:
        with open(self.path, "rb") as stream:
            first = stream.read(size)
            chunks: Iterable[bytes] = chain([first], iter(lambda: stream.read(size), b""))
            if first[:2] == _GZIP:
                chunks = self._unpacked(chunks, size)
            yield from _as_utf8(iter(chunks))

    def _unpacked(self, chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
        """Pieces of at most ``size``: a packed file may hold a thousand times as much. **Errors** NotThisFormat."""
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        packed = unpacked = 0
        for chunk in chunks:
            packed += len(chunk)
            while chunk:
                if unpack.eof:  # files that were put one after the other: each has its own head
                    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
                try:
                    piece = unpack.decompress(chunk, size)
                except zlib.error:
                    raise NotThisFormat("is packed by gzip and damaged: copy it again") from None
                unpacked += len(piece)
                if unpacked > _BOMB_BYTES and unpacked > _BOMB_TIMES * packed:
                    raise NotThisFormat(f"unpacks to {_BOMB_TIMES} times its size, as no log does: unpack it first")
                if piece:
                    yield piece
                chunk = unpack.unconsumed_tail or unpack.unused_data.lstrip(b"\0")
        if not unpack.eof and _CUT not in self.notes:
            self.notes.append(_CUT)


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """These chunks; text in UTF-16, as PowerShell writes it, becomes UTF-8."""
    first = next(chunks, b"")
    if first[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for chunk in chain([first], chunks):
        if text := decoder.decode(chunk):
            yield text.encode("utf-8", "replace")


def _line(data: bytes) -> str:
    return data.decode("utf-8", "replace").rstrip("\r")
