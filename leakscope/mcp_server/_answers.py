"""What each tool answers: one public method of ``Desk`` for each, arguments in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import browsing, comparing
from ..errors import BadInput
from ..findings import Report
from ..ignoring import Ignores, read_ignores, without_ignored
from ..renderers import render
from ..reporting import analyze
from ..settings import FILE
from ..storage import Recording, open_recording
from ._finding import edit_told, explained, with_edit
from ._folder import Folder
from ._query import query
from ._tools import TOOLS

MOST_BYTES = 24_000  # of an answer: about 8,000 tokens
_NAMES = {tool.name for tool in TOOLS}


class Desk:
    """The tools over one folder, which is the working folder: so errors name recordings as the client does."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._last: tuple[object, Report] | None = None  # who reads a report asks next for one of its findings

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """**Errors** LeakscopeError, in one line."""
        if tool not in _NAMES:
            raise BadInput(f"there is no tool {tool!r}")
        said: str = getattr(self, tool)(**arguments)
        return said

    def list_recordings(self, under: str = "") -> str:
        return self._folder.listing(under)

    def report(self, recording: str, format: str = "brief") -> str:
        text = render(self._report(recording), format)
        size = len(text.encode("utf-8", "replace"))
        if format == "json" and size > MOST_BYTES:  # half of it would be no JSON
            raise BadInput(f"this report has {size:,} bytes of JSON, an answer at most {MOST_BYTES:,}: use markdown")
        return text

    def explain_finding(self, recording: str, number: int = 1) -> str:
        report = self._report(recording)
        if number > len(report.findings):
            raise BadInput(f"{recording} has {len(report.findings)} findings: there is no number {number}")
        return explained(report, number)

    def fix(self, recording: str, number: int | None = None) -> str:
        report = self._report(recording)
        count = len(report.findings)
        if not count:
            raise BadInput(f"nothing to fix in {recording}: {report.verdict.headline}")
        if number is not None and number > count:
            raise BadInput(f"{recording} has {count} findings: there is no number {number}")
        return edit_told(report, number if number is not None else with_edit(report))

    def heap_path(
        self, recording: str, name: str, pid: int | None = None, at_s: float | None = None, at_end: bool = False
    ) -> str:
        return browsing.ways(self._open(recording), name, pid=pid, at_s=at_s, at_end=at_end)

    def heap_top(
        self,
        recording: str,
        by_growth: bool = False,
        pid: int | None = None,
        at_s: float | None = None,
        at_end: bool = False,
        since_s: float | None = None,
        depth: int = 6,
    ) -> str:
        known = self._open(recording)
        return browsing.show(
            known, pid=pid, at_s=at_s, since_s=since_s, at_end=at_end, by_growth=by_growth, depth=depth
        )

    def query(self, recording: str, sql: str, limit: int = 50) -> str:
        return query(self._open(recording), sql, limit)

    def compare(self, before: str, after: str) -> str:
        return comparing.render(comparing.compare(self._open(before), self._open(after)), "markdown")

    def _open(self, name: str) -> Recording:
        return open_recording(self._folder.path_of(name), read_only=True)

    def _report(self, name: str) -> Report:
        recording = self._open(name)
        status = recording.path.stat() if recording.path.exists() else None
        key = (str(recording.path), status.st_mtime_ns, status.st_size) if status and recording.complete else None
        if self._last is None or key is None or self._last[0] != key:
            self._last = (key, without_ignored(analyze(recording), self._ignores()))
        return self._last[1]

    def _ignores(self) -> Ignores:
        """As `leakscope report` does in that folder; a pyproject.toml that is a link or a pipe is none."""
        file = self._folder.root / FILE
        return read_ignores(Path()) if file.is_file() and not file.is_symlink() else Ignores()
