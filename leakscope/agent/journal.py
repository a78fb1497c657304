"""Append-only journal: CRC-framed, compressed blocks of rows. Runs in the job and in the recorder.

Standard library only, Python 3.8+. A frame is ``<u32 payload length><u32 crc32 of payload><payload>`` (little endian),
the payload is zlib(JSON) of one block::

    {"t": table, "n": row count, "c": {column: [value, ...]}, "d": [columns stored as differences]}

Rows are sorted by process inside a block and integer columns without nulls are stored as differences from the row
before, which makes a day of samples 2.4 times smaller than one JSON object a row. A writer owns its file alone,
opens it with O_APPEND and hands each frame to the kernel in one write(2): what write returned survives SIGKILL of
everybody. A reader stops at the first frame that is short or fails its CRC.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import time
import zlib
from time import clock_gettime_ns, time_ns

from . import plain_json
from .masking import Masker

if sys.platform != "win32":
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence
    from typing import Any

HEADER = struct.Struct("<II")
SEGMENT_BYTES = 8 * 1024 * 1024  # a new file is begun above this, so that a damaged one costs little


def flag(name: str) -> int:
    """Windows, where recordings are read alone, has not all of them."""
    found: int = getattr(os, name, 0)
    return found


_OURS = flag("O_NOFOLLOW") | flag("O_CLOEXEC") | flag("O_BINARY")
_READ = os.O_RDONLY | flag("O_NONBLOCK") | flag("O_NOCTTY") | _OURS
NEW_FILE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | flag("O_NOFOLLOW")  # only ever a new one
LEAST_FD = 200  # the job's own files keep the low numbers that they would have
_HEAD_BYTES = 64  # of a block: the name of its table comes first
MAX_FRAME_BYTES = 64 * 1024 * 1024  # a longer length field is damage, not data
MAX_BLOCK_BYTES = 256 * 1024 * 1024  # what a frame may swell to: zlib shrinks zeros a thousandfold
MAX_BLOCK_VALUES = 8 * 1000 * 1000  # and each "[]," of it to 64 bytes; three times what ours may have
GPU_SNAPSHOT = ".gpu.pickle"  # of a file that torch wrote: its memory snapshot
WHOLE_HEAP = ".graph"  # of a file with a whole graph of the heap
WHOLE_HEAP_MAGIC = b"LSGRAPH1"  # then the bytes of a header in JSON (64 bits), the header, the columns
REQUEST_TAKE = "request-take"  # a file that asks every agent for a snapshot
FOR_ALL = "full-heap"  # how its text begins where the whole graph of the heap is asked for


def request_name(pid: int, start_ticks: int) -> str:
    """The file that asks one process alone."""
    return f"{REQUEST_TAKE}-{pid}-{start_ticks}"


def encode_block(table: str, rows: Sequence[dict[str, Any]]) -> bytes:
    """One frame of rows (dicts keyed by schema columns, all of one table). **Cost** about 10 us a row of 20 columns."""
    rows = sorted(rows, key=_process_of)
    names = []
    seen = set()
    for row in rows:
        for name in row:
            if name not in seen:
                seen.add(name)
                names.append(name)
    columns = {}
    differences = []
    for name in names:
        values: list[Any] = [row.get(name) for row in rows]
        if len(values) > 1 and all(type(v) is int for v in values):
            values = values[:1] + [b - a for a, b in zip(values, values[1:])]
            differences.append(name)
        columns[name] = values
    block = {"t": table, "n": len(rows), "c": columns, "d": differences}
    text = plain_json.dumps(block)
    payload = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    return HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def _process_of(row: dict[str, Any]) -> Any:
    pid = row.get("pid")
    return pid if type(pid) is int else 0


def decode_payload(payload: bytes) -> tuple[str, list[dict[str, Any]]]:
    """(table, rows) of one verified payload. **Errors** any Exception if it is not a block."""
    table, columns = decode_columns(payload)
    return table, rows_of(columns)


def rows_of(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    names = list(columns)
    return [dict(zip(names, row)) for row in zip(*columns.values())]


def decode_columns(payload: bytes) -> tuple[str, dict[str, list[Any]]]:
    """(table, columns) of one verified payload. **Errors** any Exception if it is not a block."""
    decompressor = zlib.decompressobj()
    text = decompressor.decompress(payload, MAX_BLOCK_BYTES)
    if not decompressor.eof:
        raise ValueError("cut short, or longer than any block of ours")
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_BLOCK_VALUES:
        raise ValueError("of more values than any block of ours")
    block = plain_json.loads(text.decode("utf-8", "surrogatepass"))
    columns = block["c"]
    for name in block["d"]:
        values = columns[name]
        for i in range(1, len(values)):
            values[i] += values[i - 1]
    return block["t"], columns


def read_blocks(
    path: str | os.PathLike[str], tables: Collection[str] = ()
) -> Generator[tuple[str, list[dict[str, Any]]], None, int]:
    """Yield (table, rows) of each sound frame; returns (StopIteration value) how many bytes at the end were not.

    A file that grows meanwhile is read as far as it reached at the beginning. ``tables``: the others are passed by.
    """
    begins = tuple(f'{{"t":"{table}",'.encode() for table in tables)
    with os.fdopen(open_regular(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        offset = 0
        while True:
            header = stream.read(HEADER.size)
            if len(header) < HEADER.size:
                break
            length, crc = HEADER.unpack(header)
            if length > min(MAX_FRAME_BYTES, size - offset - HEADER.size):
                break
            payload = stream.read(length)
            if len(payload) < length or zlib.crc32(payload) != crc:
                break
            try:
                is_wanted = not begins or zlib.decompressobj().decompress(payload, _HEAD_BYTES).startswith(begins)
                block = decode_payload(payload) if is_wanted else None
            except Exception:  # sound, but no block: what it is instead, nobody can say
                break
            if block is not None:
                yield block
            offset += HEADER.size + length
    return size - offset


def stamps() -> dict[str, int | None]:
    """This moment by each clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return {
        "time_unix_ns": time_ns(),
        "time_mono_ns": clock_gettime_ns(time.CLOCK_MONOTONIC),
        "time_boot_ns": None if boot is None else clock_gettime_ns(boot),
    }


