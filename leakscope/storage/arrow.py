"""schema.py in pyarrow's terms: types, field metadata, encodings, and rows to columns. Never runs in the job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import schema

# Rows of one table in a row group. pyarrow keeps 180 KB about each group, and as much again at the end: at 16 k a day
# of 20 processes takes 12 MB more to finalise. It takes 12 % less on disk: zstd works harder on small pages.
ROW_GROUP_ROWS = 32 * 1024

_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}
_KNOWN = schema.columns()
_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


def arrow_schema(extra_columns: Iterable[str] = ()) -> pa.Schema:
    """The one schema of a recording: every column nullable but ``table``; columns we do not know are text."""
    extra = [pa.field(name, pa.string(), metadata={"unit": "", "meaning": ""}) for name in sorted(extra_columns)]
    return pa.schema([*_known_fields(), *extra])


@lru_cache
def _known_fields() -> tuple[pa.Field, ...]:
    return tuple(
        pa.field(c.name, _TYPES[c.type], nullable=c.name != "table", metadata={"unit": c.unit, "meaning": c.meaning})
        for c in _KNOWN.values()
    )


def parquet_writer(sink: Any, columns: pa.Schema, *, is_short: bool = False) -> pq.ParquetWriter:
    """A writer with the encodings of a recording; ``sink`` is a binary stream.

    ``is_short``: few rows. Zstd sets itself up anew for each column of each table, 200 times ten: for a command of no
    length that was two thirds of the time, and made its file larger.
    """
    compression = {"compression": "snappy"} if is_short else {"compression": "zstd", "compression_level": 3}
    # DELTA_BINARY_PACKED because every engine reads it; BYTE_STREAM_SPLIT is smaller, but young readers only.
    return pq.ParquetWriter(
        sink,
        columns,
        use_dictionary=[f.name for f in columns if f.type == pa.string()],
        column_encoding={f.name: "DELTA_BINARY_PACKED" for f in columns if f.type == pa.int64()},
        write_page_checksum=True,
        **compression,
    )


def column_array(name: str, values: Sequence[Any]) -> tuple[pa.Array, int]:
    """The values of one column as its type, and how many did not fit it and are null now.

    One odd value of a damaged or foreign writer must not cost the recording its other rows.
    """
    known = _KNOWN.get(name)
    if known is None:
        return pa.array([_as_text(value) for value in values], pa.string()), 0
    try:
        return pa.array(values, _TYPES[known.type]), 0
    except _MISFIT:
        fitted = [_fitted(value, known.type) for value in values]
        lost = sum(new is None and old is not None for old, new in zip(values, fitted))
        return pa.array(fitted, _TYPES[known.type]), lost


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def _fitted(value: Any, type: str) -> Any:
    if value is None or type == "str":
        return _as_text(value)
    if type == "bool":
        return value if isinstance(value, bool) else None
    if not isinstance(value, (bool, int, float)):
        return None
    if type == "float":
        return float(value) if abs(value) < 2**1000 else None
    return int(value) if -(2**63) <= value < 2**63 else None
