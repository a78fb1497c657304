"""The terminal while a run is watched: a screen of its own, keys without Enter, all put back at the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from .frame import ALARM, FAINT, HEAD, Line

_STDIN, _STDOUT = 0, 1
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # alternate screen, cursor hidden
_STYLES = {HEAD: "\x1b[1m", ALARM: "\x1b[31m", FAINT: "\x1b[2m"}
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def is_screen() -> bool:
    """Whether lines can be rewritten there."""
    return os.isatty(_STDOUT) and os.environ.get("TERM", "dumb") != "dumb"


def has_colour() -> bool:
    """By NO_COLOR and FORCE_COLOR, else where the output is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_screen()


def styled(line: Line, colour: bool) -> str:
    before = _STYLES.get(line.style) if colour else None
    return f"{before}{line.text}\x1b[0m" if before else line.text


class Screen:
    """Use it with ``with``: whatever ends the watching, the terminal is as it was."""

    def __init__(self) -> None:
        self._modes: list[Any] | None = None
        self._has_keys = os.isatty(_STDIN)
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Screen:
        for number in _ENDING:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows)."""
        with suppress(OSError):
            size = os.get_terminal_size(_STDOUT)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def show(self, lines: Sequence[Line]) -> None:
        colour = has_colour()
        text = "".join(f"{styled(line, colour)}\x1b[K\r\n" for line in lines[:-1])
        last = styled(lines[-1], colour) if lines else ""
        _write(f"\x1b[H{text}{last}\x1b[K\x1b[J")

    def wait_for_key(self, timeout_s: float) -> str:
        """The keys pressed meanwhile; empty if there were none."""
        if not select.select([_STDIN] if self._has_keys else [], [], [], max(0.0, timeout_s))[0]:
            return ""
        with suppress(OSError):
            if keys := os.read(_STDIN, 64):
                return keys.decode("utf-8", "replace")
        self._has_keys = False  # the terminal is gone, or speaks no more
        return ""

    def _take(self) -> None:
        if self._has_keys:
            with suppress(termios.error):
                self._modes = termios.tcgetattr(_STDIN)
                tty.setcbreak(_STDIN)
        _write(_ENTER)

    def _give_back(self) -> None:
        with suppress(OSError):
            _write(_LEAVE)
        if self._modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._modes)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """^Z: the shell gets its screen back, and we ours when we go on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    while data:
        data = data[os.write(_STDOUT, data) :]
