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
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import schema, storage
from ..findings import Report as PlainReport
from ..reporting import analyze
from ..units import format_bytes
from ._heap import Heap
from ._html import recording_html, report_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..storage import Recording as PlainRecording
else:
    PlainRecording = storage.Recording


class Report(PlainReport):
    """A report that shows itself: a fragment of HTML in a notebook, its first lines elsewhere."""

    def __repr__(self) -> str:
        found = [f"  {f.severity}, {f.kind}: {f.title} ({format_bytes(f.bytes)})" for f in self.findings]
        return "\n".join([f"<Report of {self.recording.path}: {self.verdict.headline}>", *found])

    def _repr_html_(self) -> str:
        return report_html(self)


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

    def report(self, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Report:
        """The diagnosis, as ``leakscope.analyze`` makes it; the whole one is made once."""
        if only or thresholds:
            return _shown(analyze(self, only, thresholds))
        return self._whole_report

    @cached_property
    def _whole_report(self) -> Report:
        return _shown(analyze(self))

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


def _shown(report: PlainReport) -> Report:
    return Report(**{field.name: getattr(report, field.name) for field in dataclasses.fields(report)})
