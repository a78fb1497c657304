"""What is in a large container of records, as a few hashes: the same rows show alike in whatever form they are held.

Runs in the job, at the end of a walk. A dozen rows are looked at: the first and last four, which also tell a part from
the whole, and four between them. Of their text only checksums of three consecutive words are kept, so that a formatted
string contains most hashes of the record it was made from, and no text leaves the process.

A sketch is a JSON list with one list a row: ``[position, size, address, hash, ...]``. ``size`` is the length of its
text, or of its longest list of integers where there is none; rows of two containers with one ``address`` are
the same memory: a second list of the same objects is no copy. **Cost** 0.1 to 0.3 ms a container.
"""

from __future__ import annotations

import struct
import sys
from _collections import OrderedDict, defaultdict, deque
from itertools import islice
from types import MappingProxyType
from zlib import crc32

from .. import plain_json
from ..interpreter import files, names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LEAST_ROWS = 1000
LEAST_BYTES = 4 * 1024 * 1024  # a smaller container is nobody's problem, however often it is copied
RECORDS, STRINGS, TOKEN_IDS, INTEGERS = "records", "strings", "token-ids", "integers"
ARROW, ARROW_MAPPED = "arrow-table", "arrow-mapped"
_AT_ENDS = 4  # rows at either end, and between them
_DEPTH = 3
_MOST_VALUES = 48  # of a row, at each depth
_MOST_TEXT = 4000  # characters of a string that are read
_ALL_WORDS = 60  # a longer text is thinned out by what its words are, not where they stand
_LONG_WORD = 40  # bytes; longer ones are scripts without spaces, or codes
_SHINGLE = 16
_MOST_HASHES = 24  # of a row: the smallest, so that two rows keep the same ones
_MOST_COLUMNS = 64
_MOST_INTEGERS = 512
_LEAST_DISTINCT = 100  # ids of a vocabulary; tags and classes of words are fewer
_LEAST_CHARACTERS = 8  # of an alphabet; masks and most classes are fewer
INTEGER_TYPES = ("uint8", "int8", "int16", "int32", "int64")
_TOKEN_KEYS = frozenset(("input_ids", "token_ids", "tokens", "ids"))
_DICTS = names.ids_of(dict, OrderedDict, defaultdict)
_LISTS = names.ids_of(list, tuple)


def row_count(obj: Any) -> int:
    """Rows of a container that may be a data set; 0 for anything else, and for fewer than LEAST_ROWS."""
    kind = type(obj)
    length = 0
    if id(kind) in _LISTS or kind is deque:
        length = len(obj)
    elif id(kind) in _DICTS:
        length = dict.__len__(obj)
    elif kind is _numpy_array():
        shape = kind.shape.__get__(obj)
        length = max(shape) if shape else 0
    elif kind is _arrow("Table"):
        length = kind.num_rows.__get__(obj)
    elif kind is _arrow("ChunkedArray"):
        length = kind.length(obj)
    return length if length >= LEAST_ROWS else 0


def sketch(obj: Any, length: int) -> tuple[str, str] | None:
    """(data form, sketch) of a container of ``length`` rows; None where its rows hold neither text nor token ids."""
    if length < LEAST_ROWS:
        return None
    try:
        return _sketch(obj, length)
    except Exception as error:
        if names.is_foreign(error):
            raise
        return None  # a container that changed under us, a broken library


def sketch_of_copy(
    copy: bytes, tensors: Mapping[int, tuple[int, int]] = MappingProxyType({})
) -> tuple[int, str, str] | None:
    """(rows, data form, sketch) of a container of which reader.c has copied some rows.

    ``tensors``: {address of a tensor of integers: (how many dimensions it has, length of the last)}.
    """
    values = _Copied(copy, tensors)
    length = values.number()
    form = None
    rows = []
    for _ in range(values.number()):
        position, address = values.number(), values.number()
        form = form or (STRINGS if values.letter() in b"TB" else RECORDS)
        row = _Row()
        row.read_copied(values)
        rows.append((position, row, address or row.address))
    found = _told(rows, form or RECORDS)
    return None if found is None else (length, *found)


