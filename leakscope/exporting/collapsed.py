"""Live allocations as collapsed stacks: a line a stack, for flamegraph.pl, inferno and speedscope.

Each line has the process, the calls from the outermost inward, and the bytes alive at the end, estimated from samples.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..facts.case import Case
from ..words import printable
from ._stacks import stacks_by_process

SUFFIX = ".collapsed.txt"


def chunks(case: Case) -> Iterator[bytes]:
    """**Errors** BadInput where no allocation was sampled."""
    for process, stacks in stacks_by_process(case).items():
        lines: dict[str, int] = {}
        for stack in stacks:
            names = (f"{f.name} ({f.file}:{f.line})" if f.line else f.name for f in stack.frames)
            line = ";".join(map(_word, (process, *names)))
            lines[line] = lines.get(line, 0) + stack.live_bytes
        yield "".join(f"{line} {size}\n" for line, size in lines.items() if size).encode()


def _word(name: str) -> str:
    """A name in which nothing divides."""
    return printable(" ".join(name.replace(";", ":").split()))
