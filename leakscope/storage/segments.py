"""A journal's file as whoever died left it: a torn end is what a kill leaves, anything else that is unsound is damage.

A writer hands each frame to the kernel in one call. So what is cut off is the last frame alone. Where a frame is there
in whole and does not fit its checksum, or a sound one follows, bytes have changed since.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from ..agent.journal import HEADER, MAX_FRAME_BYTES, SEGMENT_BYTES, decode_columns, open_regular

_ZLIB = b"\x78\x01"  # how a payload begins
_MOST_BYTES = SEGMENT_BYTES + MAX_FRAME_BYTES  # that a segment of ours has
Columns = dict[str, list[Any]]


class Unread(NamedTuple):
    """What could not be read of a file. ``damaged_at``: the byte from which it is damaged; None: its end is torn."""

    bytes: int
    damaged_at: int | None


def segments(journal: Path) -> list[Path]:
    """The journal files, a writer's in order."""
    return sorted(journal.glob("*.jnl"))


def read_segment(path: Path) -> Generator[tuple[str, Columns], None, Unread]:
    """Yield the blocks of all sound frames, those behind a damaged one too; returns what was not read.

    A file that grows meanwhile is read as far as it reached at the beginning. **Errors** OSError.
    """
    with os.fdopen(open_regular(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        offset = unread = 0
        damaged_at = None
        while offset < size:
            stream.seek(offset)
            frame = stream.read(min(HEADER.size, size - offset))
            if len(frame) == HEADER.size:
                length, crc = HEADER.unpack(frame)
                if length <= min(MAX_FRAME_BYTES, size - offset - HEADER.size):
                    payload = stream.read(length)
                    if zlib.crc32(payload) == crc:
                        try:
                            table, columns = decode_columns(payload)
                            block = table, _of_one_length(columns)
                        except Exception:  # sound, but no block: what it is instead, nobody can say
                            unread += size - offset
                            break
                        yield block
                        offset += HEADER.size + length
                        continue
            stream.seek(offset)
            rest = stream.read(min(size - offset, _MOST_BYTES))
            skipped = _to_next(rest)
            if damaged_at is None and (skipped is not None or _is_whole(rest)):
                damaged_at = offset
            unread += size - offset if skipped is None else skipped
            offset = size if skipped is None else offset + skipped
        return Unread(unread, damaged_at)


def _of_one_length(columns: Columns) -> Columns:
    """As they are, but for what a foreign writer left over."""
    lengths = {len(values) for values in columns.values()}
    return columns if len(lengths) < 2 else {name: values[: min(lengths)] for name, values in columns.items()}


def _to_next(rest: bytes) -> int | None:
    """How far it is to the next sound frame; None: there is none."""
    at = rest.find(_ZLIB, HEADER.size + 1)
    while at >= 0:
        length, crc = HEADER.unpack_from(rest, at - HEADER.size)
        if 0 < length <= len(rest) - at and zlib.crc32(memoryview(rest)[at : at + length]) == crc:
            return at - HEADER.size
        at = rest.find(_ZLIB, at + 1)
    return None


def _is_whole(rest: bytes) -> bool:
    """Whether an unsound frame lacks nothing: by its length, or where that is what was changed, by its end."""
    if len(rest) < HEADER.size or not any(rest[: HEADER.size]):
        return False  # zeros: a machine that lost its power had not written more
    length, _ = HEADER.unpack_from(rest)
    if length <= len(rest) - HEADER.size:
        return True
    stream, data = zlib.decompressobj(), rest[HEADER.size :]
    try:
        while data and not stream.eof:
            stream.decompress(data, 1 << 20)
            data = stream.unconsumed_tail
    except zlib.error:
        return False
    return stream.eof