def _sketch(obj: Any, length: int) -> tuple[str, str] | None:
    rows = []
    form: Any = None
    address = None
    for position, value, address in _rows_of(obj, length):
        row = _Row()
        row.read(value, 0)
        form = form or (STRINGS if type(value) is str or type(value) is bytes else RECORDS)
        rows.append((position, row, row.address if address is None else address))
    found = _told(rows, form)
    if found is None:
        return None
    if type(obj) is _arrow("Table") or type(obj) is _arrow("ChunkedArray"):
        if _is_mapped(rows[0][2]):
            return _told(rows, ARROW_MAPPED, is_certain=True)
        if found[0] not in (TOKEN_IDS, INTEGERS):
            return _told(rows, ARROW)
    return found


def _told(rows: list[tuple[int, _Row, int]], form: str, is_certain: bool = False) -> tuple[str, str] | None:
    if not any(row.hashes for _, row, _ in rows) and not is_certain:
        ids = {one for _, row, _ in rows for one in row.ids}
        is_named = any(row.has_token_key for _, row, _ in rows)
        found = _form_of_integers([row for _, row, _ in rows], is_named, len(ids))
        if found is None:
            return None
        form = found
    lists = [[position, row.size_as(form), place] + sorted(row.hashes)[:_MOST_HASHES] for position, row, place in rows]
    return form, plain_json.dumps(lists)


def _form_of_integers(rows: list[_Row], is_named: bool, distinct: int) -> str | None:
    """TOKEN_IDS, INTEGERS that may be the characters of a text, or None. Those of tensors are not read."""
    if not any(row.integers for row in rows):
        return None
    if is_named or distinct >= _LEAST_DISTINCT:
        return TOKEN_IDS
    return INTEGERS if distinct >= _LEAST_CHARACTERS or not distinct else None


# ---- rows of a container


