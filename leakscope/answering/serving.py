"""The helper of the recorder that has the libraries loaded when the job ends.

It says ``{"ready": true}``, then reads orders on stdin, a line of JSON each: ``["finish", path, keep_journal]``, and
says whether there is a file now: ``{"made": true}``; ``["tell", path]``, and says how that recording stands:
``{"answer": [...], "as_of_s": null}``. ``["look", path]`` asks the same while the job runs, which goes first. Whatever
else goes wrong ends it, and the recorder does without.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping

from .. import analyzers
from ..errors import LeakscopeError
from ..storage import keep_answer, open_recording
from ..storage.finalize import finalize, run_lightly
from . import told

_MOST_BYTES = 512 << 20  # of a file that is written anew for its verdict while somebody waits: 0.6 s


def main(yielding: Callable[[Callable[[], None]], None] = lambda work: work()) -> int:
    """Until stdin ends, which it does with the recorder. ``yielding`` does something when nobody wants the core."""
    analyzers.kinds()  # loads them
    run_lightly()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # what is found is kept until it is told, and then this process ends
    gc.enable()
    _say({"ready": True})
    for line in sys.stdin:
        order, path, *keeps = json.loads(line)
        if order == "finish":
            _say({"made": _is_made(path, *keeps)})
        elif order == "look":
            yielding(lambda path=path: _tell(path))  # type: ignore[misc]
        else:
            _tell(path)
    return 0


def _is_made(path: str, keep_journal: bool) -> bool:
    """Another one does what it can, and says what is the matter."""
    try:
        finalize(path, keep_journal)
    except LeakscopeError:
        return False
    return True


def _tell(path: str) -> None:
    recording = open_recording(path, read_only=True)  # who records makes a file of it
    answer = told(recording)
    keep_answer(recording, answer.footer, _MOST_BYTES)
    peak_bytes = answer.footer.get("figures", {}).get("peak_bytes")
    _say({"answer": answer.lines, "as_of_s": answer.as_of_s, "peak_bytes": peak_bytes})


def _say(what: Mapping[str, object]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")
