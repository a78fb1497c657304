"""Which running processes may be worth recording: ``leakscope ps``. Runs by itself, beside the jobs.

Those of Python and those with a training library, of some size; two looks, ``LOOK_S`` apart, say how fast they grow.
Processes that one of them started are counted with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import needs_linux
from ..units import MiB, format_bytes
from . import proc
from .attach import resident_bytes, user_name
from .roles import role_of

LOOK_S = 2.0
LEAST_BYTES = 30 * MiB  # an interpreter has 10 MiB, with a training library loaded 150 MiB and more
_SHOWN_COLUMNS = 120  # where there is no terminal
_TITLES = ("PID", "MEMORY", f"IN {LOOK_S:.0f} S", "CHILDREN", "LOADED", "COMMAND")
# Part of the name of a mapped file -> what that means.
_LIBRARIES = (
    (b"/libtorch_cpu", "torch"),
    (b"/libtorch.so", "torch"),
    (b"/jaxlib/", "jax"),
    (b"libtensorflow", "tensorflow"),
    (b"/libcuda.so", "CUDA"),
    (b"/libamdhip64", "ROCm"),
)
_DRIVERS = ("CUDA", "ROCm")  # video players have them too
_HELPERS = ("compile-", "resource-tracker", "forkserver", "shell", "launcher")  # beginnings of roles


class Candidate(NamedTuple):
    """A process that may be worth recording, and what speaks for it."""

    pid: int
    rss_bytes: int
    grown_bytes: int
    libraries: tuple[str, ...]
    child_count: int
    child_bytes: int
    arguments: tuple[str, ...]
    owner: int

    @property
    def cells(self) -> tuple[str, ...]:
        """``4242``, ``12.6 GiB``, ``+206 MiB``, ``20 of 8.0 GiB``, ``torch, CUDA``, and what it runs."""
        command = " ".join(shlex.join(self.arguments).split())
        of = f"{user_name(self.owner)}: " if self.owner != os.geteuid() else ""
        return (
            str(self.pid),
            format_bytes(self.rss_bytes),
            format_bytes(self.grown_bytes, signed=True) if abs(self.grown_bytes) >= MiB else "",
            f"{self.child_count} of {format_bytes(self.child_bytes)}" if self.child_count else "",
            ", ".join(self.libraries),
            of + _printable(command),
        )


def main() -> int:
    """Print a row for each candidate, the likeliest first; 0, or 1 if there is none. **Errors** LeakscopeError."""
    needs_linux("ps")
    found = find()
    if not found:
        least = format_bytes(LEAST_BYTES)
        sys.stderr.write(f"leakscope: no process with Python or a training library has {least} or more\n")
        return 1
    sys.stdout.write("\n".join([*_table(found), "", "Record one of them: leakscope attach PID"]) + "\n")
    return 0


def _table(found: Sequence[Candidate]) -> Iterator[str]:
    rows = [_TITLES, *(candidate.cells for candidate in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES) - 1)]
    columns = shutil.get_terminal_size((_SHOWN_COLUMNS, 24)).columns
    for row in rows:
        figures = [f"{cell:>{width}}" for cell, width in zip(row, widths) if width]
        line = "  ".join([*figures, row[-1]])
        yield line if len(line) <= columns else line[: columns - 3] + "..."


def find(look_s: float = LOOK_S) -> list[Candidate]:
    """Candidates, the likeliest first: those that use a GPU or a training library, then by memory."""
    first = {pid: resident_bytes(pid) for pid in proc.pids()}
    time.sleep(look_s)
    candidates = {candidate.pid: candidate for candidate in _judged(first)}
    roots = {_topmost(pid, candidates) for pid in candidates}
    found = [_with_children(candidates[pid]) for pid in roots]
    return sorted(found, key=lambda c: (-len(c.libraries), -(c.rss_bytes + c.child_bytes)))


def _judged(first: dict[int, int]) -> Iterator[Candidate]:
    for pid, before in first.items():
        rss_bytes = resident_bytes(pid)
        stat = proc.stat(pid)
        arguments = proc.command_line(pid)
        if rss_bytes < LEAST_BYTES or stat is None or not arguments or pid == os.getpid():
            continue
        if role_of(stat.comm, arguments, None, None).startswith(_HELPERS):
            continue
        maps = proc.read(f"/proc/{pid}/maps") or b""  # empty where it may not be read
        libraries = tuple(dict.fromkeys(name for part, name in _LIBRARIES if part in maps))
        grown = rss_bytes - before if before else 0
        trains = bool(set(libraries) - set(_DRIVERS))
        if trains or b"/libpython" in maps or _is_python(pid, arguments):
            status = proc.read(f"/proc/{pid}/status") or b""
            owner = int((proc.text_of(status, b"Uid") or "-1").split()[0])
            yield Candidate(pid, rss_bytes, grown, libraries, 0, 0, tuple(arguments), owner)


def _is_python(pid: int, arguments: list[str]) -> bool:
    program = os.path.basename(proc.executable(pid) or arguments[0])
    return program.startswith(("python", "pypy"))


def _topmost(pid: int, candidates: dict[int, Candidate]) -> int:
    """The uppermost ancestor that is a candidate too: a worker is recorded with who started it."""
    top, stat = pid, proc.stat(pid)
    while stat is not None and stat.ppid > 1:
        if stat.ppid in candidates:
            top = stat.ppid
        stat = proc.stat(stat.ppid)
    return top


def _with_children(candidate: Candidate) -> Candidate:
    """With the processes below it, loader and compile workers among them."""
    below, parents = [], {candidate.pid}
    strangers = {pid: stat for pid in proc.pids() if (stat := proc.stat(pid)) is not None and not stat.is_dead}
    while ours := [pid for pid, stat in strangers.items() if stat.ppid in parents]:
        below += ours
        parents = set(ours)
        for pid in ours:
            del strangers[pid]
    return candidate._replace(child_count=len(below), child_bytes=sum(map(resident_bytes, below)))


def _printable(text: str) -> str:
    """A command line may hold anything, also what would move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)
