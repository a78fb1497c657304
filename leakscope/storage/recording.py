"""A recording to read: tidy tables, what is known about the run, and what was lost. Runs while it records and after."""

from __future__ import annotations

import contextlib
import copy
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .. import schema
from ..addresses import as_url, without_credentials
from ..errors import BadInput, LeakscopeError, NoSuchTable, UnreadableRecording
from ..units import format_bytes
from . import seal, thinning
from .arrow import arrow_schema
from .finalize import JOURNAL_SUFFIX, finalize, is_journal, is_live, journal_of, living_writers
from .merge import merge
from .meta import FOOTER_KEY, meta_of_footer
from .thinning import THINNED, thinned_note, thinned_rows
from .whole_heap import Identity, WholeHeapFile, files_beside
from .window import Window, as_text, limited, window_of

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

_MAGIC = b"PAR1"
# Rows cost a file next to nothing where they are all alike: a file of 5 MB may have 400 million.
_BYTES_OF_VALUE = 9  # the value, and whether it is null
_LEAST_MOST_BYTES = 1 << 30
_SHARED_ROWS = 1_000_000  # of row groups that tables share; ours have 32,768
_MOST_SHARED_BYTES = 16 << 20  # of a row group that is read once, for all the tables in it
_VALUES_AT_ONCE = 4_000_000  # 32 MB
_MOST_AT_ONCE_BYTES = 256 << 20  # of a file that is elsewhere
_MOST_NAMED = 4  # of the files beside one that is not there
_NOTES = {
    "empty": ["holds no rows: the recorder was killed before its first flush, or its journal was not copied along"],
    "checkpoint": ["a checkpoint only: the journal with the rest of the run is missing"],
}
units = {"time_s": "s", **{column.name: column.unit for column in schema.columns().values() if column.unit}}
_types = {field.name: field.type for field in arrow_schema()}
_ORDER = ("pid", "start_ticks", "time_mono_ns")
_FILES = {column.name for column in schema.columns().values() if column.carries == "file"}
_without_rows: dict[str, pd.DataFrame] = {}  # by table, its columns as schema.py says


_R = TypeVar("_R", bound="Recording")


