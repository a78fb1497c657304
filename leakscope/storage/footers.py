"""The footers of many recordings, each from the last bytes of its file alone: for an index of a bucket.

A parquet footer lists every column of every row group, 50 KB a group, and what leakscope writes comes behind all that.
So it is looked for from the end: pyarrow takes 2 ms to read such a footer, this takes 0.1 ms, and of a recording of a
day the last 128 KB are enough, where the whole footer has 3 MB.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import UnreadableRecording
from . import seal
from .meta import FOOTER_KEY, meta_of_footer
from .varints import text_at

# What leakscope wrote, and behind it Arrow's schema: 69 KB for 276 columns, each with its unit and meaning.
TAIL_BYTES = 128 * 1024
_MAGIC = b"PAR1"
_END_BYTES = 8  # length of the footer, and the magic bytes


class NotARecording(UnreadableRecording):
    """A parquet file that leakscope did not write."""


class Footer(NamedTuple):
    """``said``: what leakscope wrote there. ``columns_id``: the same for files that have the same columns."""

    said: dict[str, Any]
    columns_id: int


def bytes_needed(tail: bytes, size_bytes: int) -> int:
    """How many of the last bytes of a file hold its footer; ``tail`` is as many as were read."""
    whole = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if tail[-4:] != _MAGIC or whole <= len(tail) or _value(tail, FOOTER_KEY) is not None:
        return min(len(tail), size_bytes)
    return min(whole, size_bytes)


def footer(tail: bytes, size_bytes: int, where: object) -> Footer:
    """Of the last bytes of a file, as many as ``bytes_needed`` says.

    **Errors** NotARecording for others' parquet; UnreadableRecording with one line that says what is wrong.
    """
    if size_bytes == 0:
        raise UnreadableRecording(f"{where} is empty (0 bytes): the disk was full or the copy failed; copy it again")
    if size_bytes < len(_MAGIC) + _END_BYTES or tail[-4:] != _MAGIC:
        raise UnreadableRecording(f"{where} is truncated at {size_bytes:,} bytes: its end is missing; copy it again")
    raw = _value(tail, FOOTER_KEY)
    if raw is None:
        raw, columns = _by_pyarrow(tail, where)
    else:
        columns = _value(tail, "ARROW:schema") or b""
        seal.check_said(tail, size_bytes, raw, where)
    return Footer(meta_of_footer(raw, where), zlib.crc32(columns))


def _value(tail: bytes, key: str) -> bytes | None:
    """The text under a key, as thrift's compact protocol writes a pair: 0x18, length, key, 0x18, length, text.

    No text in front of it can be taken for it: JSON and base64 have no byte 0x18, and the last match counts.
    """
    name = key.encode()
    mark = b"\x18" + bytes([len(name)]) + name + b"\x18"
    at = tail.rfind(mark)
    if at < 0:
        return None
    try:
        return text_at(tail, at + len(mark))[0]
    except ValueError:
        return None


def _by_pyarrow(tail: bytes, where: object) -> tuple[bytes, bytes]:
    """The footer's values where another program wrote the file anew, in another order."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + tail))
    except (OSError, pa.ArrowException) as error:
        raise UnreadableRecording(f"{where} is damaged: its parquet footer cannot be read; copy it again") from error
    raw = (metadata.metadata or {}).get(FOOTER_KEY.encode())
    if raw is None:
        raise NotARecording(f"{where} is a parquet file, but not a recording: leakscope did not write it")
    return raw, "\0".join(metadata.schema.names).encode()
