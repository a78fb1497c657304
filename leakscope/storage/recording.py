"""A recording to read: tidy tables, what is known about the run, and what was lost. Runs while it records and after."""

from __future__ import annotations

import copy
import io
import math
import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ..addresses import as_url, without_credentials
from ..errors import LeakscopeError, UnreadableRecording
from . import seal, thinning
from .finalize import JOURNAL_SUFFIX, finalize, is_journal, is_live, journal_of, living_writers
from .merge import merge
from .meta import FOOTER_KEY, meta_of_footer
from .rows import Rows
from .tables import KINDS, RowsByTable, Tables, one_line
from .thinning import THINNED, thinned_note
from .whole_heap import Identity, WholeHeapFile, files_beside
from .window import Window, as_text, window_of

if TYPE_CHECKING:
    from typing_extensions import Self

_MAGIC = b"PAR1"
_MOST_AT_ONCE_BYTES = 256 << 20  # of a file that is elsewhere
_MOST_NAMED = 4  # of the files beside one that is not there
_NOTES = {
    "empty": ["holds no rows: the recorder was killed before its first flush, or its journal was not copied along"],
    "checkpoint": ["a checkpoint only: the journal with the rest of the run is missing"],
}
_R = TypeVar("_R", bound="Recording")


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
        self.rows = RowsByTable(file, footer["start_mono_ns"], self.location, window)
        self._file, self._added_notes, self._window = file, notes, window

    @classmethod
    def _of(cls, other: Recording) -> Self:
        """The same recording, as one of a class that can do more with it."""
        return cls(other.path, other._file, other.meta, other._added_notes, other._window, other.location)

    def close(self) -> None:
        """Let go of the file. What was read stays; another one is then a BadInput."""
        self._file.close(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recording {self.location}: {', '.join(self.names()) or 'no rows'}>"

    def names(self) -> list[str]:
        """Names of the tables that have rows."""
        return self.rows.written()

    @cached_property
    def tables(self) -> Tables:
        """The same rows as DataFrames, for people."""
        return Tables(self.rows)

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
        known = self.rows["heap_graphs"][list(Identity._fields)].dropna()
        numbers = dict.fromkeys(zip(*(known[name] for name in Identity._fields)))
        return files_beside(self.path, (Identity(*one) for one in numbers))

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
        window = window_of(self.rows, time_s, step)
        if self._window is not None:
            window = max(window[0], self._window[0]), min(window[1], self._window[1])
        notes = [*self._added_notes, f"a part of the recording only: {as_text(window)}"]
        return type(self)(self.path, self._file, self.meta, notes, window, self.location)


def derived(recording: _R, makers: Mapping[str, Callable[[], Rows]]) -> _R:
    """A copy with some tables made by functions out of others; ``recording`` keeps them as they were written.

    A function is called when its table is asked for first.
    """
    made = copy.copy(recording)
    made.__dict__.pop("tables", None)
    made.rows = recording.rows.deriving(makers)
    return made


def thinned(recording: _R, most_rows: int | None = None, time_s: Window = (-math.inf, math.inf)) -> _R:
    """A copy with about ``most_rows`` of each table that grows with each second of each process.

    None: as many as are judged. Only what lies between two moments is read of them, and never all at once. A note says
    what was left out.
    """
    tables, most_rows = recording.rows, most_rows or thinning.MOST_ROWS
    counts = {name: tables.count(name) for name in THINNED if name not in tables.made}
    long = [name for name, count in counts.items() if count > most_rows or time_s != (-math.inf, math.inf)]
    if not long:
        return recording
    if recording._window is not None:
        time_s = max(time_s[0], recording._window[0]), min(time_s[1], recording._window[1])
    read = {name: tables.thinned(name, most_rows, time_s) for name in long}
    made = derived(recording, {name: partial(_itself, rows) for name, (rows, _) in read.items()})
    made.notes = [*recording.notes, *(thinned_note(name, len(read[name][0]), read[name][1]) for name in long)]
    return made


def _itself(rows: Rows) -> Rows:
    return rows


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
        raise UnreadableRecording(f"{given} cannot be read: {one_line(error)}") from error


def read_footer(path: Path) -> dict[str, Any]:
    """What a recording says of itself, without its tables; of one that is still recorded, as of its last checkpoint.

    **Errors** UnreadableRecording.
    """
    try:
        _check_is_parquet(path)
        seal.check_file(path, whole=False)
        return _footer(pq.ParquetFile(path), path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnreadableRecording(f"{path} cannot be read: {one_line(error)}") from error


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
            f"{path} is damaged: its parquet footer cannot be read ({one_line(error)}): restore it from a copy"
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
        raise UnreadableRecording(f"{shown} is damaged or cannot be read: {one_line(error)}") from error
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
    for name, expected in KINDS.items():
        found = types.get(name, expected)  # a column added since is one nobody wrote to
        if found != expected:
            raise UnreadableRecording(f"{path} is damaged: column {name} is {found}, {expected} expected")
    footer["start_mono_ns"] = start if type(start := footer.get("start_mono_ns")) is int else 0
    footer["state"] = str(footer.get("state"))
    return footer