class _Units(dict[str, str]):
    """The unit of each column that has one. Pandas copies what a frame has with it, deeply, in every operation."""

    def __deepcopy__(self, memo: object) -> _Units:
        return self


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a recording, each read on first use: ``tables.process_samples`` or ``tables["process_samples"]``.

    **Shape** the columns schema.py names for the table, after ``time_s`` (seconds since the recording began) and the
    three clocks; sorted by process and time; ``processes`` has one row per (pid, start_ticks), the last one written.
    A table nobody wrote to is empty, with its columns. Frames are shared by all who ask: do not change them.
    ``frame.attrs["units"]`` has the unit of each column that has one.
    ``window`` limits all of them to what lies between two moments, in seconds since the recording began.
    """

    def __init__(self, file: pq.ParquetFile, start_mono_ns: int, where: str, window: Window | None = None) -> None:
        self._file = file
        self._names = file.schema_arrow.names  # pyarrow makes them anew each time
        self._unknown = [name for name in self._names if name not in schema.columns()]
        self._start_mono_ns = start_mono_ns
        self._where = where
        self._window = window
        self._frames: dict[str, pd.DataFrame] = {}  # without units
        self._frames_with_units: dict[str, pd.DataFrame] | None = {}
        self._groups = _rows_by_table(file, where)
        self._shared: dict[int, pa.Table | None] = {}  # row groups of several tables
        self._makers: Mapping[str, Callable[[], pd.DataFrame]] = {}

    def __repr__(self) -> str:
        return f"<tables: {', '.join(self.written())}>"

    def _deriving(self, makers: Mapping[str, Callable[[], pd.DataFrame]]) -> Tables:
        """A copy with some tables replaced, each made by a function when it is asked for first."""
        derived = copy.copy(self)
        derived._frames = {name: frame for name, frame in self._frames.items() if name not in makers}
        derived._frames_with_units = None if self._frames_with_units is None else {}
        derived._makers = {**self._makers, **makers}
        return derived

    def _without_units(self) -> Tables:
        """A copy for internal use: pandas copies what a frame says of itself in every operation."""
        derived = copy.copy(self)
        derived._frames_with_units = None
        return derived

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self:
            raise NoSuchTable(f"no table {name!r}; there are {', '.join(self)}")
        if name not in self._frames:
            if name in self._makers:
                self._frames[name] = self._makers[name]()
            else:
                self._frames[name] = self._read(name) if name in self._groups else self._without_rows(name)
        if self._frames_with_units is None:
            return self._frames[name]
        if name not in self._frames_with_units:
            self._frames_with_units[name] = _with_units(self._frames[name].copy(deep=False))
        return self._frames_with_units[name]

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
        yield from schema.TABLES
        yield from sorted(self._groups.keys() - schema.TABLES.keys())

    def __contains__(self, name: object) -> bool:
        return name in schema.TABLES or name in self._groups

    def __len__(self) -> int:
        return len(schema.TABLES.keys() | self._groups.keys())

    def written(self) -> list[str]:
        """Names of the tables that have rows."""
        return [name for name in self if name in self._groups]

    def _thinned(self, name: str, most_rows: int, time_s: Window) -> tuple[pd.DataFrame, int]:
        """A table between two moments in about ``most_rows`` at most, and how many rows it has there.

        Of each process the highest and the lowest of so many readings in a row. **Errors** UnreadableRecording.
        """
        columns, optional = self._columns_of(name)
        there = [column for column in columns if column in self._names]
        span_ns = self._start_mono_ns + time_s[0] * 1e9, self._start_mono_ns + time_s[1] * 1e9
        try:
            rows, count = thinned_rows(self._file, name, list(self._groups.get(name, {})), there, most_rows, span_ns)
        except (OSError, pa.ArrowException) as error:
            raise UnreadableRecording(f"{self._where} is damaged in table {name}: {_one_line(error)}") from error
        rows = _with_nulls(rows, columns)
        rows = rows.sort_by([(c, "ascending") for c in _ORDER])
        return self._frame(self._timed(rows, rows["time_mono_ns"]), optional), count

    def groups(self, name: str) -> Mapping[int, int]:
        """The row groups a table is in, and how many rows of it are there."""
        return self._groups.get(name, {})

    def row_counts(self) -> dict[str, int]:
        """Rows of each table that has any; only what a window or repeated rows leave out is read for it."""
        counts = {}
        for name in self.written():
            if self._window is None and name != "processes":
                counts[name] = sum(self._groups[name].values())
            else:
                counts[name] = len(self[name])
        return {name: count for name, count in counts.items() if count}

    def columns_of(self, name: str) -> list[str]:
        """Columns of a written table in which something was written; read only if the file itself does not tell."""
        metadata, found = self._file.metadata, []
        for index, column in enumerate(self._names):
            groups = [metadata.row_group(g) for g in self._groups[name]]
            statistics = [group.column(index).statistics for group in groups]
            # Not "None in": pyarrow's == crashes on None. Nor do statistics tell of one table among others.
            if any(s is None for s in statistics) or self._is_among_others(name):
                written = column in self[name] and bool(self[name][column].notna().any())
            else:
                written = any(s.null_count < group.num_rows for s, group in zip(statistics, groups))
            if written:
                found.append(column)
        return found

    def _without_rows(self, name: str) -> pd.DataFrame:
        """A table nobody wrote to: of the forty tables most, and all alike in every recording."""
        if name not in _without_rows:
            _without_rows[name] = self._read(name)
        return _without_rows[name]

    def _read(self, name: str) -> pd.DataFrame:
        names, optional = self._columns_of(name)
        order = [c for c in _ORDER if c in names]
        self._check_can_be_read(name, len(names))
        try:
            is_shared = self._is_among_others(name)
            keys = self._columns(name, [*order, *(["table"] if is_shared else [])])
            chosen = np.flatnonzero(pc.equal(keys["table"], name)) if is_shared else np.arange(len(keys))
            chosen = chosen[pc.sort_indices(_taken(keys, chosen), [(c, "ascending") for c in order])]
            times_ns = _taken(keys, chosen)["time_mono_ns"]
            del keys
            # A few columns at a time: a table of a day is 300 MB, and is not held twice.
            at_once = max(1, _VALUES_AT_ONCE // max(1, len(chosen)))
            parts = []
            for at in range(0, len(names), at_once):
                rows = _taken(self._columns(name, names[at : at + at_once]), chosen)
                parts.append(self._frame(rows if at else self._timed(rows, times_ns), optional))
        except (OSError, pa.ArrowException) as error:
            raise UnreadableRecording(f"{self._where} is damaged in table {name}: {_one_line(error)}") from error
        if len(parts) > 1:
            import pandas as pd

            parts = [pd.concat(parts, axis="columns")]
        frame = parts[0]
        if name == "processes":
            frame = frame.drop_duplicates(["pid", "start_ticks"], keep="last", ignore_index=True)
        return frame if self._window is None else limited(name, frame, self._window, self._start_mono_ns)

    def _timed(self, rows: pa.Table, times_ns: pa.ChunkedArray) -> pa.Table:
        """With seconds since the recording began."""
        since_ns = pc.cast(pc.subtract(times_ns, self._start_mono_ns), pa.float64(), safe=False)
        return rows.add_column(0, "time_s", pc.divide(since_ns, 1e9))

    def _check_can_be_read(self, name: str, column_count: int) -> None:
        """**Errors** BadInput once closed; UnreadableRecording for what would take most of this computer's memory."""
        if self._file.closed:
            raise BadInput(f"{self._where} was closed before table {name} was read: open it again")
        rows = sum(self._file.metadata.row_group(g).num_rows for g in self._groups.get(name, {}))
        bytes, most_bytes = rows * column_count * _BYTES_OF_VALUE, _most_bytes()
        if bytes > most_bytes:
            raise UnreadableRecording(
                f"{self._where}: table {name} says that it has {rows:,} rows, which take {format_bytes(bytes)} of "
                f"memory: here a table may take {format_bytes(most_bytes)}; read it on a larger computer or by DuckDB"
            )

    def _columns(self, name: str, columns: list[str]) -> pa.Table:
        """These columns of the row groups a table is in, in the file's order; nulls for one the file does not have."""
        groups = list(self._groups.get(name, {}))
        shared = self._shared_group(groups[0]) if len(groups) == 1 and self._is_among_others(name) else None
        if shared is not None:
            there = set(shared.column_names)
            rows = shared.select([c for c in columns if c in there])
        else:
            rows = self._file.read_row_groups(groups, columns=columns)
        return _with_nulls(rows, columns)

    def _shared_group(self, index: int) -> pa.Table | None:
        """A row group of several tables; None: each reads its columns of it, since it is large or damaged."""
        if index not in self._shared:
            self._shared[index] = None
            if self._file.metadata.row_group(index).total_byte_size <= _MOST_SHARED_BYTES:
                with contextlib.suppress(OSError, pa.ArrowException):
                    self._shared[index] = self._file.read_row_group(index)
        return self._shared[index]

    @staticmethod
    def _frame(rows: pa.Table, optional: list[str]) -> pd.DataFrame:
        rows = rows.select([c for c in rows.column_names if c not in optional or rows[c].null_count < rows.num_rows])
        indirect = [c for c in _FILES & set(rows.column_names) if _has_indirect(rows[c])]
        frame: pd.DataFrame = rows.to_pandas(
            types_mapper=_pandas_types().get, ignore_metadata=True, split_blocks=True, self_destruct=True
        )
        for column in indirect:
            known = {text: _direct(text) for text in frame[column].dropna().unique()}
            frame[column] = frame[column].map(known).astype(frame[column].dtype)
        return frame

    def _is_among_others(self, name: str) -> bool:
        """Whether rows of other tables share its row groups: tables of few rows are written into one."""
        metadata = self._file.metadata
        return any(metadata.row_group(g).num_rows > rows for g, rows in self._groups.get(name, {}).items())

    def _columns_of(self, name: str) -> tuple[list[str], list[str]]:
        """All columns to read, and those of them that are dropped when empty: the ones schema.py does not name."""
        keys = [c.name for c in schema.KEYS if c.name not in ("table", "origin")]
        extra = ["origin", *self._unknown]
        if name in schema.TABLES:
            return keys + [c.name for c in schema.TABLES[name].columns] + extra, extra
        others = [c for c in schema.columns() if c not in (*keys, "table", "origin")] + extra
        return keys + others, others