class NotOurs(OSError):
    """The path exists, but is not a recording's file, or belongs to another user."""


def create(path: str | os.PathLike[str], flags: int = NEW_FILE) -> int:
    """A descriptor of a new file that only its owner can read; what is there already stays. **Errors** OSError."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | _OURS, 0o600)


def create_high(path: str) -> int:
    return high(create(path))


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor to read from; a fifo keeps nobody waiting. **Errors** NotOurs, OSError."""
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise NotOurs(errno.EINVAL, _NOT_REGULAR, path) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        reason = _NOT_REGULAR
    elif not is_trusted(status.st_uid):
        reason = f"it belongs to another user ({status.st_uid}): copy the recording to read it"
    else:
        return descriptor
    os.close(descriptor)
    raise NotOurs(errno.EPERM, reason, path)


_HAS_USERS = hasattr(os, "geteuid")
_NOT_REGULAR = "it is not a regular file: remove it"


def is_trusted(uid: int) -> bool:
    """Whether files of this user are taken for a recording's: our own and root's; root reads everybody's."""
    return not _HAS_USERS or os.geteuid() in (0, uid) or uid == 0


def is_there(folder: str) -> bool:
    """Whether the folder is there and nobody else made it: one in /tmp may be made again by others when it is gone."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and is_trusted(status.st_uid)


def high(descriptor: int) -> int:
    """Moves a file to a number that the job does not come to: its own files get those they always had."""
    if sys.platform == "win32":
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LEAST_FD)
    except OSError:  # so many are not allowed
        return os.dup(descriptor)
    finally:
        os.close(descriptor)


def identity(descriptor: int) -> tuple[int, int] | None:
    """Which file it stands for; None if it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def close(descriptor: int, file: tuple[int, int] | None) -> None:
    """Close it if it still stands for this file."""
    if identity(descriptor) == file:
        os.close(descriptor)


