"""Last words that nobody inside the job could write down: the end of its stderr, and what faulthandler left in files.

Runs in the recorder, when the job has ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from ..agent.journal import open_regular
from .stderr_file import TAIL_BYTES
from .tree import Row

TABLE = "crash_text"
_FAULT_FILE = re.compile(r"fault-(\d+)-(\d+)\.txt")  # agent/life/fatal_signals.py
_MOST_READ_BYTES = 1024 * 1024
_CRASHED = b"Current thread"


def of_stderr(text: str, pid: int, start_ticks: int | None) -> Row:
    """The process is the command's: which of its children wrote what is not known."""
    return {"pid": pid, "start_ticks": start_ticks, "crash_source": "stderr", "last_words": text}


def of_fatal_signals(journal_path: str) -> Iterator[Row]:
    """Where the threads of each process stood that a fatal signal came to."""
    for name in sorted(os.listdir(journal_path)):
        if match := _FAULT_FILE.fullmatch(name):
            data = b""
            with suppress(OSError), os.fdopen(open_regular(os.path.join(journal_path, name)), "rb") as stream:
                data = stream.read(_MOST_READ_BYTES)
            if data:
                pid, start_ticks = map(int, match.groups())
                text = _cut(data).decode("utf-8", "replace")
                yield {"pid": pid, "start_ticks": start_ticks, "crash_source": "faulthandler", "last_words": text}


def _cut(data: bytes) -> bytes:
    """Of many threads, the one that crashed: it may be listed after the others."""
    if len(data) > TAIL_BYTES and (at := data.find(_CRASHED)) >= 0:
        data = data.splitlines(keepends=True)[0] + b"\n" + data[at:]
    return data[:TAIL_BYTES]
