"""The errors leakscope shows to a person: one line that says what, where and what to do."""

from __future__ import annotations


class LeakscopeError(Exception):
    """A condition with one clear line for the user; ``exit_status`` is what the command line returns."""

    exit_status = 2


class BadInput(LeakscopeError):
    """An option, a file name or a value that cannot be used (exit status 2)."""

    exit_status = 2


class UnreadableRecording(LeakscopeError):
    """A recording that is missing, empty, truncated, foreign or of a newer format (exit status 3)."""

    exit_status = 3


class NoWayIn(LeakscopeError):
    """A process that nobody can look into from here (exit status 5)."""

    exit_status = 5
