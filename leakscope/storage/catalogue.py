"""A parquet file of rows that are no recording's, such as the index of a fleet: typed columns, and what they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import LeakscopeError, UnreadableRecording
from . import seal
from .atomic_replace import replacing

_TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "time": pa.timestamp("ms", "UTC"),
    "texts": pa.map_(pa.string(), pa.string()),
}
Columns = Mapping[str, Any]  # name -> one of _TYPES, or columns again: then a cell has a list of such rows


class Catalogue:
    """Rows of one kind, in memory as Arrow columns. ``said`` is a JSON object about all of them."""

    def __init__(self, table: pa.Table, said: Mapping[str, Any]) -> None:
        self.table = table
        self.said = dict(said)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> list[Any]:
        """Values as Python has them; None for null."""
        values: list[Any] = self.table[name].to_pylist()
        return values

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    def only(self, keep: Sequence[bool]) -> Catalogue:
        return Catalogue(self.table.filter(pa.array(keep, pa.bool_())), self.said)

    def frame(self) -> pd.DataFrame:
        """Figures that may be missing are floats with NaN, or numbers that pandas knows as nullable."""
        types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame: pd.DataFrame = self.table.to_pandas(types_mapper=types.get)
        return frame


def catalogue(columns: Columns, rows: Iterable[Sequence[Mapping[str, Any]]], said: Mapping[str, Any]) -> Catalogue:
    """Of rows that come in parts; keys that a row lacks are null."""
    schema = _schema(columns)
    parts = [pa.Table.from_pylist([dict(row) for row in part], schema=schema) for part in rows]
    return Catalogue(pa.concat_tables(parts) if parts else schema.empty_table(), said)


def joined(parts: Sequence[Catalogue], said: Mapping[str, Any]) -> Catalogue:
    """One after the other, with the columns of the first."""
    schema = parts[0].table.schema
    return Catalogue(pa.concat_tables([part.table.cast(schema) for part in parts]).combine_chunks(), said)


def write_catalogue(path: Path, key: str, found: Catalogue) -> None:
    """Replace ``path`` in one step; ``key`` names the kind in the footer. **Errors** LeakscopeError."""
    table = found.table.replace_schema_metadata()
    try:
        with replacing(path) as temporary, open(temporary, "w+b") as stream:
            writer = pq.ParquetWriter(stream, table.schema, compression="zstd", write_page_checksum=True)
            writer.write_table(table, row_group_size=1 << 16)
            seal.close(writer, stream, {key: json.dumps(found.said)})
    except OSError as error:
        raise LeakscopeError(f"cannot write {path}: {error.strerror or error}") from error


def read_catalogue(path: Path, key: str, what: str, columns: Columns) -> Catalogue:
    """With ``columns`` as this version has them, and no others. **Errors** UnreadableRecording: it is no ``what``."""
    if not path.is_file():
        of = f"`leakscope fleet index {path}`" if path.is_dir() else "`leakscope fleet index FOLDER`"
        raise UnreadableRecording(f"there is no {what} at {path}: make one with {of}")
    try:
        seal.check_file(path)
        with seal.opened(path) as file:
            table = file.read(columns=[name for name in columns if name in file.schema_arrow.names])
            raw = (file.metadata.metadata or {}).get(key.encode())
    except (OSError, pa.ArrowException) as error:
        raise UnreadableRecording(
            f"{path} is no {what}, or damaged: rebuild it with `leakscope fleet index`"
        ) from error
    if raw is None:
        raise UnreadableRecording(f"{path} is no {what}: name one that `leakscope fleet index` made")
    schema = _schema(columns)
    there = set(table.column_names)
    arrays = [table[f.name] if f.name in there else pa.nulls(table.num_rows, f.type) for f in schema]
    try:
        return Catalogue(pa.Table.from_arrays(arrays, names=schema.names).cast(schema), json.loads(raw))
    except (ValueError, pa.ArrowException) as error:
        raise UnreadableRecording(f"{path} is of another version: rebuild it with `leakscope fleet index`") from error


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([pa.field(name, _type(type)) for name, type in columns.items()])


def _type(type: Any) -> pa.DataType:
    return _TYPES[type] if isinstance(type, str) else pa.list_(pa.struct([*_schema(type)]))
