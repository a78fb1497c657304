"""A journal of few rows as a parquet file, without pyarrow: for runs of a moment, which would wait for its import.

What does not depend on the rows, the schema above all, is taken from ``empty.parquet``, which pyarrow made. Each column
is one page of plain values, not compressed; most have no value. Standard library only: it runs in the recorder, when
the job is over.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .. import schema
from ..agent.journal import GPU_SNAPSHOT, WHOLE_HEAP, rows_of
from ..errors import LeakscopeError
from . import seal
from .account import Facts, Row, blocks, verdict
from .meta import FOOTER_KEY, read_meta
from .varints import text_at, varint

EMPTY = Path(__file__).with_name("empty.parquet")
_TAIL = struct.Struct("<I4s")  # the footer's length, and PAR1
_MAGIC = b"PAR1"
_SCHEMA_ENDS = b"\x16\x00\x19\x0c"  # num_rows: 0, row_groups: []; then key_value_metadata
_PARQUET_TYPES = {"bool": 0, "int": 2, "float": 5, "str": 6}
_PLAIN, _RLE, _UNCOMPRESSED = 0, 3, 0
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12  # of thrift's compact protocol


class DoesNotFit(LeakscopeError):
    """There is in the journal what takes pyarrow: more than rows, damage, or what the schema does not know."""


def write(journal: Path, stream: BinaryIO) -> dict[str, Any]:
    """Write the journal of a recording that has ended into ``stream``, and return the file's footer.

    **Errors** DoesNotFit; OSError from ``stream``; UnreadableRecording for a newer format.
    """
    _check_files(journal)
    meta, facts = read_meta(journal), Facts()
    tables: dict[str, list[Row]] = {}
    for table, columns in blocks(journal, facts):
        tables.setdefault(table, []).extend(rows_of(columns))
    if facts.unread or not (meta and facts.end_seen):
        raise DoesNotFit("it did not end in order")
    row_counts = {table: len(rows) for table, rows in tables.items()}
    footer = {**verdict(journal), **facts.footer(meta, "final", row_counts, misfits=0)}
    _write(stream, _in_order(tables), json.dumps(footer))
    return footer


def _check_files(journal: Path) -> None:
    if any(file.name.endswith((GPU_SNAPSHOT, WHOLE_HEAP)) for file in journal.iterdir()):
        raise DoesNotFit("there is more than rows")


def _in_order(tables: Mapping[str, list[Row]]) -> list[Row]:
    """As merge.py has them: by table, and in each by process and time."""
    ordered: list[Row] = []
    for table in sorted(tables):
        rows = tables[table]
        if {"pid", "time_mono_ns"} <= {name for row in rows for name in row}:
            rows.sort(key=lambda row: (row.get("pid") or 0, row.get("time_mono_ns") or 0))
        ordered += ({**row, "table": table} for row in rows)
    return ordered


def _write(stream: BinaryIO, rows: Sequence[Row], said: str) -> None:
    columns = schema.columns()
    values: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            if value is not None:
                if name not in columns:
                    raise DoesNotFit(f"there is a column {name}, which is not in the schema")
                values.setdefault(name, [None] * len(rows))[number] = value
    before, pairs, behind = _parts_of_empty()
    stream.write(_MAGIC)
    chunks, at = [], len(_MAGIC)
    without_values = _page(_levels([False] * len(rows)), len(rows))
    for column in columns.values():
        found = values.get(column.name)
        page = without_values if found is None else _page(_data(column.type, found, column.name != "table"), len(rows))
        stream.write(page)
        chunks.append(_chunk(column, len(rows), at, len(page)))
        at += len(page)
    group = b"\x19" + _list_of(chunks, _STRUCT) + _field(1, _I64) + _number(at) + _field(1, _I64) + _number(len(rows))
    pairs = {**pairs, FOOTER_KEY: said.encode(), seal.KEY: seal.ZEROS}
    texts = [b"\x18" + _binary(key.encode()) + b"\x18" + _binary(text) + b"\0" for key, text in pairs.items()]
    counts = _field(1, _I64) + _number(len(rows)) + _field(1, _LIST) + _list_of([group + b"\0"], _STRUCT)
    footer = before + counts + _field(1, _LIST) + _list_of(texts, _STRUCT) + behind
    stream.write(footer + _TAIL.pack(len(footer), _MAGIC))
    seal.press(stream, said)


def _parts_of_empty() -> tuple[bytes, dict[str, bytes], bytes]:
    """Of the footer of the file without rows: the schema, the texts by their names, and what comes after them."""
    whole = EMPTY.read_bytes()
    length, _ = _TAIL.unpack(whole[-_TAIL.size :])
    footer = whole[-_TAIL.size - length : -_TAIL.size]
    before, _, rest = footer.partition(_SCHEMA_ENDS)
    count, at = rest[1] >> 4, 2
    pairs = {}
    for _ in range(count):
        key, at = text_at(rest, at + 1)
        text, at = text_at(rest, at + 1)
        pairs[key.decode()], at = text, at + 1
    return before, pairs, rest[at:]


def _data(kind: str, values: Sequence[Any], is_nullable: bool) -> bytes:
    """What a page has of a column: which rows have a value, and the values."""
    present = [value for value in values if value is not None]
    levels = _levels([value is not None for value in values]) if is_nullable else b""
    if kind == "float":
        present = [float(value) if type(value) is int else value for value in present]
    fits = {"int": int, "float": float, "bool": bool, "str": str}[kind]
    if any(type(value) is not fits for value in present):
        raise DoesNotFit("a value is not of the kind of its column")
    try:
        return levels + b"".join(_encoded(kind, present))
    except (OverflowError, UnicodeEncodeError, struct.error):
        raise DoesNotFit("a value does not fit its column") from None


def _encoded(kind: str, values: Sequence[Any]) -> Iterator[bytes]:
    if kind == "str":
        for text in values:
            data = text.encode()
            yield struct.pack("<I", len(data)) + data
    elif kind == "bool":
        yield _bits(values)
    else:
        yield struct.pack(f"<{len(values)}{'q' if kind == 'int' else 'd'}", *values)


def _levels(has_value: Sequence[bool]) -> bytes:
    """Which rows have a value, a bit each: as one run where all are alike, else eight in a byte."""
    if any(has_value) and not all(has_value):
        runs = varint(-(-len(has_value) // 8) << 1 | 1) + _bits(has_value)
    else:
        runs = varint(len(has_value) << 1) + bytes([bool(has_value) and has_value[0]])
    return struct.pack("<I", len(runs)) + runs


def _bits(values: Sequence[bool]) -> bytes:
    whole = sum(1 << at for at, value in enumerate(values) if value)
    return whole.to_bytes(-(-len(values) // 8), "little")


def _page(data: bytes, rows: int) -> bytes:
    checksum = zlib.crc32(data)
    head = _field(1, _I32) + _number(0)  # a data page
    head += (_field(1, _I32) + _number(len(data))) * 2
    head += _field(1, _I32) + _number(checksum - (1 << 32) if checksum >> 31 else checksum)
    head += _field(1, _STRUCT) + _field(1, _I32) + _number(rows)
    head += b"".join(_field(1, _I32) + _number(how) for how in (_PLAIN, _RLE, _RLE)) + b"\0\0"
    return head + data


def _chunk(column: schema.Column, rows: int, at: int, size: int) -> bytes:
    encodings = _list_of([_number(_PLAIN), _number(_RLE)], _I32)
    meta = _field(1, _I32) + _number(_PARQUET_TYPES[column.type]) + _field(1, _LIST) + encodings
    meta += _field(1, _LIST) + _list_of([_binary(column.name.encode())], _BINARY)
    meta += _field(1, _I32) + _number(_UNCOMPRESSED) + _field(1, _I64) + _number(rows)
    meta += (_field(1, _I64) + _number(size)) * 2 + _field(2, _I64) + _number(at) + b"\0"
    return _field(2, _I64) + _number(at) + _field(1, _STRUCT) + meta + b"\0"


def _field(after: int, kind: int) -> bytes:
    """The head of a field: how far its number is from that of the one before."""
    return bytes([after << 4 | kind])


def _list_of(items: Sequence[bytes], kind: int) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return head + b"".join(items)


def _binary(text: bytes) -> bytes:
    return varint(len(text)) + text


def _number(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)
