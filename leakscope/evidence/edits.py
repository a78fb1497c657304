"""The edit that follows a finding's first advice, as a diff, where the sources show that it is what the advice says."""

from __future__ import annotations

import difflib
import os.path
import re
from collections.abc import Iterator

from ..facts.case import Case
from ..facts.code.editing import Asked, Edited, Unsure
from ..facts.code.edits import Piece, edit, let_go, suitable
from ..findings import Edit, Finding, Idle

_MOST_LINES = 40  # of a diff: one statement is edited, or a line is put behind a few
_LAST_STEP = re.compile(r"(?:(?P<of>.*\(\)) |.*\.|)(?P<name>\w+)(?:\['(?P<key>[^']+)'\])?$")  # of a path


def edit_of(case: Case, finding: Finding) -> Edit | None:
    """None where no mechanism is proved, or no line is known."""
    found = edited_by(case, finding)
    if isinstance(found, Unsure):
        return Edit(None, found.why)
    if found is None:
        return None
    cwd = case.recording.meta.get("cwd")
    diff = diff_of(found, cwd if isinstance(cwd, str) else None)
    return Edit(diff, found.note) if diff.count("\n") <= _MOST_LINES else Edit(None, "lines of the source are too long")


def edited_by(case: Case, finding: Finding) -> Edited | Unsure | None:
    subject = finding.subject
    if finding.idle:
        return let_go(case.sources, [piece for one in finding.idle for piece in _piece(one)])
    if finding.mechanism is None or not subject.file or not subject.line:
        return None
    seen = next((one.figures for one in finding.evidence if "end_length" in one.figures), {})
    length, member = seen.get("member_length", seen.get("end_length")), seen.get("member_type")
    asked = Asked(
        sources=case.sources,
        file=subject.file,
        line=subject.line,
        variable=subject.variable or "",
        type_name=subject.type or "",
        most=suitable(length if isinstance(length, int) else 4000.0),
        base=_base(case, finding),
        container=found.group(1) if (found := re.search(r"\((\w+)\)$", subject.holder or "")) else "",
        member=member if isinstance(member, str) else None,
    )
    return edit(finding.mechanism, asked)


def _piece(idle: Idle) -> Iterator[Piece]:
    step = _LAST_STEP.match(idle.path)
    if step is None or idle.file is None or idle.line is None:
        return
    is_local = step["of"] is not None and step["key"] is None
    if not is_local or step["of"] == f"{idle.function}()":  # who was handed another's variable does not give it up
        yield Piece(idle.file, idle.line, step["name"], step["key"], is_local)


def _base(case: Case, finding: Finding) -> str | None:
    types = case.rows("object_types").dropna(subset=["base"])
    named = re.findall(r"[\w.]+", finding.subject.type or "")
    return next((str(base) for name, base in zip(types["type_name"], types["base"]) if name in named), None)


def diff_of(edited: Edited, folder: str | None) -> str:
    """A unified diff, as ``git apply`` and ``patch -p1`` take it in the folder the job was started in."""
    name = edited.file
    if folder is not None and os.path.normpath(name).startswith(os.path.normpath(folder).rstrip("/") + "/"):
        name = os.path.relpath(name, folder)
    before, after = (text.splitlines(keepends=True) for text in (edited.before, edited.text))
    lines = difflib.unified_diff(before, after, f"a/{name.lstrip('/')}", f"b/{name.lstrip('/')}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
