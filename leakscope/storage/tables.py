"""The tables of a recording's file: which row groups each is in, and its columns, each read when it is asked for."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .. import schema
from ..errors import BadInput, NoSuchTable, UnreadableRecording
from ..units import format_bytes
from .arrow import arrow_schema
from .cells import column_of, places_of
from .rows import Column, Rows, nulls
from .thinning import thinned_places
from .window import Window, limited

if TYPE_CHECKING:
    import pandas as pd

# Rows cost a file next to nothing where they are all alike: a file of 5 MB may have 400 million.
_BYTES_OF_VALUE = 9  # the value, and whether it is null
_LEAST_MOST_BYTES = 1 << 30
_SHARED_ROWS = 1_000_000  # of row groups that tables share; ours have 32,768
_MOST_SHARED_BYTES = 16 << 20  # of a row group whose columns are read once, for all the tables in it
units = {"time_s": "s", **{column.name: column.unit for column in schema.columns().values() if column.unit}}
KINDS = {field.name: field.type for field in arrow_schema()}
_ORDER = ("pid", "start_ticks", "time_mono_ns")
_FILES = {column.name for column in schema.columns().values() if column.carries == "file"}
_LAST = np.iinfo(np.int64).max


class RowsByTable(Mapping[str, Rows]):
    """The rows of each table of a recording, for who judges it: ``rows["takes"]``.

    **Shape** the columns schema.py names for the table, after ``time_s`` (seconds since the recording began) and the
    three clocks; sorted by process and time; ``processes`` has one row per (pid, start_ticks), the last one written.
    A table nobody wrote to is empty, with its columns. ``window`` limits all of them to what lies between two moments,
    in seconds since the recording began.
    """

    def __init__(self, file: pq.ParquetFile, start_mono_ns: int, where: str, window: Window | None = None) -> None:
        self._file = file
        self._names = file.schema_arrow.names  # pyarrow makes them anew each time
        self._unknown = [name for name in self._names if name not in schema.columns()]
        self._start_mono_ns = start_mono_ns
        self._where = where
        self._window = window
        self._rows: dict[str, Rows] = {}
        self._places = _places_by_table(file, where)
        self._shared: dict[tuple[int, str], pa.ChunkedArray] = {}  # columns of row groups that several tables share
        self.made: Mapping[str, Callable[[], Rows]] = {}  # in the place of what is in the file, when it is asked for

    def deriving(self, makers: Mapping[str, Callable[[], Rows]]) -> RowsByTable:
        """A copy with some tables replaced, each made by a function when it is asked for first."""
        derived = copy.copy(self)
        derived._rows = {name: rows for name, rows in self._rows.items() if name not in makers}
        derived.made = {**self.made, **makers}
        return derived

    def __getitem__(self, name: str) -> Rows:
        if name not in self:
            raise NoSuchTable(f"no table {name!r}; there are {', '.join(self)}")
        if name not in self._rows:
            self._rows[name] = self.made[name]() if name in self.made else self._read(name)
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        yield from schema.TABLES
        yield from sorted(self._places.keys() - schema.TABLES.keys())

    def __contains__(self, name: object) -> bool:
        return name in schema.TABLES or name in self._places

    def __len__(self) -> int:
        return len(schema.TABLES.keys() | self._places.keys())

    def written(self) -> list[str]:
        """Names of the tables that have rows."""
        return [name for name in self if name in self._places]

    def count(self, name: str) -> int:
        """How many rows of a table there are in the file."""
        return sum(len(places) for _, places in self._places.get(name, ()))

    def _groups(self, name: str) -> list[int]:
        """The row groups that it is in."""
        return [group for group, _ in self._places.get(name, ())]

    def row_counts(self) -> dict[str, int]:
        """Rows of each table that has any; only what a window or repeated rows leave out is read for it."""
        is_whole = self._window is None
        counts = {n: self.count(n) if is_whole and n != "processes" else len(self[n]) for n in self.written()}
        return {name: count for name, count in counts.items() if count}

    def columns_of(self, name: str) -> list[str]:
        """Columns of a written table in which something was written; read only if the file itself does not tell."""
        metadata, found = self._file.metadata, []
        for index, column in enumerate(self._names):
            groups = [metadata.row_group(g) for g in self._groups(name)]
            statistics = [group.column(index).statistics for group in groups]
            # Not "None in": pyarrow's == crashes on None. Nor do statistics tell of one table among others.
            if any(s is None for s in statistics) or self._is_among_others(name):
                written = column in self[name] and self[name][column].count() > 0
            else:
                written = any(s.null_count < group.num_rows for s, group in zip(statistics, groups))
            if written:
                found.append(column)
        return found

    def thinned(self, name: str, most_rows: int, time_s: Window) -> tuple[Rows, int]:
        """A table between two moments in about ``most_rows`` at most, and how many rows it has there.

        Of each process the highest and the lowest of so many readings in a row. **Errors** UnreadableRecording.
        """
        span_ns = self._start_mono_ns + time_s[0] * 1e9, self._start_mono_ns + time_s[1] * 1e9
        try:
            kept, count = thinned_places(self._file, name, self._groups(name), most_rows, span_ns)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(name, error) from error
        return self._rows_at(name, [(group, places_of(places)) for group, places in kept]), count

    def _read(self, name: str) -> Rows:
        self._check_is_open(name)
        self._check_can_be_read(name)
        rows = self._rows_at(name, self._places.get(name, ()))
        if name == "processes":
            rows = rows.drop_duplicates(["pid", "start_ticks"], keep="last")
        return rows if self._window is None else limited(name, rows, self._window, self._start_mono_ns)

    def _rows_at(self, name: str, places: Sequence[tuple[int, range | pa.Array]]) -> Rows:
        """Rows of a table that are at these places of row groups, in order."""
        names, optional = self._columns_of(name)
        keys = [self._column(name, column, places) for column in _ORDER if column in names]
        order = _sorted([key.to_numpy(na_value=_LAST) for key in keys])

        def find(column: str) -> Column:
            self._check_is_open(name)
            found = self._column(name, column, places)
            return found if order is None else found.take(order)

        return self._timed(Rows(names, sum(len(own) for _, own in places), find), optional)

    def _timed(self, rows: Rows, optional: list[str]) -> Rows:
        """With seconds since the recording began, and of columns that no table has those that have a value."""
        names = [name for name in rows.columns if name not in optional or (len(rows) and rows[name].count())]
        return Rows(
            ("time_s", *names),
            len(rows),
            lambda name: (rows["time_mono_ns"] - self._start_mono_ns) / 1e9 if name == "time_s" else rows[name],
        )

    def _check_is_open(self, name: str) -> None:
        """**Errors** BadInput."""
        if self._file.closed:
            raise BadInput(f"{self._where} was closed before table {name} was read: open it again")

    def _check_can_be_read(self, name: str) -> None:
        """**Errors** UnreadableRecording for what would take most of this computer's memory."""
        rows = sum(self._file.metadata.row_group(g).num_rows for g in self._groups(name))
        bytes, most_bytes = rows * len(self._columns_of(name)[0]) * _BYTES_OF_VALUE, _most_bytes()
        if bytes > most_bytes:
            raise UnreadableRecording(
                f"{self._where}: table {name} says that it has {rows:,} rows, which take {format_bytes(bytes)} of "
                f"memory: here a table may take {format_bytes(most_bytes)}; read it on a larger computer or by DuckDB"
            )

    def _column(self, name: str, column: str, places: Sequence[tuple[int, range | pa.Array]]) -> Column:
        """One column of a table at these places; nulls where the file does not have it."""
        if column not in self._names or not places:
            return _missing(column, sum(len(own) for _, own in places))
        try:
            parts, is_shared = [], self._is_among_others(name)
            for group, own in places:
                cells = self._cells(group, column, is_shared)
                parts += (cells.slice(own.start, len(own)) if isinstance(own, range) else cells.take(own)).chunks
            return column_of(parts, _direct if column in _FILES else None)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(name, error) from error

    def _cells(self, group: int, column: str, is_shared: bool) -> pa.ChunkedArray:
        """One column of a row group; of one that several tables share, and that is not large, it is kept for them."""
        if (group, column) in self._shared:
            return self._shared[group, column]
        cells = self._file.read_row_group(group, columns=[column])[column]
        if is_shared and self._file.metadata.row_group(group).total_byte_size <= _MOST_SHARED_BYTES:
            self._shared[group, column] = cells
        return cells

    def _is_among_others(self, name: str) -> bool:
        """Whether rows of other tables share its row groups: tables of few rows are written into one."""
        metadata = self._file.metadata
        return any(metadata.row_group(group).num_rows > len(places) for group, places in self._places.get(name, ()))

    def _columns_of(self, name: str) -> tuple[list[str], list[str]]:
        """All columns to read, and those of them that are dropped when empty: the ones schema.py does not name."""
        keys = [c.name for c in schema.KEYS if c.name not in ("table", "origin")]
        extra = ["origin", *self._unknown]
        if name in schema.TABLES:
            return keys + [c.name for c in schema.TABLES[name].columns] + extra, extra
        others = [c for c in schema.columns() if c not in (*keys, "table", "origin")] + extra
        return keys + others, others

    def _damaged(self, name: str, error: Exception) -> UnreadableRecording:
        return UnreadableRecording(f"{self._where} is damaged in table {name}: {one_line(error)}")


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a recording, each made on first use: ``tables.process_samples`` or ``tables["process_samples"]``.

    **Shape** as that of ``RowsByTable``. Frames are shared by all who ask: do not change them.
    ``frame.attrs["units"]`` has the unit of each column that has one.
    """

    def __init__(self, rows: RowsByTable) -> None:
        self._rows = rows
        self._frames: dict[str, pd.DataFrame] = {}

    def __repr__(self) -> str:
        return f"<tables: {', '.join(self.written())}>"

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            frame = self._rows[name].to_pandas()
            frame.attrs["units"] = _Units({column: units[column] for column in frame if column in units})
            self._frames[name] = frame
        return self._frames[name]

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        """What a notebook completes: tables that have rows before all others."""
        return [*self.written(), *super().__dir__()]

    def _ipython_key_completions_(self) -> list[str]:
        return self.written()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def written(self) -> list[str]:
        """Names of the tables that have rows."""
        return self._rows.written()

    def row_counts(self) -> dict[str, int]:
        """Rows of each table that has any."""
        return self._rows.row_counts()

    def columns_of(self, name: str) -> list[str]:
        """Columns of a written table in which something was written."""
        return self._rows.columns_of(name)


class _Units(dict[str, str]):
    """The unit of each column that has one. Pandas copies what a frame has with it, deeply, in every operation."""

    def __deepcopy__(self, memo: object) -> _Units:
        return self


def _missing(column: str, count: int) -> Column:
    """Nulls, of a column that nobody wrote to."""
    kind = {pa.int64(): np.int64, pa.bool_(): np.bool_, pa.float64(): np.float64}.get(KINDS.get(column), object)
    return nulls(np.dtype(kind), count)


def _sorted(keys: list[NDArray[np.int64]]) -> NDArray[np.intp] | None:
    """The order of rows by several columns; None where they are in it already."""
    order = np.lexsort(keys[::-1])
    return None if (np.diff(order) == 1).all() else order


def _places_by_table(file: pq.ParquetFile, where: str) -> dict[str, list[tuple[int, range | pa.Array]]]:
    """Of each table the row groups it is in, and which rows there: by the statistics of column ``table`` or its values.

    **Errors** UnreadableRecording if it cannot be read.
    """
    found: dict[str, list[tuple[int, range | pa.Array]]] = {}
    metadata = file.metadata
    column = file.schema_arrow.names.index("table")
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        statistics = group.column(column).statistics
        if statistics is not None and statistics.has_min_max and statistics.min == statistics.max:
            found.setdefault(statistics.min, []).append((index, range(group.num_rows)))
            continue
        if group.num_rows > _SHARED_ROWS:
            raise UnreadableRecording(f"{where} is damaged: {group.num_rows:,} rows of several tables are in one group")
        try:
            names = file.read_row_group(index, columns=["table"])["table"].to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UnreadableRecording(f"{where} is damaged in column table: {one_line(error)}") from error
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        for name, own in places.items():
            run = range(own[0], own[-1] + 1)
            found.setdefault(name, []).append((index, run if len(run) == len(own) else places_of(own)))
    return found


def _direct(text: str) -> str:
    """``/a/c.py:7 f`` for ``/a/b/../c.py:7 f``: the file that a program was started by from beside its folder."""
    if "/../" not in text:
        return text
    lines = (line.partition(":") for line in text.split("\n"))
    return "\n".join(f"{os.path.normpath(file) if '/../' in file else file}{rest}{end}" for file, rest, end in lines)


def _most_bytes() -> int:
    """What a table may take: half of what this computer has."""
    if not hasattr(os, "sysconf"):  # Windows
        return _LEAST_MOST_BYTES
    return max(_LEAST_MOST_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def one_line(error: BaseException) -> str:
    """For a person, without the bytes of a damaged file that pyarrow quotes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())[:200]
    return "".join(character if character.isprintable() else "?" for character in text)
