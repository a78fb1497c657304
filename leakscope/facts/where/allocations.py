"""Who asked for the memory that was gained and is still there: sampled by the agent, stack by stack."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage import Row, Rows
from ...units import TOLD_S
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..remembered import remembered
from ..series.arithmetic import Floats
from ..tables import figures, int_of, only, records, text_of

TABLE = "allocation_stacks"
_MAPPED = "mmap"
NATIVE = ("malloc", _MAPPED)
ARENAS = "arenas"  # of Python's: kept as long as an object is in one
OBJECTS = ("objects",)
# Of a wheel the libraries lie in the package, or beside it in a folder of its name: numpy.libs, .libs_lxml.
_PACKAGES = re.compile(r"(?:site|dist)-packages/(?:\.libs_?)?([^/.]+)")
_STANDARD = re.compile(r"/lib-dynload/([^/.]+)")
_SHARED_NAMES = ("google", "azure", "nvidia")  # many libraries are imported from them
_NEAR = 3  # frames: of the function that asked
_CALLS_FOR_PROGRAMS = ("libffi", "_ctypes.", "_cffi_backend.")  # what they call, the program named
_KEY = ("allocator", "native_stack", "stack")


@dataclass(frozen=True)
class Allocations:
    """Of one stack. ``bytes``: alive at the end of the judged window less alive at its start, estimated.

    ``settled_bytes``: of what is alive at the end, what has been there for 10 s. ``asked_bytes``: asked for within the
    window, freed or not. ``sample_count``: the samples alive at the end; ``error_bytes``: one standard error of what
    they say. ``file``, ``line``, ``function``: the innermost call of the user's; None where a thread has none.
    """

    allocator: str
    stack: str
    file: str | None
    line: int | None
    function: str | None
    native_library: str | None
    native_function: str | None
    native_stack: str
    bytes: float
    live_bytes: float
    settled_bytes: float
    asked_bytes: float
    sample_count: int
    error_bytes: float

    def made_by(self, makers: Container[str]) -> str | None:
        """Which of these functions of C asked for it."""
        symbols = (frame.rpartition(":")[2] for frame in self.native_stack.split("\n")[:_NEAR])
        return next((symbol for symbol in symbols if symbol in makers), None)

    @property
    def package(self) -> str | None:
        """Whose library it was that asked."""
        return None if self.is_called_by_address else package_of(self.native_library or "")

    @property
    def is_called_by_address(self) -> bool:
        """Of the system's: by ctypes or cffi, as the program or a package of Python code asked for it."""
        return (self.native_library or "").rpartition("/")[2].startswith(_CALLS_FOR_PROGRAMS)


def package_of(library: str) -> str | None:
    """As it is imported; None: Python's own, or the system's."""
    found = installed(library)
    if found is None:
        return _beside_a_program(library)
    name, path = found.group(1), library[found.end(1) :]
    return f"{name}.{path.split('/')[1]}" if name in _SHARED_NAMES and path.startswith("/") else name


def installed(library: str) -> re.Match[str] | None:
    """Where in a path the package begins; None: it lies elsewhere, as beside the program."""
    return _PACKAGES.search(library) or _STANDARD.search(library)


def _beside_a_program(library: str) -> str | None:
    """The name of an extension module of its own."""
    folder, _, file = library.rpartition("/")
    is_one = folder.startswith("/") and file.endswith(".so") and not library.startswith(("/usr/", "/lib"))
    return file.split(".", 1)[0] or None if is_one else None


