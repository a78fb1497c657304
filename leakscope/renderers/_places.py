"""Where a finding points to: in the sources, for tools that show it beside the line, and among the shown holders."""

from __future__ import annotations

import os.path
import re
import shlex
from typing import NamedTuple

from ..findings import Finding, RecordingFacts, Report, file_of

_LONGEST_ARGUMENT = 120


def below_cwd(string: str, facts: RecordingFacts) -> str:
    """With paths below the folder of the job told from there."""
    folder = os.path.normpath(facts.cwd) if facts.cwd else "/"
    if not folder.startswith("/") or folder.strip("/") == "":
        return string
    return re.sub(rf"(?<![\w./-]){re.escape(folder)}/(?=[^/])", "", string)


def run_argument(facts: RecordingFacts, most: int = _LONGEST_ARGUMENT) -> str:
    """The recording, as one types it behind a command: from where the report is read, or else the job was started."""
    here = os.path.join(os.getcwd(), "")
    path = facts.path[len(here) :] if facts.path.startswith(here) else below_cwd(facts.path, facts)
    run = shlex.quote(path)
    return run if len(run) <= most and run.isprintable() else "RUN.parquet"


class Place(NamedTuple):
    """``file`` is relative if it lies below the folder the job was started in, otherwise as it was recorded."""

    file: str
    line: int


def place(report: Report, finding: Finding) -> Place | None:
    """The line a user would edit; None where no line of a file is known (``<stdin>`` and ``<string>`` are none)."""
    file, line = finding.subject.file, finding.subject.line
    if not file or not line or file.startswith("<"):
        return None
    return Place(file_of(finding, cwd(report)) or file, int(line))


def cwd(report: Report) -> str | None:
    """The folder the job was started in; None where the report does not say."""
    folder = report.recording.cwd
    return os.path.normpath(folder) if folder and os.path.isabs(folder) else None


def heap_place(report: Report, finding: Finding) -> tuple[int, int] | None:
    """Which holder of which heap a finding is about: that of its path, or the nearest above it."""
    path, process = finding.subject.path, f"[{finding.subject.pid}]"
    if not path:
        return None
    is_on_device = finding.subject.device not in (None, "cpu")
    for number, view in sorted(enumerate(report.heap), key=lambda one: one[1].on_devices is not is_on_device):
        if process not in view.process:
            continue
        above = [
            i
            for i, h in enumerate(view.holders)
            if path == h.path or (path.startswith(h.path) and path[len(h.path)] in ".[")
        ]
        if above:
            return number, max(above, key=lambda i: len(view.holders[i].path))
    return None
