"""``leakscope doctor``: what evidence this host and this user can give, and what to do about the gaps.

One file for each group of checks: ``TITLE`` and ``checks(root)``; a file without a leading underscore is a group. It
tries things rather than believing settings, and changes nothing on the host. Runs by itself, beside no job.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

from . import computer, kernel_log, kills, limits, processes, programs
from ._check import Check, limited

SCHEMA = "leakscope.doctor/1"
_GROUPS = (kernel_log, kills, limits, processes, programs, computer)
_WIDEST, _STATE_WIDTH, _NAME_WIDTH = 100, 9, 20


class Group(NamedTuple):
    """The checks of one file, under its title."""

    title: str
    checks: Sequence[Check]


def examine(root: str = "") -> list[Group]:
    """Every check. ``root`` is put before the paths of the kernel's files, for those of another machine."""
    return [Group(group.TITLE, list(_done(group, root))) for group in _GROUPS]


def _done(group: ModuleType, root: str) -> Iterator[Check]:
    try:
        yield from group.checks(root)
    except OSError as error:  # no folder for temporary files, no more processes: the other groups still stand
        yield limited("the rest", f"could not be checked: {error}")


def as_text(groups: Sequence[Group]) -> str:
    """What it comes to, then a line for each check; below it what to do, where something can be done."""
    lines = (line for group in groups for line in (group.title, *_lines(group.checks), ""))
    return "\n".join([*textwrap.wrap(_summary(groups), _width()), "", *lines])


def _summary(groups: Sequence[Group]) -> str:
    checks = [check for group in groups for check in group.checks]
    gaps = [check.name for check in checks if check.state != "ok" and check.remedy]
    fit = sum(check.state == "ok" for check in checks)
    todo = f"; something can be done about: {', '.join(gaps)}" if gaps else "; nothing needs to be done"
    return f"{fit} of {len(checks)} kinds of evidence can be had in full here{todo}."


def _width() -> int:
    return min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)


def as_json(groups: Sequence[Group]) -> str:
    found = [{"group": group.title, **check._asdict()} for group in groups for check in group.checks]
    return json.dumps({"schema": SCHEMA, "checks": found}, indent=2) + "\n"


def _lines(checks: Sequence[Check]) -> Iterator[str]:
    for check in checks:
        shown = "OK" if check.state == "ok" else check.state
        if shown == "missing" and check.remedy is None:
            shown = "none"  # nothing has to be done
        head = f"  {shown:{_STATE_WIDTH}}{check.name:{_NAME_WIDTH}}"
        yield textwrap.fill(check.text, _width(), initial_indent=head, subsequent_indent=" " * len(head))
        if check.remedy:
            indent = " " * len(head)
            yield textwrap.fill(check.remedy, _width(), initial_indent=f"{indent}-> ", subsequent_indent=f"{indent}   ")
