"""Rows on their way to the journal: added on any thread, written by the agent's. Runs in the job."""

from __future__ import annotations

import os
import stat
import sys
from _thread import allocate_lock

from . import journal, masking
from .interpreter import doors, files, names
from .interpreter.turns import give_way
from .journal import stamps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .interpreter.waiting import LastWill

MAX_FAILURES = 5  # after which the agent leaves the job alone for good
LOADED = "loaded"
SHUT = "take-skipped", "the main thread may only read and write (seccomp): the agent ended"
WATCHED = "take-skipped", "a tracer, profiler or debugger is set: no snapshots while it is"
_MOST_SOURCES = 300
_SOURCE_BYTES = 256 * 1024  # of one of them
_MOST_LIBRARY_SOURCES = 8
_GROWN_BYTES = 2 << 20  # an object of a library, or a module of it: then what lets go of that may stand in its source


class Outbox:
    """Of one process, whose ``pid`` and ``start_ticks`` stand in each of its rows."""

    def __init__(self, folder: str, options: dict[str, Any], will: LastWill) -> None:
        self._folder = folder
        self._masker = masking.Masker(options["salt"], options["sources"])
        self._may_add_sources = options["sources"]
        self.with_sources = False  # once there is a snapshot: they say what its lines are
        self._sources_written: set[str] = set()
        self._module_count = 0  # as the user's were last looked for
        self._retained: dict[str, int] = {}  # by module of a library: by one object of it, or by itself, at first
        self._grown: dict[str, None] = {}
        self._rows: list[tuple[str, dict[str, Any]]] = []
        self._writing = allocate_lock()
        self._failures = 0
        self._parting_words = doors.Appending()
        self._will = will
        self.parting: list[Callable[[], object]] = []  # to call as the thread ends, should nobody of ours say it before
        self.watched_is_noted = False
        self._identify()

    @property
    def folder(self) -> str:
        """The journal's."""
        return self._folder

    def _identify(self) -> None:
        self.pid = os.getpid()
        self.start_ticks = _start_ticks()
        self._journal = journal.Journal(
            self._folder, f"agent-{self.pid}-{self.start_ticks}", self._masker, files.create, give_way
        )

    def abandon(self) -> None:
        """In a forked child, first: all this is the parent's."""
        self._journal.abandon()
        self._rows = []

    def forked(self) -> None:
        """In a forked child: a journal of its own."""
        self._writing = allocate_lock()
        self.with_sources = False
        self._identify()
        self.watched_is_noted = False

    # ---- adding

    def add(self, table: str, row: dict[str, Any]) -> None:
        if self.is_given_up():
            return  # nobody writes it any more: it must not pile up
        row.update(stamps())
        self._rows.append((table, row))

    def add_stamped(self, table: str, row: dict[str, Any]) -> None:
        """One of several rows of the same moment."""
        self._rows.append((table, row))

    def note(self, kind: str, text: str) -> None:
        self.add("agent_notes", {"note": kind, "text": text})

    def note_loaded(self) -> None:
        self.note(LOADED, _version(self.pid))

    def has_snapshot(self) -> bool:
        """One that was made on another thread stands before rows that came after it."""
        tables = [table for table, _ in self._rows]
        return "takes" in tables or "heap_graphs" in tables

    # ---- writing

    def failed(self, error: Exception | None = None) -> None:
        """``error``: what was not foreseen; said once, while somebody still writes it."""
        if error is not None and not self._failures:
            self.note("agent-failed", f"{type(error).__name__}: {error!s}")
        self._failures += 1

    def is_given_up(self) -> bool:
        return self._failures >= MAX_FAILURES

    def write(self) -> None:
        """Hand the collected rows to the kernel. Only the agent's thread calls it, and the exit handler after it."""
        if not self._writing.acquire(timeout=2.0):
            return
        try:
            if not journal.is_there(self._folder):
                # The recording is over and its folder gone, but this process lives on: an open file would grow on.
                self._failures = MAX_FAILURES
                self.abandon()
                return
            if self.with_sources and self._may_add_sources:
                self._add_sources()
                self._add_library_sources()
            while self._rows:
                table, row = self._rows.pop(0)
                row["pid"] = self.pid
                row["start_ticks"] = self.start_ticks
                self._journal.add(table, row)
            self._journal.flush()
            self.prepare_to_part()
        except OSError:
            self.failed()
        finally:
            self._writing.release()

    def prepare_to_part(self) -> None:
        """A watched thread, or a process with a tool of sys.monitoring, runs no Python of ours: C code says so then.

        **Errors** OSError.
        """
        del self.parting[:]
        self._will.note(*self._last_note(SHUT))
        if not self.watched_is_noted:
            self._parting_words.is_to_append(*self._last_note(WATCHED))
            self.parting.append(self._parting_words.append)

    def _last_note(self, note: tuple[str, str]) -> tuple[str, bytes]:
        """(file, bytes) for who writes it without Python. **Errors** OSError."""
        process = dict(stamps(), pid=self.pid, start_ticks=self.start_ticks)
        notes = [(LOADED, _version(self.pid))] if not self._journal.written_bytes else []
        rows = [dict(process, note=note, text=text) for note, text in [*notes, note]]
        return self._journal.to_append("agent_notes", rows)

    def _add_sources(self) -> None:
        module_count, self._module_count = self._module_count, len(sys.modules)
        for name, module in list(sys.modules.items()) if self._module_count != module_count else ():  # 5 ms for 2,000
            give_way()
            file = names.getattr_plain(module, "__file__")
            if type(file) is not str or file in self._sources_written or len(self._sources_written) > _MOST_SOURCES:
                continue
            if file.endswith(".py") and names.is_user_module(name, file):
                self._add_source("sources", name, file)  # as stacks name it
        for of_module, file, text in _unfiled():
            if file not in self._sources_written and names.is_user_file(file):
                self._sources_written.add(file)
                self.add("sources", {"module": of_module, "file": file, "source_text": text[:_SOURCE_BYTES]})
        for file in self._files_named():  # functions that were sent here, as by Ray and Spark, are of no module
            stem = os.path.basename(file)[: -len(".py")]
            if file not in self._sources_written and len(self._sources_written) <= _MOST_SOURCES:
                self._add_source("sources", stem, file)

    def _files_named(self) -> set[str]:
        """Files of the user's that rows name, and that are here."""
        named = {row.get("owner_file") for _, row in self._rows}
        return {file for file in named if type(file) is str and file.endswith(".py") and names.is_user_file(file)}

    def _add_library_sources(self) -> None:
        """Of libraries of which an object, or a module, has grown: what ends that is for a reader to find there."""
        nodes = [row for table, row in self._rows if table == "heap_nodes"]
        modules = {row["node"]: _has_names_of(row) for row in nodes}
        now: dict[str, tuple[int, str]] = {}
        for row in nodes if len(self._retained) < _MOST_SOURCES else ():
            library = _module_of(row, modules)
            if library is not None:
                largest = row.get("retained_bytes") or 0, row.get("type_name") or ""
                now[library] = max(now.get(library, largest), largest)
        for module, (retained, kind) in now.items():
            if retained >= self._retained.setdefault(module, retained) + _GROWN_BYTES:
                self._grown.update(dict.fromkeys(_with_bases(module, kind)))
        for module in list(self._grown)[:_MOST_LIBRARY_SOURCES]:
            file = names.getattr_plain(sys.modules.get(module), "__file__")
            if type(file) is str and file.endswith(".py") and file not in self._sources_written:
                self._add_source("library_sources", module, file)

    def _add_source(self, table: str, module: str, file: str) -> None:
        self._sources_written.add(file)
        try:
            with open(file, "rb", opener=files.open_high) as stream:
                text = stream.read(_SOURCE_BYTES).decode("utf-8", "replace")
        except OSError:
            return
        self.add(table, {"module": module, "file": file, "source_text": text})


