"""What the recorder says, all of it on stderr: the live status line, single lines, the summary. Runs in the recorder.

Nothing here may hold up or end a recording: a terminal that is stopped is skipped, one that is gone is forgotten.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from ..units import format_bytes, format_duration
from .figures import Figures
from .limits import Limit

_STDERR = 2
_REFRESH_S = 1.0
_PIPE_BYTES = 4096  # so much goes into a pipe that takes anything, without waiting
_CLEAR_LINE = "\r\x1b[K"
_SHOWN_LIMIT_S = 24 * 3600.0  # a limit farther away than a day is no news


def say(line: str) -> None:
    """One line for the user."""
    _write(f"leakscope: {line}\n")


def pass_on(text: str) -> None:
    """What a helper wrote for the user, as it is; what nobody reads is left out."""
    data = text.encode("utf-8", "replace")
    while data and _is_writable():
        with suppress(OSError):
            os.write(_STDERR, data[:_PIPE_BYTES])
        data = data[_PIPE_BYTES:]


class StatusLine:
    """One line rewritten in place, at most once a second, while stderr is a terminal that shows this process group."""

    def __init__(self, enabled: bool) -> None:
        self._speaks = enabled
        self._enabled = enabled and os.isatty(_STDERR)
        self._shown = False
        self._next_s = 0.0

    def show(self, now_s: float, elapsed_s: float, figures: Figures, limit: Limit | None) -> None:
        if not self._enabled or now_s < self._next_s or not _can_write():
            return
        self._next_s = now_s + _REFRESH_S
        width = 80
        with suppress(OSError):
            width = os.get_terminal_size(_STDERR).columns or width
        _write("\r" + status_text(elapsed_s, figures, limit)[: width - 1] + "\x1b[K")
        self._shown = True

    def interrupt(self, line: str) -> None:
        """A line that stays, above the one that is rewritten; left out where nobody reads: it must not block."""
        self.erase()
        if self._speaks and _is_writable():
            say(line)

    def erase(self) -> None:
        if self._shown and _can_write():
            _write(_CLEAR_LINE)
        self._shown = False


def status_text(elapsed_s: float, figures: Figures, limit: Limit | None) -> str:
    """``leakscope 1.2 GiB, +310 MiB, +12.0 MiB/min, 5 processes, limit in 32 min 10 s, 4 min 05 s``."""
    parts = [format_bytes(figures.last_bytes), format_bytes(figures.growth_bytes, signed=True)]
    if (rate := figures.bytes_per_s) is not None:
        parts.append(f"{format_bytes(rate * 60, signed=True)}/min")
    parts.append("1 process" if figures.process_count == 1 else f"{figures.process_count} processes")
    if limit is not None and limit.seconds_left is not None and limit.seconds_left < _SHOWN_LIMIT_S:
        parts.append(f"limit in {format_duration(limit.seconds_left)}")
    parts.append(format_duration(round(elapsed_s)))
    return "leakscope " + ", ".join(parts)


def ending_text(exit_code: int | None, elapsed_s: float, kill_count: int) -> str:
    """How the command ended, for a person; ``exit_code`` is negative for a signal, None if it still runs."""
    after = f"after {format_duration(elapsed_s)}"
    if exit_code is None:
        return f"recorded {format_duration(elapsed_s)}; the command goes on"
    if exit_code >= 0:
        return f"the command exited with status {exit_code} {after}"
    blame = "; the kernel's OOM killer was at work" if kill_count and -exit_code == signal.SIGKILL else ""
    return f"the command was ended by {signal_name(-exit_code)} {after}{blame}"


def memory_text(figures: Figures) -> str:
    if figures.first_bytes is None:
        return "it ended before its memory could be read"
    return (
        f"memory: {format_bytes(figures.first_bytes)} at the start, {format_bytes(figures.last_bytes)} at the end "
        f"({format_bytes(figures.growth_bytes, signed=True)}), peak {format_bytes(figures.peak_bytes)}"
    )


def signal_name(number: int) -> str:
    with suppress(ValueError):
        return f"{signal.Signals(number).name} ({number})"
    return f"signal {number}"


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