def _rows_of(obj: Any, length: int) -> Sequence[tuple[int, Any, int | None]]:
    """(position, row, address or None) of the rows looked at."""
    kind = type(obj)
    positions = list(range(_AT_ENDS))
    positions += [length * part // (_AT_ENDS + 1) for part in range(1, _AT_ENDS + 1)]
    positions += range(length - _AT_ENDS, length)
    if id(kind) in _LISTS:
        return [(position, row, None) for position in positions for row in reading.items_at(kind, obj, [position])]
    if id(kind) in _DICTS or kind is deque:  # only the ends can be had without going through all of it
        base = deque if kind is deque else dict
        ends = list(islice(reading.iterator(base, obj), _AT_ENDS))
        ends += list(islice(reading.backwards(base, obj) or (), _AT_ENDS))[::-1]
        return list(zip(positions[:_AT_ENDS] + positions[-_AT_ENDS:], ends, [None] * len(ends)))
    if kind is _numpy_array():
        return _rows_of_array(kind, obj, positions)
    return _rows_of_table(kind, obj, positions)


def _rows_of_array(kind: Any, obj: Any, positions: list[int]) -> list[tuple[int, Any, int | None]]:
    """Of an array of strings or objects, its cells or, in two dimensions, what stands beside or below each other."""
    shape = kind.shape.__get__(obj)
    dtype = kind.dtype.__get__(obj)
    if len(shape) == 2 and dtype.kind in "iu" and dtype.itemsize > 1 and shape[0] == max(shape):
        return [(at, kind.tolist(kind.__getitem__(obj, at)), id(obj) + at) for at in positions]
    if dtype.kind not in "OUS" or len(shape) > 2:
        return []
    # Cells that are made for us have no address of their own; objects in the array do.
    own = None if dtype.kind == "O" else id(obj)
    if len(shape) == 1:
        return [(at, cell, own) for at in positions for cell in _cells(kind, obj, [at])]
    others = range(min(min(shape), _MOST_COLUMNS))
    width = shape[1]
    if width >= shape[0]:  # a block of pandas: one column a line
        return [(at, _cells(kind, obj, [other * width + at for other in others]), own) for at in positions]
    return [(at, _cells(kind, obj, [at * width + other for other in others]), own) for at in positions]


def _cells(kind: Any, obj: Any, positions: list[int]) -> list[Any]:
    if kind.dtype.__get__(obj).kind == "O":
        return reading.items_of_array(kind, obj, positions)
    return [kind.item(obj, position) for position in positions]


def _rows_of_table(kind: Any, table: Any, positions: list[int]) -> list[tuple[int, Any, int | None]]:
    found: list[tuple[int, Any, int | None]] = []
    for position in positions:
        part = kind.slice(table, position, 1)
        found.append((position, kind.to_pylist(part)[0], _address(part)))
    return found


def _address(part: Any) -> int:
    """Where one row of Arrow data is: the largest buffer below it (the text of its longest column), and which row."""
    found = (0, 0)
    for column in (part,) if type(part) is _arrow("ChunkedArray") else part.columns[:_MOST_COLUMNS]:
        for chunk in column.chunks[:1]:
            for buffer in chunk.buffers():
                if buffer is not None:
                    found = max(found, (buffer.size, buffer.address + chunk.offset))
    return found[1]


def _is_mapped(address: int) -> bool:
    """Data of a memory-mapped file is page cache, not memory of the process. **Cost** 1 ms: reads the maps."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace", opener=files.open_high) as stream:
        for line in stream:
            start, _, end = line.split(" ", 1)[0].partition("-")
            if int(start, 16) <= address < int(end, 16):
                fields = line.split(None, 5)
                return len(fields) == 6 and fields[5].startswith("/") and not fields[5].startswith("/dev/shm/")
    return False


def _arrow(name: str) -> Any:
    return names.getattr_plain(sys.modules.get("pyarrow.lib"), name)


def _array() -> Any:
    return names.getattr_plain(sys.modules.get("array"), "array")


def _numpy_array() -> Any:
    return names.getattr_plain(sys.modules.get("numpy"), "ndarray")


# ---- one row


class _Copied:
    """Values as reader.c writes them: see copy_value there."""

    _NUMBER = struct.Struct("<Q")

    def __init__(self, data: bytes, tensors: Mapping[int, tuple[int, int]]) -> None:
        self._data = data
        self.tensors = tensors
        self._at = 0

    def letter(self) -> bytes:
        """Of what comes next."""
        return self._data[self._at : self._at + 1]

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        (number,) = self._NUMBER.unpack(self.take(8))
        return int(number)

    def integers(self, count: int) -> list[int | None]:
        """None: what is no integer."""
        numbers = struct.unpack("<%dq" % count, self.take(8 * count))
        return [None if number == _NO_INTEGER else number for number in numbers]


_NO_INTEGER = -(1 << 63)


class _Row:
    """What a row holds: hashes of its text, how much of it, its integers, and where the longest of it lies."""

    __slots__ = ("hashes", "size", "integers", "length", "ids", "has_token_key", "address", "_longest")

    def __init__(self) -> None:
        self.hashes: set[int] = set()
        self.size = 0
        self.integers = 0
        self.length = 0  # of its integers with their padding
        self.ids: list[int] = []
        self.has_token_key = False
        self.address = 0
        self._longest = 0

    def size_as(self, form: str) -> int:
        return {TOKEN_IDS: self.integers, INTEGERS: self.length}.get(form, self.size)

    def read(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str:
            self._read_text(id(value), len(value), value[:_MOST_TEXT].encode("utf-8", "replace"))
        elif kind is bytes:
            self._read_bytes(id(value), len(value), value[:_MOST_TEXT], value[-64:])
        elif depth <= _DEPTH:
            self._read_container(value, kind, depth)

    def read_copied(self, values: _Copied, most_dimensions: int = 1) -> None:
        """The next of them. It is as deep as it was copied."""
        letter = values.take(1)
        if letter in b"TB":
            address, length = values.number(), values.number()
            text = values.take(values.number())
            if letter == b"T":
                self._read_text(address, length, text.decode("utf-8", "surrogatepass").encode("utf-8", "replace"))
            else:
                self._read_bytes(address, length, text, values.take(values.number()))
        elif letter == b"I":
            address, length = values.number(), values.number()
            self._note_integers(address, length, values.integers(values.number()))
        elif letter == b"L":
            for _ in range(values.number()):
                self.read_copied(values)
        elif letter == b"D":
            for _ in range(values.number()):
                has_token_key = values.take(1) != b"\0" and not self.hashes
                self.has_token_key |= has_token_key
                self.read_copied(values, 2 if has_token_key else 1)
        elif letter == b"X":
            address = values.number()
            dimensions, length = values.tensors.get(address, (0, 0))
            if 1 <= dimensions <= most_dimensions:
                self._note_tensor(address, length)

    def _read_text(self, address: int, length: int, text: bytes) -> None:
        self._note(address, length)
        self.hashes.update(hashes_of(text))

    def _read_bytes(self, address: int, length: int, begin: bytes, end: bytes) -> None:
        if begin.isascii():
            self._read_text(address, length, begin)
        else:  # an image, a sound: what differs between two of them is the end
            self._note(address, length)
            self.hashes.add(crc32(end))

    def _note(self, address: int, length: int) -> None:
        self.size += length
        if length > self._longest:
            self._longest = length
            self.address = address

    def _read_container(self, value: Any, kind: Any, depth: int) -> None:
        if self._read_integers(value, kind) or self._read_tensor(value):
            return
        base = reading.base_of(kind)
        if base is dict:
            for key, item in reading.pairs(value, _MOST_VALUES):
                if type(key) is str and key in _TOKEN_KEYS and not self.hashes:
                    self.has_token_key = True
                    self._read_tensor(item, most_dimensions=2)
                self.read(item, depth + 1)
        elif base is list or base is tuple:
            for item in reading.items_at(base, value, range(_MOST_VALUES)):
                self.read(item, depth + 1)
        elif not names.is_written_in_c(kind):
            attributes = reading.attributes_of(value)
            if attributes is not None:
                self.read(attributes, depth + 1)

    def _read_integers(self, value: Any, kind: Any) -> bool:
        if id(kind) in _LISTS:
            length = len(value)
            ends = reading.items_at(kind, value, [0, length - 1]) if length >= 2 else []
            if len(ends) < 2 or type(ends[0]) is not int or type(ends[1]) is not int:
                return False
            integers = reading.items_at(kind, value, range(min(length, _MOST_INTEGERS)))
        elif kind is _array() and names.has_item_type(kind, value) and value.typecode in "hHiIlLqQ":
            integers = value[:_MOST_INTEGERS].tolist()
        elif kind is _numpy_array():
            if kind.ndim.__get__(value) != 1 or kind.dtype.__get__(value).kind not in "iu":
                return False
            integers = kind.tolist(kind.__getitem__(value, slice(_MOST_INTEGERS)))
        else:
            return False
        self._note_integers(id(value), len(value), integers)
        return True

    def _note_integers(self, address: int, count: int, integers: list[Any]) -> None:
        length = count if count > _MOST_INTEGERS else _unpadded(integers)
        if length > self.integers:
            self.integers = length
            self.length = count
            self.ids = [item for item in integers if type(item) is int]
            if not self._longest:
                self.address = address

    def _read_tensor(self, value: Any, most_dimensions: int = 1) -> bool:
        """Integers as a tensor: only how many there are."""
        torch = sys.modules.get("torch")
        tensor = names.getattr_plain(torch, "Tensor")
        guard = names.getattr_plain(names.getattr_plain(torch, "_C"), "DisableTorchFunction")
        if tensor is None or guard is None or type(value) is not tensor:
            return False
        with guard():
            dtype = tensor.dtype.__get__(value)
            is_read = 1 <= tensor.dim(value) <= most_dimensions
            if is_read and any(dtype is names.getattr_plain(torch, name) for name in INTEGER_TYPES):
                self._note_tensor(id(value), tensor.size(value)[-1])
        return True

    def _note_tensor(self, address: int, length: int) -> None:
        self.integers = self.length = max(self.integers, length)
        self.address = self.address or address


def _unpadded(integers: list[Any]) -> int:
    """The length without what is repeated at the end, or else at the start."""
    for ordered in (integers[::-1], integers):
        run = 1
        while run < len(ordered) and ordered[run] == ordered[0]:
            run += 1
        if run > 1:
            return len(ordered) - run
    return len(integers)


def hashes_of(text: bytes) -> list[int]:
    """Checksums of every three consecutive words of a text (bytes); of a text of one or two words, of all of it.

    A long text is thinned out by the last letter of the first word of three: what stands around it does not change
    which ones are kept.
    """
    words = text.lower().split()
    if not words:
        return []
    long_words = [word for word in words if len(word) > _LONG_WORD]
    hashes = []
    for word in long_words[:4]:
        word = word[: 8 * _SHINGLE]
        hashes += [crc32(word[i : i + _SHINGLE]) for i in range(len(word) - _SHINGLE + 1)]
    if len(words) < 3:
        return hashes or [crc32(b" ".join(words))]
    starts: Sequence[int] = range(len(words) - 2)
    if len(words) > _ALL_WORDS:
        starts = [i for i in starts if not words[i][-1] & 3] or starts[:_ALL_WORDS]
    hashes += [crc32(b" ".join(words[i : i + 3])) for i in starts]
    return hashes