class Recording:
    """One run as it was recorded.

    ``location`` is its path, or the URL it was read from, without credentials. ``complete`` is False when anything is
    known to be missing; ``notes`` says what, in sentences for a person.

    It may be used with ``with``; what was read of it stays after ``close``.
    """

    def __init__(
        self,
        path: Path,
        file: pq.ParquetFile,
        footer: dict[str, Any],
        notes: list[str],
        window: Window | None = None,
        location: str | None = None,
    ) -> None:
        self.path = path
        self.location = location or str(path)
        self.meta = footer
        self.complete = bool(footer.get("complete", False))
        self.notes = [*map(str, footer.get("notes", [])), *notes]
        self.tables = Tables(file, footer["start_mono_ns"], self.location, window)
        self._file, self._added_notes, self._window = file, notes, window

    @classmethod
    def _of(cls, other: Recording) -> Self:
        """The same recording, as one of a class that can do more with it."""
        return cls(other.path, other._file, other.meta, other._added_notes, other._window, other.location)

    def close(self) -> None:
        """Let go of the file. Tables that were read stay; another one is then a BadInput."""
        self._file.close(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recording {self.location}: {', '.join(self.names()) or 'no rows'}>"

    def names(self) -> list[str]:
        """Names of the tables that have rows."""
        return self.tables.written()

    @property
    def ended(self) -> tuple[str, int | None, int | None]:
        """(how, exit code, signal); how is ``exit``, ``signal`` or, if nobody wrote it down, ``lost``.

        ``exit`` without a code: the recorder ended in order before the job did.
        """
        how, code, signal = self.meta.get("ended") or ("lost", None, None)
        return how, code, signal

    @property
    def goes_on(self) -> bool:
        """Whether its job still ran when it was opened, or after this part: what ended is then not how the job did."""
        return bool(self.meta.get("goes_on")) or (self._window is not None and self._window[1] < float("inf"))

    def whole_heaps(self) -> list[WholeHeapFile]:
        """The files beside it in which a snapshot has every object of a process."""
        known = self.tables["heap_graphs"][list(Identity._fields)].dropna().drop_duplicates()
        return files_beside(self.path, (Identity(*map(int, one)) for one in known.itertuples(index=False)))

    def between(
        self,
        time_s: tuple[float | None, float | None] | None = None,
        *,
        step: tuple[int | None, int | None] | None = None,
    ) -> Self:
        """A part of the recording, with the same clock: from one moment or training step to another, None = no end.

        Steps are told by readings a second or so apart, and the part begins and ends at such readings.
        **Errors** BadInput for an empty part, and for steps where none was recorded.
        """
        window = window_of(self.tables, time_s, step)
        if self._window is not None:
            window = max(window[0], self._window[0]), min(window[1], self._window[1])
        notes = [*self._added_notes, f"a part of the recording only: {as_text(window)}"]
        return type(self)(self.path, self._file, self.meta, notes, window, self.location)


def derived(recording: _R, makers: Mapping[str, Callable[[], pd.DataFrame]]) -> _R:
    """A copy with some tables made by functions out of others; ``recording`` keeps them as they were written.

    A function is called when its table is asked for first.
    """
    made = copy.copy(recording)
    made.tables = recording.tables._deriving(makers)
    return made


def without_units(recording: _R) -> _R:
    """A copy for internal use: its frames do not say the units of their columns, which pandas copies each time."""
    made = copy.copy(recording)
    made.tables = recording.tables._without_units()
    return made


def thinned(recording: _R, most_rows: int | None = None, time_s: Window = (-math.inf, math.inf)) -> _R:
    """A copy with about ``most_rows`` of each table that grows with each second of each process.

    None: as many as are judged. Only what lies between two moments is read of them, and never all at once. A note says
    what was left out.
    """
    tables, most_rows = recording.tables, most_rows or thinning.MOST_ROWS
    counts = {name: sum(tables.groups(name).values()) for name in THINNED if name not in tables._makers}
    long = [name for name, count in counts.items() if count > most_rows or time_s != (-math.inf, math.inf)]
    if not long:
        return recording
    if recording._window is not None:
        time_s = max(time_s[0], recording._window[0]), min(time_s[1], recording._window[1])
    read = {name: tables._thinned(name, most_rows, time_s) for name in long}
    made = derived(recording, {name: partial(frame.copy, deep=False) for name, (frame, _) in read.items()})
    made.notes = [*recording.notes, *(thinned_note(name, len(read[name][0]), read[name][1]) for name in long)]
    return made


def open_recording(path: str | os.PathLike[str], *, read_only: bool = False) -> Recording:
    """Open a recording by its file or its journal folder, also one that is running or was never finalised.

    A URL such as ``s3://bucket/run.parquet`` is read by fsspec. What a dead recorder left is finalised in passing where
    the folder can be written, and read in memory where not, or where it is to stay as it is (``read_only``).
    **Errors** UnreadableRecording, with one line that says what is wrong and what to do.
    """
    if (url := as_url(os.fspath(path))) is not None and not os.path.exists(path):
        return _from_url(url)
    given = Path(path)
    output = given.with_name(given.name[: -len(JOURNAL_SUFFIX)]) if given.name.endswith(JOURNAL_SUFFIX) else given
    journal = journal_of(output)
    try:
        if not is_journal(journal):
            return _from_file(output)
        if _is_final(output):  # its journal was kept
            return _from_file(output)
        if is_live(journal):
            return _from_journal(
                output, journal, "still being recorded: this is the state of its last flush", goes_on=True
            )
        if living_writers(journal):
            note = "the recorder is gone, the job still runs: this is its last flush"
            return _from_journal(output, journal, note, goes_on=True)
        if read_only:
            return _from_journal(output, journal, "read from the journal, which `leakscope finalize` makes a file of")
        try:
            return _from_file(finalize(output, salvages=False))
        except UnreadableRecording:
            raise
        except LeakscopeError as error:
            return _from_journal(output, journal, f"read from the journal: {error}")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnreadableRecording(f"{given} cannot be read: {_one_line(error)}") from error


def read_footer(path: Path) -> dict[str, Any]:
    """What a recording says of itself, without its tables; of one that is still recorded, as of its last checkpoint.

    **Errors** UnreadableRecording.
    """
    try:
        _check_is_parquet(path)
        seal.check_file(path, whole=False)
        return _footer(pq.ParquetFile(path), path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnreadableRecording(f"{path} cannot be read: {_one_line(error)}") from error


def _from_journal(output: Path, journal: Path, note: str, *, goes_on: bool = False) -> Recording:
    stream = io.BytesIO()
    merge(journal, stream, "live")
    file = seal.opened(pa.BufferReader(stream.getbuffer()))
    return Recording(output, file, {**_footer(file, output), "goes_on": goes_on}, [note])


def _from_file(path: Path) -> Recording:
    _check_is_parquet(path)
    try:
        seal.check_file(path)
        file = seal.opened(path)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableRecording(
            f"{path} is damaged: its parquet footer cannot be read ({_one_line(error)}): restore it from a copy"
        ) from error
    footer = _footer(file, path)
    return Recording(path, file, footer, _NOTES.get(footer["state"], []))


def _from_url(url: str) -> Recording:
    """Small files are read at once: of 200 columns each would be a request, and a report asks for most of them."""
    from .remote import open_url

    path = Path(url)
    stream = open_url(url)
    shown = without_credentials(url)
    try:
        if stream.size <= _MOST_AT_ONCE_BYTES:
            with stream:
                stream = io.BytesIO(stream.read())
        _check_content(stream, shown)
        seal.check(stream, shown, whole=isinstance(stream, io.BytesIO))
        stream.seek(0)
        file = seal.opened(stream)
    except (LeakscopeError, OSError, pa.ArrowException) as error:
        if isinstance(error, LeakscopeError):
            raise
        raise UnreadableRecording(f"{shown} is damaged or cannot be read: {_one_line(error)}") from error
    footer = _footer(file, path)
    return Recording(path, file, footer, _NOTES.get(footer["state"], []), location=shown)


def _is_final(path: Path) -> bool:
    try:
        _check_is_parquet(path)
        return bool(_footer(pq.ParquetFile(path), path)["state"] == "final")
    except (LeakscopeError, OSError, pa.ArrowException):
        return False  # whatever it is, the journal beside it has all of it


def _check_is_parquet(path: Path) -> None:
    """**Errors** UnreadableRecording with the plain reason, where pyarrow would speak of magic bytes."""
    if path.is_dir():
        raise UnreadableRecording(f"{path} is a directory: name the recording in it, such as {path / 'run.parquet'}")
    if not path.exists():
        beside = sorted(other.name for other in path.parent.glob("*.parquet"))
        more = f" (next to it: {', '.join(beside[:_MOST_NAMED])}{', …' if len(beside) > _MOST_NAMED else ''})"
        raise UnreadableRecording(
            f"there is no file {path}{more if beside else ''}: check the name, or record with "
            f"`leakscope record -o {path} -- COMMAND`"
        )
    if not path.is_file():
        raise UnreadableRecording(f"{path} is not a regular file: name a recording")
    with open(path, "rb") as stream:
        _check_content(stream, str(path))


def _check_content(stream: BinaryIO, path: str) -> None:
    """**Errors** UnreadableRecording, by the first and last bytes of a file."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    head = stream.read(4)
    stream.seek(max(0, size - 4))
    tail = stream.read(4)
    if size == 0:
        raise UnreadableRecording(f"{path} is empty (0 bytes): the disk was full or the copy failed; copy it again")
    if head != _MAGIC:
        raise UnreadableRecording(f"{path} is not a recording: a parquet file was expected, this begins with {head!r}")
    if size < 12 or tail != _MAGIC:
        raise UnreadableRecording(f"{path} is truncated at {size:,} bytes: its end is missing; copy it again")


def _footer(file: pq.ParquetFile, path: Path) -> dict[str, Any]:
    raw = (file.metadata.metadata or {}).get(FOOTER_KEY.encode())
    if raw is None:
        raise UnreadableRecording(f"{path} is a parquet file, but not a recording: leakscope did not write it")
    footer = meta_of_footer(raw, path)
    types = {field.name: field.type for field in file.schema_arrow}
    for name, expected in _types.items():
        found = types.get(name, expected)  # a column added since is one nobody wrote to
        if found != expected:
            raise UnreadableRecording(f"{path} is damaged: column {name} is {found}, {expected} expected")
    footer["start_mono_ns"] = start if type(start := footer.get("start_mono_ns")) is int else 0
    footer["state"] = str(footer.get("state"))
    return footer


def _rows_by_table(file: pq.ParquetFile, where: str) -> dict[str, dict[int, int]]:
    """Of each table the row groups it is in, with its rows there: by the statistics of column ``table`` or its values.

    **Errors** UnreadableRecording if it cannot be read.
    """
    found: dict[str, dict[int, int]] = {}
    metadata = file.metadata
    column = file.schema_arrow.names.index("table")
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        statistics = group.column(column).statistics
        if statistics is not None and statistics.has_min_max and statistics.min == statistics.max:
            names = {statistics.min: group.num_rows}
        elif group.num_rows > _SHARED_ROWS:
            raise UnreadableRecording(f"{where} is damaged: {group.num_rows:,} rows of several tables are in one group")
        else:
            try:
                names = Counter(file.read_row_group(index, columns=["table"])["table"].to_pylist())
            except (OSError, pa.ArrowException) as error:
                raise UnreadableRecording(f"{where} is damaged in column table: {_one_line(error)}") from error
        for name, rows in names.items():
            found.setdefault(name, {})[index] = rows
    return found


@cache
def _pandas_types() -> dict[pa.DataType, Any]:
    import pandas as pd

    return {
        pa.int64(): pd.Int64Dtype(),  # nullable: byte counts above 2**53 must not pass through floats
        pa.bool_(): pd.BooleanDtype(),
        pa.string(): pd.StringDtype("pyarrow"),
    }


def _with_units(frame: pd.DataFrame) -> pd.DataFrame:
    frame.attrs["units"] = _Units({column: units[column] for column in frame if column in units})
    return frame


def _taken(rows: pa.Table, chosen: NDArray[np.int64]) -> pa.Table:
    """These rows: a view of them where they follow one another, as they do unless writers were many."""
    if len(chosen) and (np.diff(chosen) == 1).all():
        return rows.slice(int(chosen[0]), len(chosen))
    return rows.take(pa.array(chosen))


def _with_nulls(rows: pa.Table, columns: list[str]) -> pa.Table:
    """These columns; nulls for one that the file does not have."""
    missing = set(columns).difference(rows.column_names)
    if missing:
        for column in missing:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, _types[column]))
    return rows.select(columns)


def _has_indirect(texts: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring(pc.cast(texts, pa.string()), "/../")).as_py())


def _direct(text: str) -> str:
    """``/a/c.py:7 f`` for ``/a/b/../c.py:7 f``: the file that a program was started by from beside its folder."""
    lines = (line.partition(":") for line in text.split("\n"))
    return "\n".join(f"{os.path.normpath(file) if '/../' in file else file}{rest}{end}" for file, rest, end in lines)


def _most_bytes() -> int:
    """What a table may take: half of what this computer has."""
    if not hasattr(os, "sysconf"):  # Windows
        return _LEAST_MOST_BYTES
    return max(_LEAST_MOST_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def _one_line(error: BaseException) -> str:
    """For a person, without the bytes of a damaged file that pyarrow quotes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())[:200]
    return "".join(character if character.isprintable() else "?" for character in text)
