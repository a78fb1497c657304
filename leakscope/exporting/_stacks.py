"""Sampled allocations, stack by stack: what flame graphs are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from ..errors import BadInput
from ..facts.calls import calls_of
from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.where.allocations import NATIVE, OBJECTS, Allocations, allocations, function_name

_MOST_DEPTH = 1024


class Frame(NamedTuple):
    """One call. ``file``: of Python, the source; of native code, the library. ``line`` 0: not known."""

    name: str
    file: str
    line: int = 0


@dataclass(frozen=True)
class Stack:
    """What one stack asked for: ``frames`` from the outermost call inward. **Units** bytes, estimated from samples.

    ``live_bytes``: alive at the end; ``gained_bytes``: of that, what came in the judged window, never below 0.
    """

    frames: tuple[Frame, ...]
    live_bytes: int
    gained_bytes: int
    asked_bytes: int
    sample_count: int


def stacks_by_process(case: Case) -> dict[str, list[Stack]]:
    """By the name and pid of each process. **Errors** BadInput where no allocation was sampled."""
    found = {}
    for process in case.growth.processes:
        stacks = list(_stacks(case, process))
        if stacks:
            found[process.label] = stacks
    if not found:
        raise BadInput(
            f"{case.recording.path} has no sampled allocations: they need the agent inside a Python process of Linux "
            "on x86-64 or aarch64, for more than a second (docs/development/allocations.md)"
        )
    return found


def _stacks(case: Case, process: ProcessGrowth) -> Iterator[Stack]:
    for one in allocations(case.growth, process, (*NATIVE, *OBJECTS)):
        yield Stack(
            tuple(_frames(one)),
            live_bytes=round(one.live_bytes),
            gained_bytes=max(0, round(one.bytes)),
            asked_bytes=max(0, round(one.asked_bytes)),
            sample_count=one.sample_count,
        )


def _frames(one: Allocations) -> Iterator[Frame]:
    """Of Python from the outermost call inward, then of the libraries that the innermost one called."""
    calls = calls_of(one.stack)[:_MOST_DEPTH]
    native = list(takewhile(lambda call: not _is_python(call), one.native_stack.splitlines()[:_MOST_DEPTH]))
    for call in calls:
        yield Frame(call.function, call.file, call.line)
    for native_call in reversed(native):
        library, _, symbol = native_call.rpartition(":")
        function = function_name(symbol)
        yield Frame(library if function in (None, "", "?") else f"{function} ({library})", library)
    if not calls and not native:
        yield Frame("no call of the program's", "")


def _is_python(call: str) -> bool:
    """Whether it is the interpreter's own: what is further out is told by the calls of Python."""
    return call.startswith(("libpython", "python"))
