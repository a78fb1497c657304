"""Arrays of pyarrow as columns of ours, from the memory that they lie in.

Pyarrow would do as much, and load pandas for it: to give numpy an array or to take one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .rows import Column, Rows


def rows_of(table: pa.Table) -> Rows:
    return Rows(table.column_names, table.num_rows, lambda name: column_of(table[name].chunks))


def places_of(places: Sequence[int] | NDArray[np.intp]) -> pa.Array:
    """For pyarrow to take rows by."""
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(np.array(places, dtype=np.int64))])


def column_of(parts: Sequence[pa.Array], text_of: Callable[[str], str] | None = None) -> Column:
    """The values of arrays of one type, one after the other. ``text_of``: what stands for a text, if another does."""
    kind = parts[0].type
    values = np.concatenate([_values(part, text_of) for part in parts])
    null = np.concatenate([_bits(part, part.buffers()[0]) == 0 if part.null_count else _none(part) for part in parts])
    if kind == pa.float64() and null.any():
        values = np.where(null, np.nan, values)
    return Column(values, null if kind != pa.float64() else None)


def _values(part: pa.Array, text_of: Callable[[str], str] | None) -> NDArray[Any]:
    """What stands in one array, whatever where it is null."""
    if pa.types.is_null(part.type):
        return np.full(len(part), None)
    if pa.types.is_string(part.type):
        told = part.dictionary_encode()
        texts = told.dictionary.to_pylist()
        known = np.array([*(map(text_of, texts) if text_of is not None else texts), None], dtype=object)
        places = np.where(_bits(part, part.buffers()[0]) == 0, -1, _numbers(told.indices, np.int32))
        found: NDArray[Any] = known[places]
        return found
    if pa.types.is_boolean(part.type):
        return _bits(part, part.buffers()[1]).astype(bool)
    return _numbers(part, np.float64 if pa.types.is_floating(part.type) else np.int64)


def _numbers(part: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    return np.frombuffer(part.buffers()[1], kind)[part.offset : part.offset + len(part)]


def _bits(part: pa.Array, buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    """A bit for each value, as a number; all are set where there is no buffer."""
    if buffer is None:
        return np.ones(len(part), dtype=np.uint8)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return bits[part.offset : part.offset + len(part)]


def _none(part: pa.Array) -> NDArray[np.bool_]:
    return np.zeros(len(part), dtype=bool)
