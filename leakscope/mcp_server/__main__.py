"""The reader: a line of JSON on stdin is a question, a line on stdout its answer. It ends with its stdin."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import LeakscopeError
from ._answers import MOST_BYTES, Desk

_MEMORY_BYTES = 2 << 30
_TOO_MUCH = "this recording needs more than 2 GiB of memory: read it by `leakscope report` in a terminal"


def main() -> int:
    """Serve the folder that is named on the command line."""
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may pass for an answer
    _limit()
    os.chdir(sys.argv[1])
    desk = Desk(Path(sys.argv[1]))
    with open(questions, "rb") as asked, open(answers, "wb") as out:
        for line in asked:
            out.write(json.dumps(_answer(desk, json.loads(line))).encode() + b"\n")
            out.flush()
    return 0


def _limit() -> None:
    """No file can be written from here on, and memory is bounded whatever a recording says of its sizes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _data_bytes() + _MEMORY_BYTES
    with suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    """What is reserved already, as the limit counts it: stacks of threads and pools, most of it never touched."""
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) * 1024 for line in stream if line.startswith("VmData:"))


def _answer(desk: Desk, question: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text, is_error = desk.answer(question["tool"], question["arguments"]), False
    except LeakscopeError as error:
        text, is_error = str(error), True
    except MemoryError:  # pyarrow's is one too
        text, is_error = _TOO_MUCH, True
    except Exception as error:  # whatever a damaged recording leads to costs one answer, not the server
        text, is_error = f"{question['tool']} failed: {type(error).__name__}: {error}", True
    if is_error:
        text = " ".join(text.split())[:600]
    shown = text.encode("utf-8", "replace")
    if len(shown) > MOST_BYTES:
        cut = len(shown) - MOST_BYTES
        text = f"{shown[:MOST_BYTES].decode('utf-8', 'ignore')}\n… {cut:,} bytes more are cut: ask for less"
    return {"text": text.encode("utf-8", "replace").decode("utf-8"), "is_error": is_error}


if __name__ == "__main__":
    sys.exit(main())
