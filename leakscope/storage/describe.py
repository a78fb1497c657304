"""The tables of a recording as text, generated from schema.py: what ``leakscope schema`` prints and the docs hold."""

from __future__ import annotations

import json

from .. import schema


def as_markdown() -> str:
    """One section per table, one row per column."""
    lines = [f"# Tables of a recording (format {schema.SCHEMA_VERSION})", ""]
    lines += ["Every row has these columns; all columns but `table` may be null.", "", *_column_rows(schema.KEYS)]
    for table in schema.TABLES.values():
        lines += ["", f"## {table.name}", "", f"{table.meaning}. Written by the {table.writer}.", ""]
        lines += _column_rows(table.columns)
    return "\n".join(lines) + "\n"


def as_json() -> str:
    """The tables and columns for programs: format version, common columns, tables."""
    tables = [{**table._asdict(), "columns": [c._asdict() for c in table.columns]} for table in schema.TABLES.values()]
    keys = [c._asdict() for c in schema.KEYS]
    return json.dumps({"format_version": schema.SCHEMA_VERSION, "keys": keys, "tables": tables}, indent=2) + "\n"


def _column_rows(columns: tuple[schema.Column, ...]) -> list[str]:
    rows = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in columns:
        meaning = column.meaning.replace("|", "\\|")
        rows.append(f"| `{column.name}` | {column.type} | {column.unit} | {meaning} |")
    return rows
