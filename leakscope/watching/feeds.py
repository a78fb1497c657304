"""Where the rows that are watched come from: a recording that goes on, one that has ended, processes seen from outside.

A feed has ``poll``, which gives what is new, ``is_over``, and says in ``command`` what is watched.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..agent.journal import open_regular
from ..errors import BadInput
from ..locks import lock
from ..recorder import attach, proc
from ..recorder.output import JOURNAL_SUFFIX
from ..recorder.sources import cgroup_memory, gpu_memory, host_memory, limits, process_memory
from ..recorder.tree import Tree
from ..storage.meta import read_meta
from .cursor import Cursor, Row

if TYPE_CHECKING:
    from ..storage import Recording

_READ_ON_S = 0.5  # of a long run the whole journal must be read first: keys and the screen are not kept waiting
_QUIET_S = 15.0  # without news, only then the lock is tried: who tries it stands in the way of others for an instant
_SOURCES = (process_memory, host_memory, cgroup_memory, limits, gpu_memory)


class Feed(Protocol):
    """What ``watch`` looks at. ``start_mono_ns`` None: the first row is the beginning."""

    command: str
    start_mono_ns: int | None

    @property
    def is_over(self) -> bool: ...

    @property
    def is_behind(self) -> bool:
        """There is more to be had at once."""

    def poll(self) -> Iterable[tuple[str, Row]]: ...

    def close(self) -> None: ...


def journal_of(output: Path) -> Path:
    return output.with_name(output.name + JOURNAL_SUFFIX)


def is_recording(journal: Path) -> bool:
    """Whether a recorder holds the journal's lock."""
    try:
        descriptor = open_regular(journal / "lock")
    except OSError:
        return False
    try:
        return not lock(descriptor, is_shared=True)
    finally:
        os.close(descriptor)


class JournalFeed:
    """A recording that goes on: the journal is read on, nothing is asked of the recorder. Cost by what is new."""

    def __init__(self, output: Path, *, keeps_files: bool = True) -> None:
        self._journal = journal_of(output)
        self._cursor = Cursor(str(self._journal), keeps_files=keeps_files)
        self._news_s = time.monotonic()
        self._ended = False
        meta = read_meta(self._journal)
        self.command, self.start_mono_ns = command_of(meta), start_of(meta)

    @property
    def is_over(self) -> bool:
        """The recorder wrote its last row, or is gone."""
        return self._ended

    @property
    def is_behind(self) -> bool:
        return self._cursor.is_behind

    def poll(self) -> Iterator[tuple[str, Row]]:
        was_there = self._journal.exists()  # asked before reading: what was written last is read all the same
        for table, row in self._cursor.read_on(_READ_ON_S):
            self._news_s = time.monotonic()
            self._ended |= table == "events" and row.get("event") == "end"
            yield table, row
        if not was_there or (time.monotonic() - self._news_s > _QUIET_S and not is_recording(self._journal)):
            self._ended = True

    def close(self) -> None:
        self._cursor.close()


class RecordingFeed:
    """A recording that has ended: all of it at once, or as it went, ``speed`` times as fast."""

    is_behind = False

    def __init__(self, recording: Recording, speed: float | None = None) -> None:
        from .past import rows_of  # numpy, pandas and pyarrow, 110 MB: not for who watches a run that goes on

        self.command, self.start_mono_ns = command_of(recording.meta), start_of(recording.meta)
        self._rows = rows_of(recording)
        self._next = next(self._rows, None)
        self._speed = speed
        self._first_ns = self._next[1]["time_mono_ns"] if self._next is not None else 0
        self._began_s: float | None = None  # when it was first asked: a screen takes a while to come up

    @property
    def is_over(self) -> bool:
        return self._next is None

    def poll(self) -> Iterator[tuple[str, Row]]:
        now_s = time.monotonic()
        self._began_s = now_s if self._began_s is None else self._began_s
        played_s = (now_s - self._began_s) * self._speed if self._speed else float("inf")
        until_ns = self._first_ns + played_s * 1e9
        while (told := self._next) is not None and told[1]["time_mono_ns"] <= until_ns:
            self._next = next(self._rows, None)
            yield told

    def hold(self, seconds: float) -> None:
        """For so long nobody looked: it goes on from where it was."""
        if self._began_s is not None:
            self._began_s += seconds

    def close(self) -> None:
        self._next = None


class OutsideFeed:
    """Processes and their children without a recording, read from outside: no steps, no snapshots."""

    start_mono_ns: int | None = None
    is_behind = False

    def __init__(self, pids: Sequence[int]) -> None:
        """**Errors** BadInput for a pid that does not run."""
        for pid in pids:
            stat = proc.stat(pid) if pid > 0 else None
            if stat is None or stat.is_dead:
                raise BadInput(f"there is no process {pid} to watch")
        self.command = shlex.join(attach.commands(pids))
        self._tree = Tree(None, os.getpid(), attached_pids=pids)
        self._due_s = dict.fromkeys(_SOURCES, 0.0)
        self._looked = False

    @property
    def is_over(self) -> bool:
        return self._looked and not self._tree.living

    def poll(self) -> Iterator[tuple[str, Row]]:
        now_s = time.monotonic()
        for row in self._tree.update(now_s, time.monotonic_ns()):
            yield "processes", _dated(row)
        self._looked = True
        for source in _SOURCES:
            if now_s >= self._due_s[source]:
                self._due_s[source] = now_s + getattr(source, "PERIOD_S", 0.0)
                for row in source.rows(self._tree):
                    yield source.TABLE, _dated(row)

    def close(self) -> None:
        """Nothing is held."""


def command_of(meta: dict[str, Any]) -> str:
    """The command as a person types it."""
    return shlex.join(map(str, meta.get("command") or ()))


def start_of(meta: dict[str, Any]) -> int | None:
    start = meta.get("start_mono_ns")
    return start if type(start) is int and start > 0 else None


def _dated(row: Row) -> Row:
    return {"time_mono_ns": time.monotonic_ns(), **row}
