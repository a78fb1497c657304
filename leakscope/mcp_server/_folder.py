"""The folder that a client is confined to: which recordings are in it, and that nothing else is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import BadInput, LeakscopeError
from ..storage import read_footer
from ..units import format_bytes
from ..words import VERDICTS, printable

_MOST_SHOWN = 60
_MOST_ENTRIES = 20_000  # of folders and files that are looked at
_JOURNAL = ".journal"
_NOT_HERE = ("node_modules", "__pycache__", "site-packages")


class Folder:
    """``root``: an absolute path without links."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path_of(self, name: str) -> Path:
        """A recording by its name, relative to the folder. Links lead to what is in the folder, or nowhere.

        **Errors** BadInput for all that lies outside, also where only something beside the recording does.
        """
        given = Path(name)
        if not name or "\0" in name:
            raise BadInput("name a recording of the folder, as list_recordings gives it")
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise BadInput(f"{printable(name)} lies outside the folder of this server")
            given = given.relative_to(self.root)
        if ".." in given.parts:
            raise BadInput(f"{printable(name)} has .. in it: name a recording of the folder from there")
        if given.name.endswith(_JOURNAL):  # a recording by its journal
            given = given.with_name(given.name[: -len(_JOURNAL)])
        for path in (given, *_read_with(self.root / given)):
            self._check(name, self.root / path)
        return given

    def _check(self, name: str, path: Path) -> None:
        try:
            real = os.path.realpath(path)
        except OSError as error:
            raise BadInput(f"{printable(name)}: {error.strerror}") from None
        if not Path(real).is_relative_to(self.root):
            raise BadInput(f"{printable(name)} lies outside the folder of this server")

    def listing(self, under: str = "") -> str:
        """A line for each recording, the newest first."""
        top = self.path_of(under) if under else Path()
        paths, is_whole = self._recordings(top)
        lines: list[str] = []
        others = 0
        for path in sorted(paths, key=lambda p: (-_changed_s(p), p.as_posix())):
            if len(lines) == _MOST_SHOWN:
                break
            try:
                self.path_of(path.as_posix())
                lines.append(_line(path))
            except LeakscopeError:
                others += 1
        left = len(paths) - len(lines) - others
        notes = [
            f"{left} older ones are not shown: name a folder by under" if left else "",
            f"{others} files that end in .parquet are no recordings, or lead outside" if others else "",
            "the folder is too large to be searched wholly: name a part of it by under" if not is_whole else "",
        ]
        if not lines:
            lines = [f"no recordings in {top}: leakscope record -o run.parquet -- COMMAND makes one"]
        return "\n".join([*lines, *filter(None, notes)])

    def _recordings(self, top: Path) -> tuple[list[Path], bool]:
        """Files that may be one, and whether all folders were looked at; links to folders are not followed."""
        found, seen = [], 0
        for folder, folders, names in os.walk(self.root / top):
            folders[:] = sorted(f for f in folders if not (f.startswith(".") or f in _NOT_HERE))
            seen += len(folders) + len(names)
            here = Path(folder).relative_to(self.root)
            found += [here / name for name in names if name.endswith(".parquet") and ".heap-" not in name]
            if seen > _MOST_ENTRIES:
                return found, False
        return found, True


def _read_with(path: Path) -> Iterator[Path]:
    """What belongs to a recording and would be read with it."""
    journal = path.with_name(path.name + _JOURNAL)
    yield journal
    for folder, begins in ((journal, ""), (path.parent, f"{path.stem}.heap-")):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        yield from (folder / name for name in names if name.startswith(begins))


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _line(path: Path) -> str:
    footer = read_footer(path)
    verdict = footer.get("verdict")
    told = ""
    if isinstance(verdict, dict) and verdict.get("leaking", "") in VERDICTS:
        is_final = "as_of_s" not in verdict
        mark = "" if is_final else " (provisional: the run went on)"
        told = f"{VERDICTS[verdict['leaking']]}{mark}: {verdict.get('headline') or ''}"
    command = footer.get("command")
    words = " ".join(map(str, command)) if isinstance(command, list) else ""
    parts = [
        path.as_posix(),
        format_bytes(path.stat().st_size),
        str(footer.get("started_at") or ""),
        _ended(footer.get("ended"), footer.get("state"), footer.get("kill_count")),
        words or "(attached)",
        told,
    ]
    return " · ".join(printable(part)[:200] for part in parts if part)


def _ended(ended: object, state: object, kill_count: object) -> str:
    if state != "final":
        return "not finished: still recorded, or cut off"
    how, code, signal = ended if isinstance(ended, list) and len(ended) == 3 else ("lost", None, None)
    killed = f", {kill_count} killed for lack of memory" if isinstance(kill_count, int) and kill_count else ""
    if how == "exit" and code is not None:
        return f"exit status {code}{killed}"
    return f"signal {signal}{killed}" if how == "signal" else "its end was not recorded"
