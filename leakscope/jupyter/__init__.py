"""Recordings in a notebook: tables to work with, a report and plots that show themselves, and the cell magic.

    rec = leakscope.open_recording("run.parquet")
    rec                                   # what was recorded
    rec.report()                          # the diagnosis
    rec.plot.timeline()
    rec.heap.top()                        # who holds how much
    rec.between(step=(100, 200)).tables.process_samples

``%load_ext leakscope`` adds ``%%leakscope``: what a cell leaves behind.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import comparing, renderers, schema, storage
from ..comparing import Comparison as PlainComparison
from ..findings import Finding
from ..findings import Report as PlainReport
from ..reporting import analyze
from ..units import format_bytes
from ._heap import Heap
from ._html import recording_html

_FINDING = {
    "kind": "string", "severity": "string", "title": "string", "bytes": "int64", "bytes_per_hour": "Float64",
    "bytes_per_step": "Float64", "wasted": "bool", "confidence": "float64", "file": "string", "line": "Int64",
    "function": "string", "holder": "string", "type": "string", "path": "string", "process": "string", "pid": "Int64",
    "evidence": "object", "doubts": "object", "remedy": "object", "fingerprint": "string",
}  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..storage import Recording as PlainRecording
else:
    PlainRecording = storage.Recording


class Report:
    """A report that shows itself: the page without its scripts in a notebook, its first lines elsewhere.

    It has what the plain one has (``verdict``, ``ledger``, ``timeline``, ...), but for ``findings``, which here are a
    DataFrame. ``leakscope.analyze(rec)`` gives the plain one.
    """

    def __init__(self, plain: PlainReport) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._plain, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(field.name for field in dataclasses.fields(self._plain))]

    def __repr__(self) -> str:
        plain = self._plain
        found = [f"  {f.severity}, {f.kind}: {f.title} ({format_bytes(f.bytes)})" for f in plain.findings]
        return "\n".join([f"<Report of {plain.recording.path}: {plain.verdict.headline}>", *found])

    def _repr_html_(self) -> str:
        from ..renderers.html import render_cell

        return render_cell(self._plain)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """A row a finding, the answer first: what was found, how much it is, where, who holds it, and why.

        **Shape** ``evidence``, ``doubts`` and ``remedy`` are lists of sentences; ``bytes`` is what fixing it frees by
        the end of the recording, ``confidence`` is from 0 to 1.
        """
        rows = [_row(finding) for finding in self._plain.findings]
        frame = pd.DataFrame(rows, columns=list(_FINDING)).astype(_FINDING)
        frame.attrs["units"] = dict.fromkeys(("bytes", "bytes_per_hour", "bytes_per_step"), "bytes")
        return frame

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The whole page, as text, or written to a file, as pandas has it. **Errors** OSError."""
        text = renderers.render(self._plain, "html")
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return None


class Comparison(PlainComparison):
    """A comparison that shows itself: the page without its script in a notebook, as text elsewhere."""

    def __repr__(self) -> str:
        return comparing.render(self, "terminal")

    def _repr_html_(self) -> str:
        return comparing.render_cell(self)


class Recording(PlainRecording):
    """A recording that shows, explains, diagnoses and draws itself."""

    def _repr_html_(self) -> str:
        return recording_html(self.path.name, self.meta, self.ended, self.tables.row_counts(), self.notes)

    def describe(self) -> pd.DataFrame:
        """Every column in which something was written: table, column, type, unit, meaning."""
        known = {c.name: c for c in (schema.Column("time_s", "float", "s", "since the recording began"), *schema.KEYS)}
        known |= schema.columns()
        rows = []
        for table in self.names():
            for name in ["time_s", *(c for c in self.tables.columns_of(table) if c != "table")]:
                column = known.get(name, schema.Column(name, "", "", "not known to this version"))
                rows.append((table, *column[:4]))
        return pd.DataFrame(rows, columns=["table", "column", "type", "unit", "meaning"])

    @property
    def units(self) -> dict[str, str]:
        """The unit of every column that has one, ``rec.units["rss_bytes"]``; a frame has its own in ``attrs``."""
        return dict(storage.recording.units)

    def report(self, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Report:
        """The diagnosis, as ``leakscope.analyze`` makes it; the whole one is made once."""
        if only or thresholds:
            return Report(analyze(self, only, thresholds))
        return self._whole_report

    @cached_property
    def _whole_report(self) -> Report:
        return Report(analyze(self))

    def compare(self, other: PlainRecording | str | os.PathLike[str]) -> Comparison:
        """Whether a later run is better: this one is before, the other after. **Errors** UnreadableRecording."""
        after = other if isinstance(other, PlainRecording) else open_recording(other)
        return Comparison(**_fields(comparing.compare(self, after)))

    @property
    def plot(self) -> Plots:
        """Pictures: ``rec.plot.timeline()`` and others, each on matplotlib axes that it returns."""
        return Plots(self)

    @cached_property
    def heap(self) -> Heap:
        """Who holds how much, exactly: ``rec.heap.top()`` and others, each a DataFrame."""
        return Heap(self)


class Plots:
    """The pictures of one recording. Each takes ``ax=`` to draw on axes that are there already."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __repr__(self) -> str:
        names = [name for name in vars(Plots) if not name.startswith("_")]
        return f"<plots of {self._recording.path}: {', '.join(names)}>"

    def timeline(self, ax: Axes | None = None) -> Axes:
        """Memory of the process tree over the run, by account."""
        from .. import plots

        return plots.timeline(self._recording.report().timeline, ax)

    def processes(self, ax: Axes | None = None) -> Axes:
        """The same by process: who takes how much, and when."""
        from .. import plots

        return plots.processes(self._recording.report().timeline, ax)

    def ledger(self, ax: Axes | None = None) -> Axes:
        """Where the growth went."""
        from .. import plots

        return plots.ledger(self._recording.report().ledger, ax)

    def holders(self, ax: Axes | None = None, *, process: str | None = None, most: int = 6) -> Axes:
        """What the holders that changed most held at each snapshot, in one process."""
        from .. import plots

        return plots.holders(self._recording.report().heap, ax, process=process, most=most)

    def tensors(self, ax: Axes | None = None, *, pid: int | None = None) -> Axes:
        """Live tensors by owner, in one process."""
        from .. import plots

        return plots.tensors(self._recording, ax, pid=pid)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording, finished or still running. **Errors** UnreadableRecording, with one line that says why."""
    return Recording.of(storage.open_recording(path))


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext leakscope``: adds the cell magic ``%%leakscope``."""
    from ._cell import register

    register(ipython)


def render(report: PlainReport | Report, name: str, **options: Any) -> str:
    """``report`` as ``terminal``, ``json`` or another format of ``leakscope report``. **Errors** BadInput."""
    return renderers.render(report._plain if isinstance(report, Report) else report, name, **options)


def _row(finding: Finding) -> dict[str, Any]:
    """By the columns of ``_FINDING``."""
    values = {**_fields(finding.subject), **_fields(finding)}
    values["evidence"] = [evidence.text for evidence in finding.evidence]
    values.update({name: list(values[name]) for name in ("doubts", "remedy")})
    return {column: values[column] for column in _FINDING}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
