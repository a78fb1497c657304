"""``leakscope fleet query``: SQL over an index and the samples of its recordings, by DuckDB, which may do nothing else.

DuckDB is told which files it may read: the recordings. Everything else is off before the first word of the query is
looked at: other files, writing, extensions, settings, variables of Python, spilling to disk. What is no SELECT is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .. import schema
from ..errors import BadInput, LeakscopeError
from ..storage.remote import filesystem
from ..units import MiB
from .index import read_index
from .listing import as_csv, as_json_value, as_table
from .rules import matching

_READABLE = ("final", "checkpoint")
_HOUR_NS = 3_600_000_000_000
# Of each process: its most, its line by least squares, and what that rests on.
GROWTH = f"""
SELECT recording, pid, start_ticks, count(*) AS samples,
       regr_slope(rss_bytes, time_mono_ns::DOUBLE) * {_HOUR_NS} AS slope_bytes_per_hour,
       max(rss_bytes) AS peak_bytes,
       (max(time_mono_ns) - min(time_mono_ns)) / 1e9 AS duration_s
FROM process_samples GROUP BY ALL
"""
VIEWS = {
    "recordings": "the index: one row a recording (columns above)",
    "findings": "one row a finding: `url` of its recording, and the columns of a finding",
    "process_growth": "of each process of each recording: samples, slope_bytes_per_hour, peak_bytes, duration_s",
    "TABLE": "each table of a recording, such as process_samples: `recording` is its url",
}


def answer(
    index: Path, sql: str, rules: Sequence[str] = (), *, most_bytes: int = 1000 * 1000 * 1000,
    format_name: str = "terminal", threads: int | None = None,
) -> str:  # fmt: skip
    """The result as a table, CSV or JSON. **Errors** BadInput: no DuckDB, SQL that is wrong or no SELECT."""
    with Asked(index, rules, most_bytes=most_bytes, threads=threads) as asked:
        frame = asked.frame(sql)
    if format_name == "terminal":
        return as_table(frame)
    return as_csv(frame) if format_name == "csv" else _as_json(frame)


def _as_json(frame: pd.DataFrame) -> str:
    rows = [{str(name): as_json_value(value) for name, value in row.items()} for row in frame.to_dict("records")]
    return json.dumps(rows, indent=1) + "\n"


class Asked:
    """A connection that knows the views and reads nothing but recordings; to be closed."""

    def __init__(
        self,
        index: Path,
        rules: Sequence[str] = (),
        *,
        most_bytes: int = 1000 * 1000 * 1000,
        threads: int | None = None,
    ) -> None:
        self._duckdb = duckdb = _duckdb()
        found = read_index(index)
        frame = found.frame()
        keep = frame.index.isin(matching(frame, [*rules, "state!=foreign"]).index)
        chosen = found.only(list(keep))
        settings: dict[str, Any] = {
            "memory_limit": f"{max(64, most_bytes // MiB)}MiB", "temp_directory": "",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False, "autoload_known_extensions": False,
        }  # fmt: skip
        if threads is not None:
            settings["threads"] = threads
        self._connection = duckdb.connect(":memory:", config=settings)
        self._make_views(
            chosen.table, _by_columns(chosen.column("url"), chosen.column("state"), chosen.column("columns_id"))
        )

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def frame(self, sql: str) -> pd.DataFrame:
        """The result of one SELECT. **Errors** BadInput for all else, and for what SQL finds wrong."""
        try:
            statements = self._duckdb.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != self._duckdb.StatementType.SELECT:
                raise BadInput("a query is one SELECT: the index and the recordings are only read")
            result: pd.DataFrame = self._connection.execute(sql).df()
            return result
        except self._duckdb.OutOfMemoryException as error:
            raise LeakscopeError(f"the query needs more memory than --memory allows: {_one_line(error)}") from None
        except self._duckdb.Error as error:
            raise BadInput(f"the query cannot be answered: {_one_line(error)}") from None

    def _make_views(self, table: Any, groups: Mapping[int, list[str]]) -> None:
        run = self._connection.execute
        self._connection.register("_index", table)
        run("CREATE TABLE recordings AS SELECT * EXCLUDE findings, findings AS _findings FROM _index")
        run("CREATE VIEW findings AS SELECT url, unnest(_findings, recursive := true) FROM recordings")
        self._connection.unregister("_index")
        files = [url for urls in groups.values() for url in urls]
        for system in {filesystem(url)[0] for url in files if "://" in url}:
            self._connection.register_filesystem(system)
        # The files are bound while access is still free; nothing of the query has been seen.
        sources = []
        for number, urls in enumerate(groups.values()):
            run(f"SET VARIABLE files_{number} = ?", [urls])
            # One by one they may lack columns of later versions; within a group all have the same.
            sources.append(f"SELECT * FROM read_parquet(getvariable('files_{number}'), filename = 'recording')")
        self._confine(files)
        if sources:
            for name, columns in _tables(self._columns(sources)):
                listed = ", ".join(f'"{column}"' for column in columns)
                run(f'CREATE VIEW "{name}" AS SELECT recording, {listed} FROM ({" UNION ALL BY NAME ".join(sources)}) '
                    f"WHERE \"table\" = '{name}'")  # fmt: skip
            run(f"CREATE VIEW process_growth AS {GROWTH}")
        run("SET lock_configuration = true")

    def _columns(self, sources: Sequence[str]) -> list[str]:
        return [
            row[0] for row in self._connection.execute(f"DESCRIBE {' UNION ALL BY NAME '.join(sources)}").fetchall()
        ]

    def _confine(self, files: Sequence[str]) -> None:
        self._connection.execute("SET allowed_paths = ?", [list(files)])
        self._connection.execute("SET enable_external_access = false")


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise BadInput("duckdb is not installed here: pip install 'leakscope-recorder[fleet]'") from None
    return duckdb


def _by_columns(urls: Sequence[str], states: Sequence[str], columns: Sequence[int | None]) -> dict[int, list[str]]:
    """Recordings that have the same columns, together: DuckDB then reads one footer to know them all."""
    groups: dict[int, list[str]] = {}
    for url, state, own in zip(urls, states, columns):
        if state in _READABLE and own is not None:
            groups.setdefault(own, []).append(url)
    return groups


def _tables(there: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each table of a recording with those of its columns that the files have."""
    known = set(there)
    for table in schema.TABLES.values():
        yield table.name, [c.name for c in (*schema.KEYS, *table.columns) if c.name in known and c.name != "table"]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:300]
