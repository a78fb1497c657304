"""What the terminal can do, and a line as it is written there."""

from __future__ import annotations

import os
from contextlib import suppress

from .frame import ALARM, FAINT, HEAD, Line

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_STYLES = {
    HEAD: "\x1b[1m", ALARM: "\x1b[31m", FAINT: "\x1b[2m",
    "tensors": "\x1b[34m", "held by objects": "\x1b[32m", "other": "\x1b[90m",
}  # fmt: skip


def is_screen() -> bool:
    """Whether the output is a terminal that knows more than lines."""
    return os.isatty(_STDOUT) and os.environ.get("TERM", "dumb") != "dumb"


def has_keys() -> bool:
    """Whether somebody sits at it: Textual reads keys from stdin, and draws on stderr."""
    return is_screen() and os.isatty(_STDIN) and os.isatty(_STDERR)


def width() -> int:
    """In cells."""
    with suppress(OSError):
        return os.get_terminal_size(_STDOUT).columns or 80
    return 80


def has_colour() -> bool:
    """By NO_COLOR and FORCE_COLOR, else where the output is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_screen()


def styled(line: Line, colour: bool) -> str:
    if colour and line.parts:
        return "".join(styled(Line(part.text, part.style), colour) for part in line.parts)
    before = _STYLES.get(line.style) if colour else None
    return f"{before}{line.text}\x1b[0m" if before else line.text
