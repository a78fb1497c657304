"""`leakscope fix`: the smallest edit that follows the first advice of a report, and the proof that it helps.

Nothing of the user's is changed: the diff is printed, and what is recorded to prove it is a copy of the sources.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .comparing import Comparison, compare, growths
from .errors import BadInput, NothingToFix
from .evidence.edits import edited_by
from .facts.case import Case
from .facts.code.editing import Edited
from .findings import Finding, Report
from .isolation import given_environment
from .reporting import report_of
from .storage import open_recording
from .units import format_bytes
from .words import why_no_edit

if TYPE_CHECKING:
    from .storage import Recording

NO_EDIT = 4  # exit status: unclear which edit is right
_MOST_FILES = 20_000
_SMALL_BYTES = 1 << 20  # what is larger is linked to, and not copied
_NOT_SOURCES = ("__pycache__", "node_modules", "site-packages", "dist-packages")
_MOST_GONE = 0.9
_LONGER = 2.0  # times as long as it ran, and a minute: then it does not end by itself


@dataclass(frozen=True)
class Fix:
    """``diff``: None where no edit is certain enough, which ``note`` explains. ``number``: of the finding, from 1."""

    report: Report
    finding: Finding
    number: int
    diff: str | None
    note: str
    edited: Edited | None


def fix_of(recording: Recording, number: int | None = None) -> Fix:
    """The edit for a finding: of that number, or the first that has one, or the first.

    **Errors** NothingToFix if the report has no finding, BadInput if it has none of that number.
    """
    case = Case(recording)
    report = report_of(case)
    if not report.findings:
        raise NothingToFix(f"nothing to fix: {report.verdict.headline}")
    if number is not None and not 1 <= number <= len(report.findings):
        raise BadInput(f"there is no finding {number}: the report has {len(report.findings)}")
    able = (at for at, one in enumerate(report.findings, 1) if one.edit is not None and one.edit.diff is not None)
    number = number if number is not None else next(able, 1)
    finding = report.findings[number - 1]
    diff = finding.edit.diff if finding.edit is not None else None
    edited = edited_by(case, finding) if diff is not None else None
    return Fix(report, finding, number, diff, why_no_edit(finding), edited if isinstance(edited, Edited) else None)


def prove(fix: Fix, before: Recording, after: Path) -> Comparison:
    """Record the program again with the edit, in a copy of its sources, and compare.

    What it prints goes to standard error. **Errors** BadInput where it cannot be run again here.
    """
    edited, facts = fix.edited, fix.report.recording
    if edited is None:
        raise BadInput(f"there is no edit to prove: {fix.note}")
    if not facts.command or facts.cwd is None:
        raise BadInput("the recording does not know the command that it is of: record the edited program by hand")
    root, file = _root(Path(facts.cwd), Path(edited.file))
    if _text(file) != edited.before:
        raise BadInput(f"{file} is not as it was when it was recorded: record it again first")
    with _copied(root, file, edited.text) as copy:
        words = [_moved(word, root, copy) for word in facts.command]
        record = [sys.executable, "-m", "leakscope", "record", "-q", "-o", str(after.resolve()), "--", *words]
        _run(record, _there(Path(facts.cwd), root, copy), facts.duration_s, facts.signal)
    return compare(before, open_recording(after))


def removed(comparison: Comparison, finding: Finding) -> float | None:
    """How much of the growth is gone, or of what was wasted, from 0 to 1; None where it is not known. Below 0: more."""
    before, after = comparison.before.growth_bytes_per_hour, comparison.after.growth_bytes_per_hour
    if finding.wasted:
        before, after = comparison.before.wasted_bytes, comparison.after.wasted_bytes
    if before is None or after is None or before <= 0:
        return None
    return 1.0 - max(after, 0.0) / before


def told(comparison: Comparison, fix: Fix) -> str:
    """``Growth with the edit: -97% (125 MiB per minute before, at most 3 MiB after)``, in a line."""
    before, after = comparison.before.growth_bytes_per_hour, comparison.after.growth_bytes_per_hour
    is_alike = _ending(comparison.before) == _ending(comparison.after)
    if not is_alike and not comparison.before.exit_code and comparison.after.exit_code:
        failed = f"it failed with exit status {comparison.after.exit_code}, which it did not before"
        return f"The edit of finding {fix.number} breaks the program: {failed}."
    ended = "it ended as before" if is_alike else "it ended otherwise"
    share = removed(comparison, fix.finding)
    peak, now = (format_bytes(side.peak_bytes) for side in (comparison.before, comparison.after))
    if fix.finding.wasted:
        wasted, left = (format_bytes(side.wasted_bytes) for side in (comparison.before, comparison.after))
        return (
            f"With the edit of finding {fix.number} {left} is wasted, not {wasted} (peak {now}, not {peak}); {ended}."
        )
    if comparison.before.grows and comparison.after.grows is False and (share or 0.0) < _MOST_GONE:
        # In the time that both have in common it still filled up to its limit.
        peaks = f"{peak} at most before, {now}"
        return f"With the edit of finding {fix.number} it no longer keeps growing ({peaks} after); {ended}."
    if before is None or after is None or share is None:
        return "How much of the growth is gone is not known."
    rates = "{} before, {} after".format(*growths(comparison))
    return f"Growth with the edit of finding {fix.number}: {-max(share, 0.0):.0%} ({rates}); {ended}."


def _ending(side: object) -> tuple[object, ...]:
    return tuple(getattr(side, name) for name in ("ended", "exit_code", "signal"))


def _root(cwd: Path, file: Path) -> tuple[Path, Path]:
    """The folder to copy: that in which the job was started, or that of the file where it lies elsewhere."""
    file = file if file.is_absolute() else cwd / file
    if not file.is_file():
        raise BadInput(f"{file} is not here: prove it where the program was recorded")
    is_inside = cwd.resolve() in file.resolve().parents
    return (cwd if is_inside else file.parent), file


def _there(cwd: Path, root: Path, copy: Path) -> Path:
    return copy if cwd == root else cwd


def _moved(word: str, root: Path, copy: Path) -> str:
    """A word of the command that names a file of the copied folder by its whole path."""
    return str(copy / word[len(str(root)) + 1 :]) if word.startswith(f"{root}/") else word


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


@contextmanager
def _copied(root: Path, file: Path, text: str) -> Iterator[Path]:
    """A folder with the sources of another and with links to its large files; one file has another text."""
    with tempfile.TemporaryDirectory(prefix="leakscope-fix-") as folder:
        copy = Path(folder) / root.name if root.name else Path(folder) / "job"
        copy.mkdir()
        with_sources = _with_sources(root)
        for number, (here, names) in enumerate(_entries(root, with_sources)):
            if number > _MOST_FILES:
                raise BadInput(f"{root} has more than {_MOST_FILES:,} folders: apply the diff and record it by hand")
            there = copy / here.relative_to(root)
            there.mkdir(exist_ok=True)
            for name in names:
                _copy_one(here / name, there / name)
        target = copy / file.resolve().relative_to(root.resolve())
        target.unlink(missing_ok=True)
        target.write_bytes(text.encode("utf-8"))
        yield copy


def _with_sources(root: Path) -> set[Path]:
    """Folders below it, and itself, in which or below which Python sources are."""
    found = {root}
    for here, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_foreign(Path(here) / name)]
        if any(name.endswith(".py") for name in names):
            at = Path(here)
            while at not in found:
                found.add(at)
                at = at.parent
    return found


def _is_foreign(folder: Path) -> bool:
    name = folder.name
    return name in _NOT_SOURCES or name.startswith(".") or folder.is_symlink() or (folder / "pyvenv.cfg").exists()


def _entries(root: Path, with_sources: set[Path]) -> Iterator[tuple[Path, list[str]]]:
    """Each folder to be made, with what is copied or linked in it."""
    for here in sorted(with_sources):
        yield here, [one.name for one in os.scandir(here) if here / one.name not in with_sources]


def _copy_one(source: Path, target: Path) -> None:
    try:
        is_small = source.is_file() and not source.is_symlink() and source.stat().st_size <= _SMALL_BYTES
        if is_small or (source.suffix == ".py" and source.is_file()):
            shutil.copy2(source, target)
        elif source.name != "__pycache__":
            target.symlink_to(source)
    except OSError as error:
        raise BadInput(f"{error.filename or source}: {error.strerror}") from None


def _run(command: Sequence[str], folder: Path, seconds: float, by: int | None) -> None:
    """Until it ends; what was stopped by a signal before is stopped so again, after as long."""
    own = subprocess.Popen(command, cwd=folder, env=given_environment(), stdout=2, stdin=subprocess.DEVNULL)
    try:
        own.wait(seconds if by is not None else _LONGER * seconds + 60.0)
    except subprocess.TimeoutExpired:
        own.send_signal(by if by in (signal.SIGINT, signal.SIGTERM) else signal.SIGTERM)
        try:
            own.wait(60.0)
        except subprocess.TimeoutExpired:
            own.kill()
            own.wait()
            raise BadInput("the edited program did not end: apply the diff and record it by hand") from None
    except KeyboardInterrupt:  # which the terminal gave it, too
        own.wait()
        raise
