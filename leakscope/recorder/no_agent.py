"""Says in time that a job is not seen from inside, while it can still be started anew. Runs in the recorder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from .. import outside
from ..agent import refusal
from ..agent.journal import read_blocks
from .tree import Tree

LOOK_S = 5.0  # an agent has begun to write by then, also on a busy machine


def at_start(command: Sequence[str]) -> str | None:
    """A line for the user, if the interpreter is told to keep everything out; None if not."""
    flag = outside.flag_of(command) if outside.is_python(command[0]) else None
    if flag is None:
        return None
    return f"the job is seen from outside only, since python {flag} lets nothing in: {outside.remedy(flag)}"


def while_it_runs(tree: Tree, journal_path: str) -> str | None:
    """Why the largest Python process that is old enough is not seen inside, if no agent writes for it."""
    grown = [p for p in tree if tree.now_s - p.born_s >= LOOK_S - 1.0 and outside.is_python(p.exe or p.stat.comm)]
    if not grown:
        return None
    largest = max(grown, key=lambda process: process.rss_bytes)
    process = f"-{largest.pid}-{largest.stat.start_ticks}-"
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(journal_path)
    if any(name.startswith(f"agent{process}") for name in names):
        return None
    seen = f"{largest.stat.comm}[{largest.pid}] is seen from outside only"
    for name in names:
        if name.startswith(f"{refusal.STEM}{process}"):
            return f"{seen}: {_said(os.path.join(journal_path, name))}"
    flag = outside.flag_of(largest.arguments)
    why = f"python {flag} lets nothing in" if flag is not None else outside.UNKNOWN
    return f"{seen}, since {why}: {outside.remedy(flag)}"


def _said(path: str) -> str:
    """Why the agent did not begin, as it wrote down itself."""
    with suppress(OSError):
        for _table, rows in read_blocks(path):
            return str(rows[0]["text"])
    return outside.UNKNOWN
