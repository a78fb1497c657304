"""What a program or a notebook uses: a recording is opened, its tables are read, and it is judged.

    import leakscope

    with leakscope.open_recording("run.parquet") as rec:
        rec.tables.process_samples            # a DataFrame
        report = rec.report()                 # or leakscope.analyze("run.parquet")
        report.findings                       # a list; .to_pandas() has a row a finding
    rec.plot.timeline()
    rec.heap.top()                            # who holds how much
    rec.between(step=(100, 200)).tables.process_samples

In a notebook recordings, reports, comparisons and charts show themselves.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from . import comparing, findings, renderers, reporting, schema, storage
from .jupyter import Heap, Plots, add_magics, bill_frame, recording_html
from .units import format_bytes

if TYPE_CHECKING:
    from .pages.plots import Plot


class Report(findings.Report):
    """A report that shows itself: the page in a notebook, its first lines elsewhere."""

    def __repr__(self) -> str:
        found = [f"  {f.severity}, {f.kind}: {f.title} ({format_bytes(f.bytes)})" for f in self.findings]
        return "\n".join([f"<Report of {self.recording.path}: {self.verdict.headline}>", *found])

    def _repr_html_(self) -> str:
        from .renderers.html import render_cell

        return render_cell(self)

    @cached_property
    def plots(self) -> dict[str, Plot]:
        """The charts of the page as they are described, by their place in it."""
        return renderers.plots(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The whole page, as text, or written to a file, as pandas has it. **Errors** OSError."""
        text = renderers.render(self, "html")
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return None


class Comparison(comparing.Comparison):
    """A comparison that shows itself: the page in a notebook, as text elsewhere."""

    def __repr__(self) -> str:
        return comparing.render(self, "terminal")

    def _repr_html_(self) -> str:
        return comparing.render_cell(self)


class Recording(storage.Recording):
    """A recording that shows, explains, diagnoses and draws itself."""

    def __dir__(self) -> list[str]:
        """What a notebook completes: rows are for who judges them."""
        return [name for name in super().__dir__() if name != "rows"]

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
        return dict(storage.tables.units)

    def report(self, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Report:
        """The diagnosis, as ``leakscope.analyze`` makes it; the whole one is made once."""
        return analyze(self, only, thresholds) if only or thresholds else self._whole_report

    @cached_property
    def _whole_report(self) -> Report:
        return analyze(self)

    def bill(self) -> pd.DataFrame:
        """What all memory was, at its level and at its peak: rows that have no ``part_of`` add up to the whole.

        **Shape** a row of a bill, or a part of one, a row: ``moment``, ``time_s``, ``account``, ``name``, ``part_of``
        (the name of the row that it is a part of), ``bytes``, ``share`` of the whole, ``process``, ``type``, ``count``,
        ``error_bytes``, ``file``, ``line``, ``also`` (another name). **Units** bytes, seconds.
        """
        return bill_frame(self.report().bill)

    def compare(self, other: storage.Recording | str | os.PathLike[str]) -> Comparison:
        """Whether a later run is better: this one is before, the other after. **Errors** UnreadableRecording."""
        return Comparison(**_fields(comparing.compare(self, _opened(other))))

    @property
    def plot(self) -> Plots:
        """The page's charts: ``rec.plot.timeline()`` and others, each with ``save("x.svg")`` and ``table``.

        With ``ax=`` each is drawn into axes of matplotlib's instead, which are returned.
        """
        return Plots(self)

    @cached_property
    def heap(self) -> Heap:
        """Who holds how much, exactly: ``rec.heap.top()`` and others, each a DataFrame."""
        return Heap(self)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording, finished or still running. **Errors** UnreadableRecording, with one line that says why."""
    return Recording._of(storage.open_recording(path))


def analyze(
    recording: storage.Recording | str | os.PathLike[str],
    only: Collection[str] | None = None,
    thresholds: Mapping[str, Any] | None = None,
) -> Report:
    """The whole answer to one recording, which is open or named by its path or URL.

    ``only`` limits the report to these kinds; ``thresholds`` replaces keyword arguments of the diagnoses by name
    (each takes those it knows). **Errors** BadInput for a kind or a threshold that does not exist;
    UnreadableRecording.
    """
    return Report(**_fields(reporting.analyze(_opened(recording), only, thresholds)))


def render(report: findings.Report, name: str, **options: Any) -> str:
    """``report`` as ``terminal``, ``json`` or another format of ``leakscope report``. **Errors** BadInput."""
    return renderers.render(report, name, **options)


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext leakscope``: adds the cell magic ``%%leakscope``."""
    add_magics(ipython, open_recording)


def _opened(recording: storage.Recording | str | os.PathLike[str]) -> storage.Recording:
    return recording if isinstance(recording, storage.Recording) else open_recording(recording)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
