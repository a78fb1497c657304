"""Reading last words: the calls a traceback names, and what was said apart from source lines.

A program may have "out of memory" in its source, where it handles that; so what is searched for known texts is a
message, never a traceback's quotation of the program. Pure functions: text in, text and frames out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...faults import crashed_thread
from ..calls import Call

_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+),? in (?P<function>[^\n]+)$')
_HEAD = "Traceback (most recent call last):"
_OF_WORKER = f"Original {_HEAD}"  # torch
_JOINTS = re.compile(
    r"\n(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n"
)
_OF_CHILD = re.compile(r"^Process \S.*:$")  # multiprocessing, before it prints the traceback
_NOT_ASKED = "(its message was not read"  # agent/life/last_words.py
_NOT_SAID = re.compile(r"^\s*(?:[\^~]+\s*|\[Previous line repeated \d+ more times?\])$")


def frames(text: str) -> list[Call]:
    """The calls of the last traceback, or of the thread that crashed: the innermost last."""
    crashed = crashed_thread(text)
    return _frames(text.splitlines()) if crashed is None else _frames(crashed)[::-1]


def innermost_user(calls: Sequence[Call]) -> Call | None:
    return next((call for call in reversed(calls) if call.is_user), None)


def last_traceback(text: str) -> str:
    """From where the last exception is reported, with what it was caused by, to the end; "" if there is none."""
    at = text.rfind(_HEAD)
    if at < 0:
        return ""
    while joints := [found for found in _JOINTS.finditer(text, 0, at) if found.end() >= at - 1]:
        earlier = text.rfind(_HEAD, 0, joints[-1].start())
        if earlier < 0:
            break
        at = earlier
    return text[at:]


def said(text: str) -> str:
    """What is left without calls, the source lines under them, and marks."""
    kept = []
    after_frame = False
    for line in text.replace("\r\n", "\n").split("\n"):
        line = line.rsplit("\r", 1)[-1]  # of a progress bar, what it was last
        is_frame = _FRAME.match(line) is not None
        if not (is_frame or (after_frame and line.startswith("    ")) or _NOT_SAID.match(line) or _HEAD in line):
            kept.append(line)
        after_frame = is_frame
    return "\n".join(kept)


def final(text: str) -> str:
    """The part of a chain of exceptions that ended the program."""
    return _JOINTS.split(text)[-1]


def message(text: str, exception_type: str | None) -> str:
    """``ValueError: the first line of what it says``; of an exception that a worker handed over, the worker's."""
    text = final(text)
    name = (exception_type or "").removeprefix("__main__.")
    if _OF_WORKER in text:
        text, name = text.rpartition(_OF_WORKER)[2], ""
    lines = [line for line in said(text).strip().splitlines() if line.strip()]
    line = next((line for line in lines if name and line.startswith(name)), lines[0] if lines else name)
    return line if len(line) <= 200 else line[:199] + "…"


def exception_of(text: str) -> str:
    """The type in the last line of a traceback."""
    return message(text, None).split(":", 1)[0]


def with_message(text: str, stderr: str) -> str:
    """A traceback of the agent's, with what it could not ask the exception where stderr has it."""
    head, mark, _ = text.rpartition(_NOT_ASKED)
    name = head.rpartition("\n")[2]
    lines = [line for line in said(stderr).splitlines() if name and line.startswith(name)]
    return head + lines[-1].removeprefix(name) if mark and lines else text


def of_child_processes(stderr: str) -> list[str]:
    """The tracebacks that multiprocessing prints of its processes: no hook hears of these exceptions."""
    lines = stderr.splitlines()
    heads = [at for at, line in enumerate(lines[1:], 1) if line == _HEAD and _OF_CHILD.match(lines[at - 1])]
    return [_one_traceback(lines[at:]) for at in heads]


def _one_traceback(lines: Sequence[str]) -> str:
    """To the first line that says an exception, unless it is the cause of another."""
    for at, line in enumerate(lines):
        goes_on = not line.strip() or line[0].isspace() or line == _HEAD or _JOINTS.match(f"\n{line}\n")
        if not (goes_on or _JOINTS.match("\n".join(["", *lines[at + 2 : at + 3], ""]))):
            return "\n".join(lines[: at + 1])
    return "\n".join(lines)


def _frames(lines: Sequence[str]) -> list[Call]:
    found = (_FRAME.match(line) for line in lines)
    return [Call(f["file"], int(f["line"]), f["function"]) for f in found if f]
