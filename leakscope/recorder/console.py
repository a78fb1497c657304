"""What the recorder says, all of it on stderr: the live status, single lines, the answer. Runs in the recorder.

Nothing here may hold up or end a recording: a terminal that is stopped is skipped, one that is gone is forgotten. And
nothing may mix with what the job prints, which the recorder does not see: the status is in the terminal's title, and a
line for the user begins at the left edge wherever the job left the cursor.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

from ..signals import Signal, signal_name
from ..units import format_bytes, format_duration, short_rate
from .figures import Figures
from .limits import Kills, Limit

NO_KILLS = Kills()
_STDERR = 2
_REFRESH_S = 1.0
_COLUMNS = 80  # where nobody says
_PIPE_BYTES = 4096  # so much goes into a pipe that takes anything, without waiting
_SHOWN_LIMIT_S = 24 * 3600.0  # a limit farther away than a day is no news
# Beginnings of TERM: these show a title, or take one without a trace. The Linux console and serial lines may print it.
_WITH_TITLE = (
    "xterm", "tmux", "screen", "rxvt", "alacritty", "foot", "kitty", "konsole", "vte", "gnome", "wezterm", "ghostty",
    "putty", "mlterm", "contour", "st-", "iterm", "mintty", "cygwin",
)  # fmt: skip
_KEEP_TITLE, _TITLE, _END_OF_TITLE, _OLD_TITLE = "\x1b[22;2t", "\x1b]2;", "\x07", "\x1b[23;2t"


def say(line: str) -> None:
    """One line for the user; in a terminal what is longer goes on below its own beginning."""
    _write(_left_edge() + _folded(f"leakscope: {line}", "  "))


def say_under(line: str) -> None:
    """A further line of what was said just before."""
    _write(_folded(f"  {line}", "    "))


def pass_on(text: str) -> None:
    """What a helper wrote for the user, as it is; what nobody reads is left out."""
    data = (_left_edge() + text if text else "").encode("utf-8", "replace")
    while data and _is_writable():
        with suppress(OSError):
            os.write(_STDERR, data[:_PIPE_BYTES])
        data = data[_PIPE_BYTES:]


def is_watched() -> bool:
    """A terminal reads along, and shows this process group."""
    return os.isatty(_STDERR) and _can_write()


def columns() -> int:
    """How wide a line may be before the terminal breaks it."""
    with suppress(OSError):
        return os.get_terminal_size(_STDERR).columns or _COLUMNS
    return _COLUMNS


def _folded(line: str, indent: str) -> str:
    room = columns() if os.isatty(_STDERR) else len(line)
    parts = [""]
    for word in line.split(" "):
        if len(parts[-1]) + len(word) > room and parts[-1].strip():
            parts.append(indent)
        parts[-1] += f"{word} "
    return "".join(f"{part.rstrip(' ')}\n" for part in parts)


class Status:
    """The figures in the title of the terminal, at most once a second, while it shows this process group."""

    def __init__(self, enabled: bool) -> None:
        self._speaks = enabled
        self._enabled = enabled and os.environ.get("TERM", "").startswith(_WITH_TITLE) and os.isatty(_STDERR)
        self._shown = False
        self._next_s = 0.0

    def show(self, now_s: float, elapsed_s: float, figures: Figures, limit: Limit | None) -> None:
        if not self._enabled or now_s < self._next_s or not _can_write():
            return
        self._next_s = now_s + _REFRESH_S
        # In one write: half a sequence, and the job's next byte would be taken for a part of it.
        title = f"{_TITLE}{status_text(elapsed_s, figures, limit)} (leakscope){_END_OF_TITLE}"
        _write(title if self._shown else _KEEP_TITLE + title)
        self._shown = True

    def interrupt(self, line: str) -> None:
        """A line that stays; left out where nobody reads: it must not block."""
        if self._speaks and _is_writable():
            say(line)

    def end(self) -> None:
        """The terminal has its own title again."""
        if self._shown and _can_write():
            _write(_OLD_TITLE)
        self._shown = False


def status_text(elapsed_s: float, figures: Figures, limit: Limit | None) -> str:
    """``1.2 GiB, +12.0 MiB/min, 5 processes, limit in 32 min 10 s, 4 min 05 s``; a rate, once it grows steadily."""
    parts = [format_bytes(figures.last_bytes)]
    if (rate := figures.steady_bytes_per_s) is not None:
        parts.append(short_rate(rate, elapsed_s, signed=True))
    parts.append("1 process" if figures.process_count == 1 else f"{figures.process_count} processes")
    if limit is not None and limit.seconds_left is not None and limit.seconds_left < _SHOWN_LIMIT_S:
        parts.append(f"limit in {format_duration(limit.seconds_left)}")
    parts.append(format_duration(round(elapsed_s)))
    return ", ".join(parts)


def ending_text(exit_code: int | None, elapsed_s: float, kills: Kills = NO_KILLS) -> str:
    """How the command ended, for a person; ``exit_code`` is negative for a signal, None if it still runs.

    ``kills``: a shell, a launcher or a pool of workers may stand between the command and what the kernel killed.
    """
    after = f"after {format_duration(elapsed_s)}"
    if exit_code is not None and -exit_code == Signal.SIGKILL and kills.number:
        return f"the command was killed by the kernel {after}: {kills.why}"
    who = "a process of it" if kills.number == 1 else f"{kills.number} processes of it"
    blame = f"; the kernel killed {who}: {kills.why}" if kills.number else ""
    if exit_code is None:
        return f"recorded {format_duration(elapsed_s)}; the command goes on{blame}"
    if exit_code >= 0:
        return f"the command exited with status {exit_code} {after}{blame}"
    return f"the command was ended by {named_signal(-exit_code)} {after}{blame}"


def memory_text(figures: Figures) -> str:
    """``peak 118 MiB``: what was loaded at the start is no growth, and the last sample is of a job that ends."""
    if figures.first_bytes is None:
        return "it ended before its memory could be read"
    about = "peak about " if figures.most_processes > 1 else "peak "  # what they share was read now and then
    return figures.peak.text.replace("peak ", about, 1)


def named_signal(number: int) -> str:
    name = signal_name(number)
    return f"{name} ({number})" if name.startswith("SIG") else name


def _left_edge() -> str:
    """What brings the cursor to the left edge of a line without a line left empty, wherever the job left it.

    A row of blanks ends in the margin of the same line if it began at its left edge, else it runs on into the next one.
    """
    if not os.isatty(_STDERR):
        return ""
    columns = 0
    with suppress(OSError):
        columns = os.get_terminal_size(_STDERR).columns
    return " " * columns + "\r\x1b[K" if columns and os.environ.get("TERM", "dumb") != "dumb" else ""


def _can_write() -> bool:
    """In the foreground (else a terminal may stop us) and not held by ^S."""
    try:
        return os.tcgetpgrp(_STDERR) == os.getpgrp() and _is_writable()
    except OSError:
        return False


def _is_writable() -> bool:
    """A pipe that is full would hold up the recorder."""
    try:
        return bool(select.select([], [_STDERR], [], 0)[1])
    except OSError:
        return False


def _write(text: str) -> None:
    with suppress(OSError):
        os.write(_STDERR, text.encode("utf-8", "replace"))
