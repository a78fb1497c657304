"""`leakscope import`: files of other tools become one recording on one clock, and each row says which file it is of.

A file of this room without a leading underscore is a format, found by its file. It has a docstring whose first line
says what it reads, ``sniff(head, name)`` (is it one, by its first bytes and its name?), ``read(source)``, which yields
``Fact``s and tells ``source`` what it finds out beside them, and ``LACKS``: what no file of this kind can say, in words
that go on after "it". It may have ``YIELDS`` (another format that knows the file as well is right) and ``EXTRA``, the
name of the extra with the library that reads it: that runs in a process of its own, whose memory is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput, UnreadableInput
from . import _formats, _writing
from ._joining import Placing, joined
from ._placing import placing
from ._spool import Part, part_of

__all__ = ["Imported", "Placing", "formats", "import_files", "placing"]

_MOST_FILES = 2000
_MOST_NAMED = 5  # of files that were skipped
_AS_IT_IS = Placing()


@dataclass(frozen=True)
class Imported:
    """What came of it: the recording, a line for each file, and one for those that were skipped."""

    path: Path
    lines: Sequence[str]
    row_count: int


def formats() -> Mapping[str, str]:
    """Name of each format, and what it reads."""
    return {name: _formats.summary(name) for name in _formats.names()}


def import_files(
    files: Sequence[Path], output: Path, *, form: str | None = None, placing: Placing = _AS_IT_IS, force: bool = False
) -> Imported:
    """Read the files (of a folder all that are known) and write one recording of them.

    **Errors** BadInput for an option or an output that cannot be used; UnreadableInput, with one line that names the
    file, for one that cannot be read. Nothing is written then.
    """
    found, skipped = _found(files, form)
    if output.exists() and not force:
        raise BadInput(f"{output} is there already: choose another name, or --force to replace it")
    parts: list[Part] = []
    try:
        parts.extend(part_of(path, name) for path, name in found)
        recording = joined(parts, placing)
        count = _writing.write(recording, output)
    finally:
        for part in parts:
            part.close()
    return Imported(output, [*(_line(part) for part in parts), *_about_skipped(skipped, form)], count)


def _found(files: Sequence[Path], form: str | None) -> tuple[list[tuple[Path, str]], list[Path]]:
    """Files with their formats, and those of folders that are of none."""
    found: list[tuple[Path, str]] = []
    skipped: list[Path] = []
    for path in files:
        if path.is_dir():
            known, others = _in_folder(path, form)
            found += known
            skipped += others
        else:
            found.append((path, _formats.of_file(path, form)))
    if len(found) > _MOST_FILES:
        raise BadInput(f"{len(found):,} files are too many: name at most {_MOST_FILES:,}")
    seen: dict[Path, str] = {path.resolve(): name for path, name in found}
    return [(path, name) for path, name in found if seen.pop(path.resolve(), None)], skipped


def _in_folder(folder: Path, form: str | None) -> tuple[list[tuple[Path, str]], list[Path]]:
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file()][: _MOST_FILES + 1]
    known, others = [], []
    for path in inside:
        name = _formats.maybe_of_file(path)
        if name is not None and form in (None, name):
            known.append((path, name))
        else:
            others.append(path)
    if not known:
        raise UnreadableInput(f"{folder}: no file in it is of a format that can be imported")
    return known, others


def _about_skipped(paths: Sequence[Path], form: str | None) -> list[str]:
    if not paths:
        return []
    shown = ", ".join(str(path) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
    why = f"since not of format {form}" if form else "since of no format that is known (name a file with --from)"
    return [f"not imported, {why}: {shown}{more}"]


def _line(part: Part) -> str:
    told = f"{part.source.path}: {part.format}, {part.row_count:,} rows, {part.clock_used}"
    return "; ".join([told, *part.source.notes])
