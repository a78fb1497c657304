"""``leakscope fleet query``: SQL over an index and the samples of its recordings, by DuckDB, which may do nothing else.

DuckDB is told which files it may read: the recordings. Everything else is off before the first word of the query is
looked at: other files, writing, extensions, settings, variables of Python, spilling to disk. What is no SELECT is
refused.

Memory is bounded, results included. DuckDB keeps to a limit for what it sorts and joins; long strings, lists and what
is made of a result lie outside of it, so the kernel bounds the process as well (RLIMIT_DATA). Results come by batches:
only a table in a terminal is put together before its first line is shown, and it has a limit of its own.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from .. import schema
from ..errors import BadInput, LeakscopeError
from ..storage.batches import frame_of, named, write
from ..storage.remote import filesystem
from ..units import MiB, format_bytes
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


MOST_BYTES = 1024 * MiB  # of the process, unless it is told otherwise
_LEAST_BYTES = 64 * MiB  # for a query, however little the process may have
_OF_DUCKDB = 0.6  # of what is left; the rest is for results, and for what DuckDB does not count
_A_THREAD = 128 * MiB
_BATCH_ROWS = 8192
_SHOWN_SHARE = 256  # of the memory, for a result that is shown as a table: rich takes some kilobytes a cell
_KEPT_SHARE = 8  # the same for one that is kept as a DataFrame


def chunks(
    index: Path, sql: str, rules: Sequence[str] = (), *, most_bytes: int = MOST_BYTES, format_name: str = "terminal",
    threads: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """The result as a table, CSV or JSON, piece by piece; the process takes ``most_bytes`` in all.

    **Errors** BadInput: no DuckDB, SQL that is wrong or no SELECT. LeakscopeError: more memory would be needed.
    """
    with Asked(index, rules, most_bytes=most_bytes, threads=threads) as asked, _within(most_bytes):
        if format_name == "terminal":
            yield as_table(asked.frame(sql, most_bytes // _SHOWN_SHARE))
        else:
            frames = map(frame_of, asked.batches(sql))
            yield from _csv(frames) if format_name == "csv" else _json(frames)


def answer(index: Path, sql: str, rules: Sequence[str] = (), **how: Any) -> str:
    """``chunks`` in one."""
    return "".join(chunks(index, sql, rules, **how))


def write_parquet(
    index: Path, sql: str, output: Path, rules: Sequence[str] = (), *, most_bytes: int = MOST_BYTES
) -> None:
    """The result as a parquet file, batch by batch. **Errors** as ``chunks``."""
    with Asked(index, rules, most_bytes=most_bytes) as asked, _within(most_bytes):
        write(asked.batches(sql), output)


def _csv(frames: Iterator[pd.DataFrame]) -> Iterator[str]:
    for number, frame in enumerate(frames):
        yield as_csv(frame, with_heads=number == 0)


def _json(frames: Iterator[pd.DataFrame]) -> Iterator[str]:
    before = "[\n"
    for frame in frames:
        for row in frame.to_dict("records"):
            text = json.dumps({str(name): as_json_value(value) for name, value in row.items()}, indent=1, default=str)
            yield before + " " + text.replace("\n", "\n ")
            before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


@contextmanager
def _within(most_bytes: int) -> Iterator[None]:
    """This process has so much memory, what it holds already included. **Errors** LeakscopeError: it needs more.

    To be begun when libraries are loaded and threads run: they reserve much of which they never touch anything.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    room = _room(most_bytes)
    most = _of_this_process("VmData:") + room
    with suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    except MemoryError:
        raise _too_much(most_bytes) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _room(most_bytes: int) -> int:
    return max(_LEAST_BYTES, most_bytes - _of_this_process("VmRSS:"))


def _of_this_process(name: str) -> int:
    """Bytes."""
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) * 1024 for line in stream if line.startswith(name))


def _too_much(most_bytes: int) -> LeakscopeError:
    return LeakscopeError(
        f"the query needs more memory than {format_bytes(most_bytes)}: ask for less, or allow more by --memory"
    )


class Asked:
    """A connection that knows the views and reads nothing but recordings; to be closed."""

    def __init__(
        self,
        index: Path,
        rules: Sequence[str] = (),
        *,
        most_bytes: int = MOST_BYTES,
        threads: int | None = None,
    ) -> None:
        self._duckdb = duckdb = _duckdb()
        found = read_index(index)
        frame = found.frame()
        keep = frame.index.isin(matching(frame, [*rules, "state!=foreign"]).index)
        chosen = found.only(list(keep))
        self._most_bytes, room = most_bytes, _room(most_bytes)
        settings: dict[str, Any] = {
            "memory_limit": f"{int(_OF_DUCKDB * room) // MiB}MiB", "temp_directory": "",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False, "autoload_known_extensions": False,
        }  # fmt: skip
        settings["threads"] = threads or max(1, min(len(os.sched_getaffinity(0)), room // _A_THREAD))
        self._connection = duckdb.connect(":memory:", config=settings)
        groups = _by_columns(chosen.column("url"), chosen.column("state"), chosen.column("columns_id"))
        try:
            self._make_views(chosen.table, groups)
        except duckdb.OutOfMemoryException:
            raise _too_much(most_bytes) from None

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def frame(self, sql: str, most_bytes: int | None = None) -> pd.DataFrame:
        """The result of one SELECT. **Errors** as ``batches``; LeakscopeError for one of more than ``most_bytes``."""
        most = most_bytes or self._most_bytes // _KEPT_SHARE
        batches, size = [], 0
        for batch in self.batches(sql):
            batches.append(batch)
            size += batch.nbytes
            if size > most:
                raise LeakscopeError(
                    f"the result is above {format_bytes(most)}: add LIMIT, or write it to a file: -o result.csv, "
                    ".json or .parquet"
                )
        return pd.concat(map(frame_of, batches), ignore_index=True) if len(batches) > 1 else frame_of(batches[0])

    def batches(self, sql: str) -> Iterator[Any]:
        """The result of one SELECT as it is made, in batches of Arrow: one at least.

        **Errors** BadInput for all else, and for what SQL finds wrong; LeakscopeError for what needs too much memory.
        """
        try:
            statements = self._duckdb.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != self._duckdb.StatementType.SELECT:
                raise BadInput("a query is one SELECT: the index and the recordings are only read")
            relation = self._connection.sql(sql)
            reader = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_arrow_reader"
            yield from named(getattr(relation, reader)(_BATCH_ROWS))
        except self._duckdb.OutOfMemoryException:
            raise _too_much(self._most_bytes) from None
        except self._duckdb.Error as error:
            raise BadInput(f"the query cannot be answered: {_one_line(error)}") from None
        except OSError as error:  # what DuckDB says while a result is read
            if "Out of Memory" in str(error) or "llocation failure" in str(error):
                raise _too_much(self._most_bytes) from None
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
        raise BadInput("duckdb is not installed here: pip install duckdb") from None
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
