"""What is in a large container of records, as a few hashes: the same rows show alike in whatever form they are held.

Runs in the job, after a snapshot, on the agent's thread. A dozen rows were copied by reader/copies.c: the first and
last four, which also tell a part from the whole, and four between them. Of their text only checksums of three
consecutive words are kept, so that a formatted string contains most hashes of the record it was made from, and no text
leaves the process.

A sketch is a JSON list with one list a row: ``[position, size, address, hash, ...]``. ``size`` is the length of its
text, or of its longest list of integers where there is none; rows of two containers with one ``address`` are
the same memory: a second list of the same objects is no copy. **Cost** 0.1 to 0.3 ms a container.

Of an array of numbers (NUMERIC) it has one list a column: ``[address, ranks, hashes]``. ``ranks`` has a letter for each
of 24 rows spread over all: which place its number has among them, by size, ``-`` for none. Whatever the type, the unit
and the scale are, the same column has the same order; of the numbers themselves nothing is kept. ``hashes`` are of the
first 24 rows, four hexadecimal digits each, by their first digits: these are found again where rows are left out.
**Cost** 0.5 ms an array.

Three things are told of the memory itself: the share of numbers that only fill rows up to one length
(``padded_share``), or that the row before has as well (``repeated_share``), and, of each field of records, how many of
its texts equal others and have memory of their own all the same.
"""

from __future__ import annotations

import struct
from types import MappingProxyType
from zlib import crc32

from .. import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LEAST_BYTES = 4 * 1024 * 1024  # a smaller container is nobody's problem, however often it is copied
RECORDS, STRINGS, TOKEN_IDS, INTEGERS, NUMERIC = "records", "strings", "token-ids", "integers", "numeric"
_ALL_WORDS = 60  # a longer text is thinned out by what its words are, not where they stand
_LONG_WORD = 40  # bytes; longer ones are scripts without spaces, or codes
_SHINGLE = 16
_MOST_HASHES = 24  # of a row: the smallest, so that two rows keep the same ones
_MOST_INTEGERS = 512
_LEAST_DISTINCT = 100  # ids of a vocabulary; tags and classes of words are fewer
_LEAST_CHARACTERS = 8  # of an alphabet; masks and most classes are fewer
LINES = 24  # of an array, that are compared by their order; as many by what they are
ACROSS = 12  # columns of it
_PLACES = "0123456789abcdefghijklmn"
_NONE = "-"
_LEAST_ACROSS = 8  # numbers of a row, that it may be padded; and numbers that are no padding
_FEW = 0.1
INTEGER_TYPES = ("uint8", "int8", "int16", "int32", "int64")


def rows_of_copy(
    copy: bytes, tensors: Mapping[int, tuple[int, int]] = MappingProxyType({})
) -> list[tuple[str, dict[str, Any]]]:
    """(table, columns) of a container of which reader/copies.c has copied some rows.

    ``tensors``: {address of a tensor of integers: (how many dimensions it has, length of the last)}.
    """
    values = _Copied(copy, tensors)
    length, count = values.number(), values.number()
    if copy[32:33] == b"F":
        told = dict(form_of_figures(_copied_figures(values, count)), row_count=length)
        fields = _text_fields(values)
        return [("data_forms", dict(told, repeated_share=_repeated_share(values))), *fields]
    form = None
    rows = []
    for _ in range(count):
        position, address = values.number(), values.number()
        form = form or (STRINGS if values.letter() in b"TB" else RECORDS)
        row = _Row()
        row.read(values)
        rows.append((position, row, address or row.address))
    found = _told(rows, form or RECORDS)
    if found is None:
        return []
    padded = _padded_share([row.numbers for _, row, _ in rows]) if found[0] in (TOKEN_IDS, INTEGERS) else None
    fields = _text_fields(values)
    told = {"data_form": found[0], "content_sketch": found[1], "padded_share": padded, "row_count": length}
    return [("data_forms", dict(told, repeated_share=_repeated_share(values))), *fields]


def _text_fields(values: _Copied) -> list[tuple[str, dict[str, Any]]]:
    names = ("text_count", "own_count", "alone_count", "text_bytes")
    fields = []
    for _ in range(values.number()):
        field = values.name()
        fields.append(("text_fields", dict(zip(names, [values.number() for _ in names]), field=field)))
    return fields


def _repeated_share(values: _Copied) -> float | None:
    """Of each row of numbers, what the row before it has as well, further along: windows of a series."""
    shift, across = values.number(), values.number()
    return 1.0 - shift / float(across) if shift else None


def _told(rows: list[tuple[int, _Row, int]], form: str) -> tuple[str, str] | None:
    if not any(row.hashes for _, row, _ in rows):
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


# ---- numbers


