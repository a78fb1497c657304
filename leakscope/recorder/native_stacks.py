"""What memray saw in the windows that agents opened (``record --native``): read at the end, by the job's interpreter.

The agent cannot do it: resolving symbols takes seconds and memory. The recorder's own environment may lack memray.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..agent.journal import open_regular
from .tree import Row

TABLE = "native_stacks"
MOST_S = 120.0  # symbols of large libraries take tens of seconds
_FILE = re.compile(r"native-(\d+)-(\d+)\.memray")
# What Python itself asks for memory with; below it stands whoever wanted it.
_PYTHONS_OWN = re.compile(r"(?:Objects|Python|Modules|Parser|\./Include|Include)/")
_NOBODYS = re.compile(
    r"_?Py(?:[A-Z]\w*)?_\w+|(?:__(?:libc|GI__)_*)?(?:m|c|re)alloc\w*|posix_memalign|aligned_alloc|mmap\w*"
    r"|operator new.*"
)
_NOT_USERS = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3|(?:\.journal|/leakscope-run-\w+)/agent/|^<frozen|^<unknown>"
)


def rows(journal_path: str) -> Iterator[Row]:
    """A row for each place of the program that kept memory in a window. **Errors** none: what cannot be read is not."""
    for path in sorted(Path(journal_path).glob("native-*.memray")):
        match = _FILE.fullmatch(path.name)
        if match is None:
            continue
        process = {"pid": int(match[1]), "start_ticks": int(match[2])}
        try:
            with os.fdopen(open_regular(path.with_suffix(".json")), "rb") as stream:
                facts = json.loads(stream.read())
            os.close(open_regular(path))  # by its name the reader opens it itself
            records = _records(str(facts["executable"]), path)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError):
            continue
        for record in records:
            yield {**process, "window_s": facts.get("window_s"), **_row(record)}


def _records(executable: str, path: Path) -> list[dict[str, Any]]:
    reader = os.path.join(os.path.dirname(__file__), "memray_reader.py")
    # Its own session: ^C is for the job. No PYTHONPATH: that leads to the agent.
    done = subprocess.run(
        [executable, "-E", reader, str(path)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=MOST_S,
        start_new_session=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def _row(record: dict[str, Any]) -> Row:
    frames = [(str(function), str(file), int(line)) for function, file, line in record["frames"]]
    python = {(str(function), str(file)) for function, file, _ in record["python"]}
    users = [i for i, (function, file, _) in enumerate(frames) if (function, file) in python and _is_users(file)]
    owner = frames[users[0]] if users else (None, None, None)
    shown = frames[: users[-1] + 1] if users else frames
    return {
        "native_function": _native_function(frames, python),
        "function": owner[0],
        "owner_file": owner[1],
        "owner_line": owner[2],
        "stack": "\n".join(f"{file}:{line} {function}" for function, file, line in reversed(shown)),
        "allocation_count": record["count"],
        "grown_bytes": record["bytes"],
    }


def _is_users(file: str) -> bool:
    return not _NOT_USERS.search(file)


def _native_function(frames: list[tuple[str, str, int]], python: set[tuple[str, str]]) -> str | None:
    """The innermost function that is neither an allocator's nor Python's own; None if Python wanted it for itself."""
    for function, file, _ in frames:
        if (function, file) in python:
            return None
        if not (_PYTHONS_OWN.match(file) or _NOBODYS.fullmatch(function)):
            return function
    return None
