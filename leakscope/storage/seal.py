"""The seal of a parquet file of ours: checksums by which a flipped byte is noticed wherever it is.

Pages have checksums of parquet's own. They cover neither the heads of pages nor the footer, and are asked for only
where a page is read. So the footer has a key more, written over in place when all else is there:

    leakscope.seal = "<body> <footer> <said> <size>"    hexadecimal digits, always as many

the CRC-32 of all bytes before the footer; of the footer, with zeros in place of the seal; of what leakscope says there,
for who reads no more than that of a file that is elsewhere; and the bytes of the whole file. A file of another size was
written anew by another program, which kept our keys: then the seal is not of this file, and says nothing of it. A file
without a seal is of an older version.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..errors import UnreadableRecording

if TYPE_CHECKING:
    import pyarrow.parquet as pq

KEY = "leakscope.seal"
_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # the footer's length, and PAR1
_AT_ONCE = 1 << 20
ZEROS = b"00000000 00000000 00000000 0000000000000000"
_TEXT = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{16})")
_MARK = b"\x18" + bytes([len(KEY)]) + KEY.encode() + b"\x18" + bytes([len(ZEROS)])  # as thrift writes a pair


class _Seal(NamedTuple):
    body: int
    footer: int
    said: int
    size: int


def close(writer: pq.ParquetWriter, stream: BinaryIO, said: Mapping[str, str]) -> None:
    """Close the writer of ``stream``, which can be read and written, with these texts in its footer and a seal.

    ``said`` has one text; the checksum of that is in the seal. **Errors** OSError.
    """
    writer.add_key_value_metadata({**said, KEY: ZEROS.decode()})
    writer.close()
    press(stream, *said.values())


def press(stream: BinaryIO, said: str) -> None:
    """Put the seal where zeros are kept for it, in a whole file that ends where ``stream`` does. **Errors** OSError."""
    stream.flush()
    end = stream.seek(0, os.SEEK_END)
    begin, footer = _footer(stream, end)
    stream.seek(0)
    body = _checksum(stream, begin)
    _write(stream, begin, footer, body, end, said)
    stream.seek(0, os.SEEK_END)


def renewed(footer: bytes, begin: int, body: int, said: str) -> bytes:
    """A footer with the seal that fits it, behind a body of ``begin`` bytes whose checksum is known."""
    stream = io.BytesIO(footer)
    _write(stream, 0, footer, body, begin + len(footer), said)
    return stream.getvalue()


def _write(stream: BinaryIO, begin: int, footer: bytes, body: int, size: int, said: str) -> None:
    text = f"{body:08x} {zlib.crc32(_blank(footer)):08x} {zlib.crc32(said.encode()):08x} {size:016x}"
    stream.seek(begin + footer.rindex(_MARK) + len(_MARK))
    stream.write(text.encode())


def check(stream: BinaryIO, where: object, whole: bool = True) -> int | None:
    """Hold a file to its seal; returns the checksum of its body, None where it has no seal.

    ``whole``: all of it, else the footer alone. **Errors** UnreadableRecording if it is damaged, OSError. **Cost** 1 s
    for each 1.5 GB.
    """
    end = stream.seek(0, os.SEEK_END)
    begin, footer = _footer(stream, end)
    seal = _read(footer, where)
    if seal is None:
        return None
    is_sound = zlib.crc32(_blank(footer)) == seal.footer
    if seal.size != end and not is_sound:
        return None  # it is that of another file
    if seal.size != end or not is_sound:
        raise damaged(where)
    stream.seek(0)
    if whole and _checksum(stream, begin) != seal.body:
        raise damaged(where)
    return seal.body


def check_file(path: Path, whole: bool = True) -> int | None:
    """Like ``check``, for a file on this computer."""
    with open(path, "rb") as stream:
        return check(stream, path, whole)


def check_said(tail: bytes, size: int, said: bytes, where: object) -> None:
    """Hold what leakscope says in the footer to the seal, by the last bytes. **Errors** UnreadableRecording."""
    seal = _read(tail, where)
    if seal is not None and seal.size == size and zlib.crc32(said) != seal.said:
        raise damaged(where)


def damaged(where: object) -> UnreadableRecording:
    return UnreadableRecording(f"{where} is damaged: it does not have the bytes that were written; copy it again")


def _read(tail: bytes, where: object) -> _Seal | None:
    """None: there is none. **Errors** UnreadableRecording: not as ours are."""
    at = tail.rfind(_MARK)
    if at < 0:
        if _TEXT.search(tail) is not None:  # the seal is there, and its name is not as it was written
            raise damaged(where)
        return None
    found = _TEXT.match(tail, at + len(_MARK))
    if found is None:
        raise damaged(where)
    return _Seal(*(int(part, 16) for part in found.groups()))


def _blank(footer: bytes) -> bytes:
    """With zeros in place of the seal."""
    at = footer.rindex(_MARK) + len(_MARK)
    return footer[:at] + ZEROS + footer[at + len(ZEROS) :]


def _footer(stream: BinaryIO, end: int) -> tuple[int, bytes]:
    """Where it begins, and all that is from there to the end."""
    stream.seek(max(0, end - _TAIL_BYTES))
    tail = stream.read(_TAIL_BYTES)
    begin = end - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or begin < len(_MAGIC):
        return end, b""
    stream.seek(begin)
    return begin, stream.read(end - begin)


def _checksum(stream: BinaryIO, length: int) -> int:
    found = 0
    while length > 0 and (part := stream.read(min(_AT_ONCE, length))):
        found = zlib.crc32(part, found)
        length -= len(part)
    return found


def opened(source: Any) -> pq.ParquetFile:
    """A parquet file whose pages are held to their checksums as they are read, where they have some."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, page_checksum_verification=True)
