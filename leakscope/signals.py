"""Signals by the numbers that Linux gives them, which recordings have: those of who reads one may be other ones."""

from __future__ import annotations

import signal
from enum import IntEnum


def here(*names: str) -> tuple[signal.Signals, ...]:
    """Those that this system has: Windows, where recordings are read alone, has few."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


ENDING = here("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # by which a terminal or a scheduler ends what it started


class Signal(IntEnum):
    """Of x86-64 and aarch64."""

    SIGHUP = 1
    SIGINT = 2
    SIGQUIT = 3
    SIGILL = 4
    SIGTRAP = 5
    SIGABRT = 6
    SIGBUS = 7
    SIGFPE = 8
    SIGKILL = 9
    SIGUSR1 = 10
    SIGSEGV = 11
    SIGUSR2 = 12
    SIGPIPE = 13
    SIGALRM = 14
    SIGTERM = 15
    SIGSTKFLT = 16
    SIGCHLD = 17
    SIGCONT = 18
    SIGSTOP = 19
    SIGTSTP = 20
    SIGTTIN = 21
    SIGTTOU = 22
    SIGURG = 23
    SIGXCPU = 24
    SIGXFSZ = 25
    SIGVTALRM = 26
    SIGPROF = 27
    SIGWINCH = 28
    SIGIO = 29
    SIGPWR = 30
    SIGSYS = 31
    SIGRTMIN = 34
    SIGRTMAX = 64


# Signals that a program brings upon itself. The others are sent: to end it is no crash.
FATAL_SIGNALS = {
    Signal.SIGSEGV: "segmentation fault",
    Signal.SIGBUS: "bus error",
    Signal.SIGFPE: "arithmetic fault",
    Signal.SIGILL: "illegal instruction",
    Signal.SIGABRT: "aborted",
    Signal.SIGSYS: "forbidden system call",
    Signal.SIGTRAP: "trap",
}


def signal_name(number: int) -> str:
    """``SIGKILL``; ``signal 40`` for one without a name."""
    try:
        return Signal(number).name
    except ValueError:
        return f"signal {number}"
