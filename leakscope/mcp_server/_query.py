"""SQL over the tables of one recording, by DuckDB without files, settings or time without end."""

from __future__ import annotations

import csv
import io
import re
import threading
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import schema
from ..errors import BadInput
from ..words import printable

if TYPE_CHECKING:
    from ..storage import Recording

_LONGEST_S = 30.0
_LONGEST_CELL = 300
_SETTINGS = (
    "SET temp_directory = ''",
    "SET memory_limit = '512MB'",
    "SET threads = 1",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",  # or a name in SQL may be a variable of ours
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def query(recording: Recording, sql: str, limit: int) -> str:
    """Up to ``limit`` rows as CSV. **Errors** BadInput for what is no single SELECT, fails, or takes too long."""
    duckdb = _duckdb()
    connection = duckdb.connect(":memory:")
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
        _check_is_select(connection, sql)
        for name, frame in _frames(recording, sql).items():
            connection.register(name, frame)
        timer = threading.Timer(_LONGEST_S, connection.interrupt)
        timer.start()
        try:
            relation = connection.from_query(sql)
            names, rows = relation.columns, relation.limit(limit + 1).fetchall()
        finally:
            timer.cancel()
    except duckdb.InterruptException:
        raise BadInput(f"the query took longer than {_LONGEST_S:.0f} s: ask for less") from None
    except duckdb.Error as error:
        raise BadInput(f"{_one_line(error)}{_hint(error, recording)}") from None
    finally:
        connection.close()
    return _csv(names, rows[:limit]) + (f"… more rows: only {limit} are shown\n" if len(rows) > limit else "")


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise BadInput("query needs DuckDB: pip install duckdb") from None
    return duckdb


def _check_is_select(connection: Any, sql: str) -> None:
    kinds = [statement.type.name for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or not kinds[0].startswith("SELECT"):
        found = " and ".join(kinds) or "nothing"
        raise BadInput(f"one SELECT is allowed, and nothing else: this is {found}")


def _frames(recording: Recording, sql: str) -> dict[str, pd.DataFrame]:
    """The tables whose names stand in the query, and two that say which there are."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    frames = {name: recording.tables[name] for name in recording.tables.written() if name.lower() in words}
    if "recording_tables" in words:
        frames["recording_tables"] = pd.DataFrame(
            [(name, count, _meaning(name)) for name, count in recording.tables.row_counts().items()],
            columns=["table_name", "row_count", "a_row_is"],
        )
    if "recording_columns" in words:
        frames["recording_columns"] = pd.DataFrame(
            [
                (name, column.name, column.type, column.unit, column.meaning)
                for name in recording.tables.written()
                for column in _columns(name)
            ],
            columns=["table_name", "column_name", "type", "unit", "meaning"],
        )
    return frames


def _meaning(table: str) -> str:
    return schema.TABLES[table].meaning if table in schema.TABLES else ""


def _columns(table: str) -> tuple[schema.Column, ...]:
    time_s = schema.Column("time_s", "float", "s", "seconds since the recording began")
    keys = tuple(column for column in schema.KEYS if column.name != "table")
    return (time_s, *keys, *(schema.TABLES[table].columns if table in schema.TABLES else ()))


def _hint(error: Exception, recording: Recording) -> str:
    """What is there, for who named a table that is not."""
    if "Table with name" not in str(error):
        return ""
    return f" There are recording_tables, recording_columns, {', '.join(recording.tables.written())}"


def _one_line(error: Exception) -> str:
    """Without the quoted query, whose caret points nowhere on one line."""
    said = str(error).partition("\nLINE ")[0]
    return printable(" ".join(said.split()))[:300]


def _csv(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None or value is pd.NA:
        return ""
    said = value if isinstance(value, str) else str(value)
    said = printable(said[: _LONGEST_CELL + 1])
    return said if len(said) <= _LONGEST_CELL else said[: _LONGEST_CELL - 1] + "…"