class Journal:
    """One writer's files ``<stem>-000001.jnl``, ``-000002``, …: collect rows, hand them over as frames.

    **Errors** OSError from ``flush`` when the disk is full or the folder is gone: the rows of that flush are dropped,
    the file is cut back to its last whole frame, and the caller decides what to tell whom.

    No secret enters: ``masker`` cleans every row as it is flushed. None: one with a salt of its own. ``create(path)``
    gives the descriptor of a new file. ``give_way()`` is called between two rows or frames.
    """

    def __init__(
        self,
        folder: str,
        stem: str,
        masker: Masker | None = None,
        create: Callable[[str], int] = create_high,
        give_way: Callable[[], object] | None = None,
    ) -> None:
        self._folder = folder
        self._stem = stem
        self._create = create
        self._give_way = give_way
        self._masker = Masker() if masker is None else masker
        self._segment = 0
        self._path = ""
        self._fd = -1
        self._file: tuple[int, int] | None = None  # what the descriptor stood for when it was opened
        self._size = 0
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self.written_bytes = 0

    def add(self, table: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def flush(self) -> None:
        """Write what was added since the last flush, one frame per table. What goes wrong with its rows costs these."""
        rows, self._rows = self._rows, {}
        failed: Exception | None = None
        for table, table_rows in rows.items():
            cleaned = []
            try:
                for row in table_rows:
                    masked = self._masker.row(table, row)
                    if masked is not None:
                        cleaned.append(masked)
                    if self._give_way is not None:
                        self._give_way()
                frame = encode_block(table, cleaned) if cleaned else b""
            except Exception as error:
                failed = error
            else:
                if frame:
                    self._write(frame)
        if failed is not None:
            raise failed

    def to_append(self, table: str, rows: Sequence[dict[str, Any]]) -> tuple[str, bytes]:
        """(file, bytes) for a caller that appends these (already masked) rows later. **Errors** OSError."""
        if not self._is_open():
            self._next_segment()
        return self._path, encode_block(table, rows)

    def sync(self) -> None:
        """Make written frames survive a panic or power loss (4 ms or more): SIGKILL never needs it."""
        if self._is_open():
            os.fdatasync(self._fd)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without writing: in a forked child, whose parent owns the rows and the file."""
        self._rows = {}
        self._close()

    def _is_open(self) -> bool:
        """Daemons close every descriptor they find, and the number is soon that of a file of the job's: not to touch.

        **Cost** 1 us.
        """
        if self._fd >= 0 and identity(self._fd) != self._file:
            self._fd = -1
        return self._fd >= 0

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close(fd, self._file)

    def _write(self, frame: bytes) -> None:
        if not self._is_open() or self._size > SEGMENT_BYTES:
            self._next_segment()
        try:
            written = os.write(self._fd, frame)
        except OSError:
            self._cut_back()
            raise
        if written < len(frame):  # disk full in mid-frame: a torn frame would hide all that follows it
            self._cut_back()
            raise OSError(28, "No space left on device")
        self._size += written
        self.written_bytes += written

    def _cut_back(self) -> None:
        try:
            if self._is_open():
                os.ftruncate(self._fd, self._size)
        except OSError:
            self.abandon()  # the next flush begins a new segment

    def _next_segment(self) -> None:
        self._close()
        descriptor = None
        while descriptor is None:
            self._segment += 1
            self._path = os.path.join(self._folder, f"{self._stem}-{self._segment:06d}.jnl")
            try:
                descriptor = self._create(self._path)
            except FileExistsError:
                pass  # of the program that this process was before it called exec
        self._fd = descriptor
        self._file = identity(self._fd)
        self._size = 0