@remembered
def allocations(growth: TreeGrowth, process: ProcessGrowth, allocators: tuple[str, ...] = NATIVE) -> list[Allocations]:
    """Of the judged window, the one that gained most first. Empty where nothing was sampled."""
    rows = process.rows(TABLE)
    rows = only(rows, rows["allocator"].isin(allocators))
    moments = sorted(process.rows(TABLE)["time_s"].unique())
    moments = [at_s for at_s in moments if at_s <= growth.end_s + TOLD_S]
    if not moments:
        return []
    # As it ends main() has returned, and what its variables held is freed: that is asked where nothing was told before.
    at_work = [at_s for at_s in moments if at_s <= process.exit_s]
    moments = at_work if rows["time_s"].isin(at_work).any() else moments
    # Where the window begins before the first flush, what was there by then is no news: most of it is warm-up.
    early = [at_s for at_s in moments if at_s <= max(growth.start_s, moments[0])]
    has_both_ends = early[-1] < moments[-1] and early[-1] <= (growth.start_s + growth.end_s) / 2
    first = _at(rows, early[-1]) if has_both_ends else {}
    found = [_of(row, first.get(key)) for key, row in _at(rows, moments[-1]).items()]
    # A library may reserve a gigabyte of addresses for what it will ask for: that is nothing that anybody holds.
    most = float(process.held_bytes.max()) if process.held_bytes.size else 0.0
    found = [one for one in found if one.allocator != _MAPPED or one.live_bytes <= most]
    return sorted(found, key=lambda one: (-one.bytes, one.stack, one.native_stack))


def course(growth: TreeGrowth, process: ProcessGrowth, files: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """(moments up to the end of the judged window, what was alive then of what was asked for below one of these files,
    the square of one standard error of that): of what came in between it is the difference, as the others are the same.
    """
    rows = process.rows(TABLE)
    rows = only(rows, rows["allocator"].isin(NATIVE) & (rows["time_s"] <= growth.end_s))
    is_own = rows["stack"].fillna("").map(lambda stack: any(file in stack for file in files))
    moments = np.unique(figures(rows, "time_s"))
    own = only(rows, is_own)
    at = np.searchsorted(moments, figures(own, "time_s"))
    live, variance = (
        np.bincount(at, np.nan_to_num(values), moments.size).astype(np.float64)
        for values in (figures(own, "live_bytes"), figures(own, "error_bytes") ** 2)
    )
    return moments, live, variance


def function_name(symbol: str | None) -> str | None:
    """``c10::alloc_cpu`` for ``_ZN3c109alloc_cpuEm``: what people call a function of C++ or Rust."""
    if symbol is None or not symbol.startswith("_ZN"):
        return symbol
    rest = symbol[3:].lstrip("KVRO")
    parts = ["std"] if rest.startswith("St") else []  # what follows is mostly a template: its name tells enough
    rest = rest[2:] if parts else rest
    while (found := re.match(r"(\d+)", rest)) is not None:
        begin = found.end()
        end = begin + int(found.group(1))
        parts.append(rest[begin:end])
        rest = rest[end:]
    if len(parts) > 1 and re.fullmatch(r"h[0-9a-f]{16}", parts[-1]):
        del parts[-1]  # of Rust: tells instances apart
    return "::".join(parts) or symbol


def _at(rows: Rows, at_s: float) -> dict[tuple[str, ...], Row]:
    """The rows of one moment. Two stacks that look alike (another way through native code) are one."""
    found: dict[tuple[str, ...], Row] = {}
    for row in records(only(rows, rows["time_s"] == at_s)):
        key = tuple(text_of(row, column) or "" for column in _KEY)
        known = found.get(key)
        if known is not None:
            for column in ("live_bytes", "settled_bytes", "asked_bytes", "sample_count"):
                row[column] += known[column]
            row["error_bytes"] = round((_error(row) ** 2 + _error(known) ** 2) ** 0.5)
        found[key] = row
    return found


def _error(row: Row) -> float:
    return float(int_of(row, "error_bytes") or 0)


def _of(row: Row, first: Row | None) -> Allocations:
    def since(column: str) -> float:
        return float(row[column]) - (0.0 if first is None else float(first[column]))

    return Allocations(
        allocator=str(row["allocator"]),
        stack=text_of(row, "stack") or "",
        file=text_of(row, "owner_file"),
        line=int_of(row, "owner_line"),
        function=text_of(row, "function"),
        native_library=text_of(row, "native_library"),
        native_function=function_name(text_of(row, "native_function")),
        native_stack=text_of(row, "native_stack") or "",
        bytes=since("live_bytes"),
        live_bytes=float(row["live_bytes"]),
        settled_bytes=float(row["settled_bytes"]),
        asked_bytes=since("asked_bytes"),
        sample_count=int(row["sample_count"]),
        error_bytes=_error(row),
    )
