"""A recording from columns instead of a journal: for whoever has all rows at once. Same schema, order and encodings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .. import schema
from ..agent.journal import create
from ..errors import LeakscopeError
from . import seal
from .arrow import ROW_GROUP_ROWS, arrow_schema, parquet_writer
from .atomic_replace import replacing
from .merge import SHARED_ROWS
from .meta import FOOTER_KEY

_SHORT_ROWS = 4096


def write_recording(path: Path, tables: Mapping[str, Mapping[str, Any]], footer: Mapping[str, Any]) -> None:
    """Write tables, each as its columns (lists or numpy arrays of one length), and what is known of the run.

    The rows of a table are sorted by process and time; ``footer`` gets the format's version and the counts of rows.
    **Errors** LeakscopeError where it cannot be written; KeyError for a column that no table has.
    """
    columns = arrow_schema()
    parts = {name: _sorted(_part(name, values)) for name, values in tables.items()}
    counts = {name: part.num_rows for name, part in sorted(parts.items()) if part.num_rows}
    few = [parts[name] for name in counts if counts[name] < SHARED_ROWS]
    groups = [*([pa.concat_tables(few, promote_options="default")] if few else [])]
    groups = [*(parts[name] for name in counts if counts[name] >= SHARED_ROWS), *groups]
    said = {
        "state": "final",
        "complete": True,
        "unreadable_bytes": 0,
        "notes": [],
        **footer,
        "format_version": schema.SCHEMA_VERSION,
        "row_counts": counts,
    }
    try:
        with replacing(path) as temporary, os.fdopen(create(temporary, os.O_RDWR), "w+b") as stream:
            writer = parquet_writer(stream, columns, is_short=sum(counts.values()) < _SHORT_ROWS)
            for group in groups:
                writer.write_table(_full(group, columns), row_group_size=ROW_GROUP_ROWS)
            seal.close(writer, stream, {FOOTER_KEY: json.dumps(said)})
    except OSError as error:
        raise LeakscopeError(f"cannot write {path}: {error.strerror or error}") from error


def _part(name: str, values: Mapping[str, Any]) -> pa.Table:
    types = arrow_schema()
    arrays = {column: pa.array(cells, types.field(column).type) for column, cells in values.items()}
    rows = pa.table(arrays)
    return rows.append_column("table", pa.array([name] * rows.num_rows, pa.string()))


def _sorted(rows: pa.Table) -> pa.Table:
    keys: Sequence[str] = [name for name in ("pid", "time_mono_ns") if name in rows.column_names]
    return rows.take(pc.sort_indices(rows, [(key, "ascending") for key in keys])) if keys else rows


def _full(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    there = set(rows.column_names)
    nulls = {type: pa.nulls(rows.num_rows, type) for type in {field.type for field in columns}}
    return pa.Table.from_arrays([rows[f.name] if f.name in there else nulls[f.type] for f in columns], schema=columns)
