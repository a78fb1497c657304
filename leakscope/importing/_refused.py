"""Files that are known and not imported, since they say nothing of memory: why, and what to use instead."""

from __future__ import annotations

import re

_LINE = re.compile(rb":\d+\)$")  # where the name of a frame ends
_OF_TIME = (
    "it says where a program spent its time, and nothing of its memory: for memory by line import a capture of memray "
    "or a profile of Scalene, or run the program under leakscope record"
)


def why(head: bytes) -> str | None:
    """What such a file is and why it is not imported, to go on after its name; None for any other."""
    form = _form(head.lstrip())
    return f"is a profile of stacks ({form}, as py-spy writes it): {_OF_TIME}" if form else None


def _form(head: bytes) -> str | None:
    start = head[:2000]
    if head.startswith(b"{") and b"speedscope.app/file-format-schema" in start:
        return "speedscope"
    if head.startswith(b"[") and b'"cat":"py-spy"' in start:
        return "chrometrace"
    if head.startswith(b"[") and b'"os_thread_id"' in start and b'"frames"' in start:
        return "dump --json"
    if head.startswith(b"Process ") and b"\nPython v" in start:
        return "dump"
    if head.startswith(b"<?xml") and b"<svg" in start and b"FlameGraph" in head:
        return "flamegraph"
    return "raw" if _is_stack(head.split(b"\n", 1)[0]) else None


def _is_stack(line: bytes) -> bool:
    """A collapsed stack, with lines as py-spy has them: ``run (train.py:12);step (train.py:7) 93``."""
    frames, _, count = line.rpartition(b" ")
    last = frames.rpartition(b";")[2]
    return count.isdigit() and b" (" in last[1:] and _LINE.search(last[-20:]) is not None and b";;" not in frames
