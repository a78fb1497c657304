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
from ..errors import BadInput
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
    from ..pages.plots import Plot
    from ..storage import Recording as PlainRecording
    from ._charts import Chart
else:
    PlainRecording = storage.Recording


class Report:
    """A report that shows itself: the page in a notebook, its first lines elsewhere.

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
    def plots(self) -> dict[str, Plot]:
        """The charts of the page as they are described, by their place in it."""
        return renderers.plots(self._plain)

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
    """A comparison that shows itself: the page in a notebook, as text elsewhere."""

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
        """The page's charts: ``rec.plot.timeline()`` and others, each with ``save("x.svg")`` and ``table``."""
        return Plots(self)

    @cached_property
    def heap(self) -> Heap:
        """Who holds how much, exactly: ``rec.heap.top()`` and others, each a DataFrame."""
        return Heap(self)


class Plots:
    """The charts of one recording, as its page has them: each shows itself, and ``save`` writes it to a file."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __repr__(self) -> str:
        names = [name for name in vars(Plots) if not name.startswith("_")]
        return f"<plots of {self._recording.path}: {', '.join(names)}>"

    def timeline(self) -> Chart:
        """Memory of the process tree over the run, by account first."""
        return self._timeline("account")

    def processes(self) -> Chart:
        """The same by process first: who takes how much, and when."""
        return self._timeline("process")

    def ledger(self) -> Chart:
        """Where the growth went."""
        from . import _charts

        return _charts.of_ledger(self._recording.report().ledger)

    def holders(self, *, process: str | None = None) -> Chart:
        """What the largest holders held at each snapshot: in the process with the most, or in the one of this name."""
        title = "What the largest holders held"
        return self._chart(f"holders-{self._heap_number(process)}", title, "There are no two snapshots to compare.")

    def heap(self, *, process: str | None = None) -> Chart:
        """All memory of that process as nested boxes, by who holds it."""
        from . import _charts

        number = self._heap_number(process)
        report = self._recording.report()
        return _charts.of_heap(report.heap[number] if number is not None else None, report.verdict.step_unit)

    def laps(self) -> Chart:
        """What the job does again and again, such as epochs, laid over each other."""
        return self._chart("laps", "Laps laid over each other", "Nothing was done again and again.")

    def devices(self, number: int = 0) -> Chart:
        """Memory of one GPU: allocated, reserved, and the moments at which an allocation failed."""
        return self._chart(f"device-{number}", "Memory of a GPU", "No GPU of that number was seen.")

    def tensors(self, *, pid: int | None = None) -> Chart:
        """Live tensors by owner, in one process."""
        from . import _charts

        plot = _charts.tensors_plot(self._recording, pid)
        return _charts.of_plot(plot, "Live tensors, by owner", "No snapshot saw a tensor.")

    def _timeline(self, by: str) -> Chart:
        from . import _charts

        plot = _charts.first_divided_by(self._recording.report().plots.get("timeline"), by)
        nothing = "Fewer than two samples of memory were recorded."
        return _charts.of_plot(plot, "Memory of the process tree", nothing)

    def _chart(self, key: str, title: str, nothing: str) -> Chart:
        from . import _charts

        return _charts.of_plot(self._recording.report().plots.get(key), title, nothing)

    def _heap_number(self, process: str | None) -> int | None:
        """The first is the largest."""
        names = [view.process for view in self._recording.report().heap]
        if process is not None and process not in names:
            raise BadInput(f"process {process!r}: the heap of {', '.join(names) or 'none'} is known")
        return (0 if process is None else names.index(process)) if names else None


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