def _copied_figures(values: _Copied, count: int) -> list[tuple[int, list[float]]]:
    columns: list[tuple[int, list[float]]] = []
    for row in range(count):
        values.take(17)  # its position and address, and the letter
        for column in range(values.number()):
            address, figure = values.figure()
            if not row:
                columns.append((address, []))
            columns[column][1].append(figure)
    return columns


def form_of_figures(columns: Sequence[tuple[int, Sequence[float]]]) -> dict[str, Any]:
    """``columns``: (address of the first number, those of the first rows and then of those spread over all)."""
    sketch = [[address, _ranks(figures[LINES:]), "".join(map(_hash, figures[:LINES]))] for address, figures in columns]
    padded = _padded_share(list(zip(*[figures[LINES:] for _, figures in columns])))
    return {"data_form": NUMERIC, "content_sketch": plain_json.dumps(sketch), "padded_share": padded}


def _padded_share(rows: Sequence[Sequence[Any]]) -> float | None:
    """Of rows of numbers, what one number takes that fills them up to a length, at their end or at their start.

    ``rows``: some of them, or in each some places, evenly. None: they are not padded, or too few numbers tell. Numbers
    that only are often the same, as of a mask or a sparse table, stand elsewhere too; and a row that has no other
    number may not have been filled yet.
    """
    shares = []
    rows = [row for row in rows if len(row) >= _LEAST_ACROSS]
    for ordered in ([row[::-1] for row in rows], rows):
        ends = [row[0] for row in ordered]
        fill = max(set(ends), key=ends.count) if ends else None
        runs = [next((i for i, number in enumerate(row) if number != fill), len(row)) for row in ordered]
        used = [(run, row[run:]) for run, row in zip(runs, ordered) if run < len(row)]
        rest = [number for _, others in used for number in others]
        if len({run for run, _ in used}) > 1 and len(rest) >= _LEAST_ACROSS and rest.count(fill) <= _FEW * len(rest):
            shares.append(1.0 - len(rest) / float(sum(run + len(others) for run, others in used)))
    return max(shares) if shares else None


def _ranks(figures: Sequence[float]) -> str:
    order = sorted({figure for figure in figures if figure == figure})
    places = {figure: _PLACES[at] for at, figure in enumerate(order)}
    return "".join([places[figure] if figure == figure else _NONE for figure in figures])


def _hash(figure: float) -> str:
    """A number's hash is that of what a narrower type makes of it; one near the middle of two may have another."""
    if figure != figure:
        return _NONE * 4
    return "%04x" % (crc32(b"%.3g" % (figure or 0.0)) & 0xFFFF)


# ---- one row


class _Copied:
    """Values as reader/copies.c writes them: see copy_value there."""

    _NUMBER = struct.Struct("<Q")
    _FIGURE = struct.Struct("<Qd")

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

    def name(self) -> str | None:
        if self.take(1) != b"T":
            return None
        self.take(16)
        return self.take(self.number()).decode("utf-8", "replace")

    def figure(self) -> tuple[int, float]:
        """(where it is, what it is)."""
        address, figure = self._FIGURE.unpack(self.take(16))
        return int(address), float(figure)

    def integers(self, count: int) -> list[int | None]:
        """None: what is no integer."""
        numbers = struct.unpack("<%dq" % count, self.take(8 * count))
        return [None if number == _NO_INTEGER else number for number in numbers]


_NO_INTEGER = -(1 << 63)


class _Row:
    """What a row holds: hashes of its text, how much of it, its integers, and where the longest of it lies."""

    __slots__ = ("hashes", "size", "integers", "length", "ids", "numbers", "has_token_key", "address", "_longest")

    def __init__(self) -> None:
        self.hashes: set[int] = set()
        self.size = 0
        self.integers = 0
        self.length = 0  # of its integers with their padding
        self.ids: list[int] = []
        self.numbers: list[Any] = []  # the first ones, padding and all
        self.has_token_key = False
        self.address = 0
        self._longest = 0

    def size_as(self, form: str) -> int:
        return {TOKEN_IDS: self.integers, INTEGERS: self.length}.get(form, self.size)

    def read(self, values: _Copied, most_dimensions: int = 1) -> None:
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
                self.read(values)
        elif letter == b"D":
            for _ in range(values.number()):
                has_token_key = values.take(1) != b"\0" and not self.hashes
                self.has_token_key |= has_token_key
                self.read(values, 2 if has_token_key else 1)
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

    def _note_integers(self, address: int, count: int, integers: list[Any]) -> None:
        length = count if count > _MOST_INTEGERS else _unpadded(integers)
        if length > self.integers:
            self.integers = length
            self.length = count
            self.ids = [item for item in integers if type(item) is int]
            self.numbers = integers
            if not self._longest:
                self.address = address

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
