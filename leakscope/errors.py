"""The errors leakscope shows to a person: one line that says what, where and what to do."""

from __future__ import annotations

import linecache
import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_IPYTHON = f"{os.sep}IPython{os.sep}"  # it stands between a magic of ours and the cell


class LeakscopeError(Exception):
    """A condition with one clear line for the user; ``exit_status`` is what the command line returns."""

    exit_status = 2

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the line that was called, and what is wrong. Our own frames say nothing about it."""
        called, trace = "", self.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            file = trace.tb_frame.f_code.co_filename
            if _IPYTHON not in file:
                called = f"----> {trace.tb_lineno} {linecache.getline(file, trace.tb_lineno).strip()}"
            trace = trace.tb_next
        return [*([called] if called else []), f"{type(self).__name__}: {self}"]


class BadInput(LeakscopeError):
    """An option, a file name or a value that cannot be used (exit status 2)."""

    exit_status = 2


def to_install(extra: str) -> str:
    """``pip install fsspec s3fs``: what an extra of ours needs, by its own name, wherever leakscope itself is from."""
    import re
    from importlib import metadata

    try:
        needs = metadata.requires("leakscope-recorder") or []
    except metadata.PackageNotFoundError:
        needs = []
    of_extra = [one for one in needs if f"extra == '{extra}'" in one.replace('"', "'")]
    names = [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in of_extra]
    return f"pip install {' '.join(names)}" if names else f"pip install 'leakscope-recorder[{extra}]'"


class NothingToFix(LeakscopeError):
    """A recording in which nothing is found that an edit could mend (exit status 4)."""

    exit_status = 4


class UnreadableRecording(LeakscopeError):
    """A recording that is missing, empty, truncated, foreign or of a newer format (exit status 3)."""

    exit_status = 3


class UnreadableInput(LeakscopeError):
    """A file of another tool that is missing, empty, damaged, foreign or too large (exit status 3)."""

    exit_status = 3


class NoWayIn(LeakscopeError):
    """A process that nobody can look into from here (exit status 5)."""

    exit_status = 5


FAULT_STATUS = 70  # EX_SOFTWARE of sysexits.h: it says nothing of a recording
FAILED_BEFORE_START = 125  # as timeout(1) and env(1)


def tell_fault(error: BaseException, before_start: bool = False) -> int:
    """Print what a report of a fault of leakscope's own needs, and one line about it; returns the exit status.

    ``before_start``: of ``record``, whose status is otherwise that of the command.
    """
    import traceback  # the recorder, which stays beside the job, does without

    traceback.print_exception(type(error), error, error.__traceback__)
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    print(f"leakscope: a fault of leakscope itself, please report it with the lines above ({said})", file=sys.stderr)
    return FAILED_BEFORE_START if before_start else FAULT_STATUS


class NoSuchTable(BadInput, KeyError, AttributeError):
    """A table that no recording of this version has."""

    __str__ = Exception.__str__  # a KeyError puts it in quotes


def needs_linux(command: str) -> None:
    """**Errors** LeakscopeError where it is another system."""
    if not sys.platform.startswith("linux"):
        raise LeakscopeError(
            f"{command} reads /proc, so it runs on Linux (in a container, a virtual machine or WSL), not on "
            f"{sys.platform}: recordings made there can be read here"
        )
