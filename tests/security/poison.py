"""Recordings in which every name, path and message of the job's was made to harm who reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakscope import schema

# What each of these does where it gets through: moves a cursor, sets a title, begins a line with a command of a build's
# log, reads backwards, is markup of a page, of Markdown or of a table, calls people.
HARM = (
    "\x1b]0;evil\x07\x1b[31m\x9b2J", "\r\n::error file=x::pwned", "\n##[error]pwned", "\n##vso[task.complete]pwned",
    "\n  ::add-mask::pwned", "\x00\x7f\u202epwned\u2066", "<script>alert(1)</script>", "](javascript:alert(1))",
    "|``` ` |", "@everyone", "</style></title>", "%0A::error::pwned", "\u2028::error::pwned\u0085",
)  # fmt: skip
ALL = "".join(HARM)
_FIGURES = frozenset(("role", "device", "fingerprint", "content_sketch"))


def carrying() -> dict[str, str]:
    """Columns that carry texts of the user's, by the schema; and of what kind."""
    return {c.name: c.carries for c in schema.columns().values() if c.carries}


def poisoned(source: Path, target: Path, harm: str = ALL) -> Path:
    """The recording again: ``harm`` behind every text that is the user's. Equal texts stay equal."""
    file = pq.ParquetFile(source)
    table = file.read()
    for name in table.column_names:
        if name in carrying() and pa.types.is_string(_plain(table.schema.field(name).type)):
            values = [None if value is None else value + harm for value in table.column(name).to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    footer = dict(file.schema_arrow.metadata or {})
    for key, value in footer.items():
        try:
            meta = json.loads(value)
        except ValueError:
            continue
        if isinstance(meta, dict):
            footer[key] = json.dumps(_meta(meta, harm)).encode()
    pq.write_table(table.replace_schema_metadata(footer), target, row_group_size=5000)
    return target


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _meta(meta: dict[str, Any], harm: str) -> dict[str, Any]:
    return {name: _texts(value, harm) if name in schema.FOOTER_CARRIES else value for name, value in meta.items()}


def _texts(value: Any, harm: str) -> Any:
    if isinstance(value, str):
        return value + harm
    if isinstance(value, list):
        return [_texts(one, harm) for one in value]
    if isinstance(value, dict):
        return {name: _texts(one, harm) for name, one in value.items()}
    return value