def _unfiled() -> Iterator[tuple[str, str, str]]:
    """(module, name, text) of code that is in no file of its own: of -c, of stdin, and what linecache was told."""
    main = sys.modules.get("__main__")
    if names.getattr_plain(main, "__file__") is None:
        arguments = names.getattr_plain(sys, "orig_argv")
        given = [one for one in arguments if type(one) is str] if type(arguments) is list else []
        if "-c" in given[1:-1]:
            yield "__main__", "<string>", given[given.index("-c", 1) + 1]
        elif given[1:] in ([], ["-"]):
            yield "__main__", "<stdin>", _standard_input()
    cache = names.getattr_plain(sys.modules.get("linecache"), "cache")
    for name, entry in list(cache.items()) if type(cache) is dict else ():
        if type(name) is str and type(entry) is tuple and len(entry) == 4 and (name[:1] == "<" or entry[1] is None):
            lines = entry[2] if type(entry[2]) is list else []  # a cell of Jupyter's names a file that is none
            yield os.path.basename(name).strip("<>"), name, "".join(line for line in lines if type(line) is str)


def _standard_input() -> str:
    """As the interpreter read it, if it is a file: its position stays where it is."""
    try:
        is_file = stat.S_ISREG(os.fstat(0).st_mode)
        return os.pread(0, _SOURCE_BYTES, 0).decode("utf-8", "replace") if is_file else ""
    except OSError:
        return ""


def _has_names_of(row: dict[str, Any]) -> str | None:
    """The module that it is, or a class of which it is."""
    name = row.get("edge_name" if row.get("type_name") == "module" else "owner")
    if type(name) is not str or row.get("type_name") != "module":
        return name.rpartition(".")[0] if type(name) is str else None
    return name[2:-2] if name.startswith("['") else None


def _module_of(row: dict[str, Any], modules: dict[Any, Any]) -> str | None:
    """Of an object of a library the module of its class, of the names in a module or a class that module."""
    if row.get("edge_kind") == "namespace":
        return modules.get(row.get("path_node"))
    kind = row.get("type_name")
    return kind.rpartition(".")[0] or None if type(kind) is str else None


def _with_bases(module: str, kind: str) -> list[str]:
    """A module, and those of the classes that a class of it is derived from."""
    cls = names.getattr_plain(sys.modules.get(module), kind.rpartition(".")[2])
    above = names.mro_of(cls)[:-1] if names.is_a(type(cls), type) else ()
    return [module, *filter(None, map(names.module_of, above))]


def _version(pid: int) -> str:
    return f"Python {sys.version.split()[0]}, pid {pid}"


def _start_ticks() -> int:
    try:
        with open("/proc/self/stat", "rb", opener=files.open_high) as stream:
            return int(stream.read().rsplit(b")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
