"""Files that are known and not imported, since they say nothing of memory: why, and what to use instead."""

from __future__ import annotations

import re

_STACK = re.compile(rb"(?:[^;\n]+;)*[^;\n]+ \([^\n;]*:\d+\) \d+")  # collapsed stacks, with lines as py-spy has them
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
    return "raw" if _STACK.fullmatch(head.split(b"\n", 1)[0]) else None
