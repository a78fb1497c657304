"""The helper of the recorder that has the libraries loaded when the job ends.

It says ``{"ready": true}``, then reads orders on stdin, a line of JSON each: ``["tell", path]``, and says how that
recording stands: ``{"answer": [...], "as_of_s": null}``. ``["look", path]`` asks the same while the job runs, which
goes first; ``["ahead", path]`` comes while the file is still being made, so that the answer is there once it is.
Whatever goes wrong ends it, and the recorder does without.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import analyzers
from ..storage import keep_answer, open_recording, read_ahead
from . import Told, told

if TYPE_CHECKING:
    from ..storage import Recording

_MOST_BYTES = 512 << 20  # of a file that is written anew for its verdict while somebody waits: 0.6 s


def main(yielding: Callable[[Callable[[], None]], None] = lambda work: work()) -> int:
    """Until stdin ends, which it does with the recorder. ``yielding`` does something when nobody wants the core."""
    analyzers.kinds()  # loads them
    gc.freeze()
    gc.enable()
    _say({"ready": True})
    ahead: tuple[Recording, Told] | None = None
    for line in sys.stdin:
        order, path = json.loads(line)
        if order == "ahead":
            recording = read_ahead(path)
            ahead = (recording, told(recording)) if recording is not None else None
            continue
        if order == "look":
            yielding(lambda path=path: _tell(*_judged(path)))  # type: ignore[misc]
            continue
        _tell(*(ahead or _judged(path)))
        ahead = None
    return 0


def _judged(path: str) -> tuple[Recording, Told]:
    recording = open_recording(path, read_only=True)  # who records makes a file of it
    return recording, told(recording)


def _tell(recording: Recording, answer: Told) -> None:
    keep_answer(recording, answer.footer, _MOST_BYTES)
    _say({"answer": answer.lines, "as_of_s": answer.as_of_s})


def _say(what: Mapping[str, object]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")
