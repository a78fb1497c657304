"""The report as one page: a file to keep, to mail, to open without a network. Charts, sources and the heap inside.

The page asks nobody for anything: script and style are in it, allowed by their hashes alone, and every string of the
job is escaped. Without JavaScript, and on paper, the charts are still pictures and every figure is there.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from ..findings import Band, BudgetRow, Excerpt, Finding, HeapView, Outlook, Report, Timeline
from ..pages import charts, icicle, plots
from ..pages.page import cell, harmless, page
from ..units import format_bytes, format_duration
from ..words import by_reason, cost, ended
from . import _plots
from ._gpu import LINE_COLUMNS, SNAPSHOT_MOMENTS, largest_lines, line_cells

SUFFIX = ".html"
_HELD = ("tensors", "arrays", "python-objects")  # accounts in which a holder's bytes are counted
_KIB = 1024  # the chart's unit at least
_FINEST = 2**17  # units of the peak: a pixel of a zoomed chart, and half as long to write as bytes


def render(report: Report, *, renewal: int | None = None) -> str:
    """A whole HTML document. The same report gives the same bytes each time. ``renewal``: as in ``page``."""
    drawn = _plots.views(report)
    return page(
        "report.html",
        (("timeline.js",), {"timeline": _timeline_data(report, report.timeline) if report.timeline else None}),
        (("plots.js", "icicle.js", "heap.js"), _rest(report, drawn)),
        renewal=renewal,
        **_values(report, drawn, renewal),
    )


def render_cell(report: Report) -> str:
    """The same without a script, as a box for a cell of a notebook."""
    return cell("report.html", **_values(report, _plots.views(report)))


def _values(report: Report, drawn: Mapping[str, plots.Plot], renewal: int | None = None) -> dict[str, Any]:
    """What the template names."""
    return {
        "until": _clock(report.recording.started_at, report.recording.duration_s).rstrip(", "),
        "report": report,
        "ended": ended(report.recording) if renewal is None else "still being recorded",
        "cost": cost(report.recording),
        "answer": _answer(report),
        "timeline_charts": _timeline_charts(report),
        "views": [by for by, _, _ in _views(report, report.timeline)] if report.timeline else [],
        "links": {number: f"holder-{at[0]}-{at[1]}" for number, at in _plots.places(report).items()},
        "plots": {key: (plot.title, plots.still(plot), plots.table(plot)) for key, plot in drawn.items()},
        "heaps": [(view, _tree(view), *_boxes(view)) for view in report.heap],
        "excerpts": {(e.file, e.line): _excerpt(e) for e in report.excerpts},
        "budgets": list(_budgets(report.tensor_budget)),
        "moment_titles": {"end": "At the end", "peak": "Peak of a step", **SNAPSHOT_MOMENTS},
        "gpu_lines": [
            (title, [line_cells(line) for line in lines]) for title, lines in largest_lines(report.gpu_lines)
        ],
        "line_columns": LINE_COLUMNS,
        "ruled_out": by_reason(report.ruled_out),
        "skipped": by_reason(report.skipped),
    }


def _rest(report: Report, drawn: Mapping[str, plots.Plot]) -> dict[str, Any]:
    """What the scripts draw below the timeline; all else stands in the page itself."""
    return {
        "plots": {key: plots.data(plot) for key, plot in drawn.items()},
        "heap": [_heap_data(view) for view in report.heap],
    }


def _answer(report: Report) -> Finding | None:
    """The finding that the first screen shows: the first, where it says what to edit or what to do."""
    first = report.findings[0] if report.findings else None
    return first if first is not None and (first.subject.file or first.remedy or first.subject.holder) else None


def _heap_data(view: HeapView) -> dict[str, Any]:
    """The boxes column by column, each type once, and widths only where they are not the sizes."""
    nodes = icicle.nodes(view)
    types = list(dict.fromkeys(node.type for node in nodes))
    numbers = {name: number for number, name in enumerate(types)}
    return {
        "types": [harmless(name) for name in types],
        "name": [harmless(node.name) for node in nodes],
        "type": [numbers[node.type] for node in nodes],
        "parent": [node.parent for node in nodes],
        "holder": [node.holder for node in nodes],
        "bytes": [node.bytes for node in nodes],
        "drawn": {n: node.drawn_bytes for n, node in enumerate(nodes) if node.drawn_bytes != node.bytes},
    }


def _boxes(view: HeapView) -> tuple[list[icicle.Node], list[icicle.Box]]:
    nodes = icicle.nodes(view)
    return nodes, icicle.boxes(nodes)


def _timeline_data(report: Report, timeline: Timeline) -> dict[str, Any]:
    unit = _KIB
    while max(timeline.total_bytes) // unit > _FINEST:
        unit *= 2
    views = [
        {
            "by": by,
            "bands": [
                {"name": harmless(b.name), "slot": slot, "steps": _steps([value // unit for value in b.value_bytes])}
                for b, slot in zip(bands, colours)
            ],
        }
        for by, bands, colours in _views(report, timeline)
    ]
    lanes = [
        {
            "kind": lane.kind,
            "name": lane.name,
            "spans": [[harmless(name), slot] for name, slot in lane.spans.items()],
            "moments": [[m.time_s, m.end_s, harmless(m.label), harmless(m.name), m.slot] for m in lane.marks],
        }
        for lane in charts.lanes(timeline)
    ]
    around = charts.frame(timeline)
    return {
        "unit_bytes": unit,
        "time_s": timeline.time_s,
        "step": timeline.step,
        "views": views,
        "lanes": lanes,
        "outlook": asdict(timeline.outlook) if timeline.outlook is not None else None,
        "frame": asdict(around),
        "full": harmless(_full(report, timeline.outlook)),
    }


def _steps(values: Sequence[int]) -> list[int]:
    """From each value to the next, the first from zero: shorter to write."""
    return [value - before for before, value in zip([0, *values], values)]


def _timeline_charts(report: Report) -> list[tuple[str, charts.Chart]]:
    timeline = report.timeline
    if timeline is None or len(timeline.time_s) < 2:
        return []
    first, most, last = timeline.total_bytes[0], max(timeline.total_bytes), timeline.total_bytes[-1]
    figures = f"{format_bytes(first)} at the start, at most {format_bytes(most)}, {format_bytes(last)} at the end"
    full = _full(report, timeline.outlook)
    said = f"{figures}; {full}" if full else figures
    return [
        (by, charts.stacked(timeline, bands, colours, f"Memory of the process tree by {by}: {said}", full))
        for by, bands, colours in _views(report, timeline)
        if by == "account" or len(timeline.processes) > 1
    ]


def _views(report: Report, timeline: Timeline) -> list[tuple[str, list[Band], list[int]]]:
    """The ways to divide the memory, with the numbers of the colours: by process first where there are several."""
    several = len(timeline.processes) > 1
    culprit = _culprit(report, timeline)
    found = []
    for by, bands in (("account", list(timeline.accounts)), ("process", list(timeline.processes))):
        colours = charts.slots(bands)
        if culprit is not None:
            label, name, held = culprit
            sources = range(len(bands)) if by == "account" else [i for i, b in enumerate(bands) if b.name == label]
            if by == "account":
                sources = sorted((i for i in sources if bands[i].name in _HELD), key=lambda i: -_gain(bands[i]))
            bands, taken = _without(bands, sources, held)
            if any(taken):
                bands, colours = [*bands, Band(name, taken, estimated=True)], [*colours, charts.CULPRIT]
        found.append((by, bands, colours))
    return found[::-1] if several else found


def _gain(band: Band) -> int:
    return band.value_bytes[-1] - band.value_bytes[0]


def _without(bands: Sequence[Band], sources: Iterable[int], held: Sequence[int]) -> tuple[list[Band], list[int]]:
    """The bands without what one holder held, and how much of that was found in these of them."""
    left, taken = list(bands), [0] * len(held)
    for i in sources:
        part = [min(there, of - got) for there, of, got in zip(left[i].value_bytes, held, taken)]
        left[i] = replace(left[i], value_bytes=[there - some for there, some in zip(left[i].value_bytes, part)])
        taken = [got + some for got, some in zip(taken, part)]
    return left, taken


def _culprit(report: Report, timeline: Timeline) -> tuple[str, str, list[int]] | None:
    """Process, name and bytes over time of the holder that the first finding names; straight between snapshots."""
    finding = report.findings[0] if report.findings else None
    if finding is None or finding.wasted or not report.verdict.leaking:
        return None
    place = _plots.place(report, finding)
    if place is None:
        return None
    view = report.heap[place[0]]
    holder = view.holders[place[1]]
    at_s = [timeline.time_s[0], *(take.time_s for take in view.takes)]
    held = [0, *holder.bytes]
    return view.process, finding.subject.holder or holder.path, [_between(at_s, held, t) for t in timeline.time_s]


def _between(at_s: Sequence[float], values: Sequence[int], moment_s: float) -> int:
    after = bisect_right(at_s, moment_s)
    if after in (0, len(at_s)):
        return values[max(0, after - 1)]
    part = (moment_s - at_s[after - 1]) / ((at_s[after] - at_s[after - 1]) or 1.0)
    return round(values[after - 1] + part * (values[after] - values[after - 1]))


def _full(report: Report, ahead: Outlook | None) -> str:
    """``host (21.9 GiB for this job) full 23:41 UTC, in 3 h 54 min``; empty where no limit comes nearer."""
    if ahead is None or ahead.full_s is None or ahead.limit_bytes is None:
        return ""
    left = format_duration(ahead.full_s - ahead.end_s)
    return f"{ahead.limit or 'limit'} full {_clock(report.recording.started_at, ahead.full_s)}in {left}"


def _clock(started_at: str, after_s: float) -> str:
    """The time of day, with the date if that is another day; empty where nobody knows when the recording began."""
    try:
        start = datetime.fromisoformat(started_at.replace("Z", "+00:00"))
        then = start + timedelta(seconds=after_s)
    except (ValueError, OverflowError):
        return ""
    return f"{then:%H:%M} UTC, " if then.date() == start.date() else f"{then:%Y-%m-%d %H:%M} UTC, "


def _excerpt(excerpt: Excerpt) -> list[tuple[int, str, bool]]:
    """(number, text, is meant) of each line, without the indent they have in common."""
    text = textwrap.dedent("\n".join(line.expandtabs(4) for line in excerpt.lines)).rstrip()
    numbered = enumerate(text.split("\n"), excerpt.first_line)
    return [(number, line, number == excerpt.line) for number, line in numbered]


def _budgets(rows: Sequence[BudgetRow]) -> Iterator[tuple[str, list[str], list[tuple[str, dict[str, int]]]]]:
    """For each process and device: its moments, and the bytes of each account at them; what is no tensor comes last."""
    for process, device in dict.fromkeys((row.process, row.device) for row in rows):
        own = [row for row in rows if (row.process, row.device) == (process, device)]
        accounts: dict[str, dict[str, int]] = {}
        for row in own:
            accounts.setdefault(row.account, {})[row.moment] = row.bytes
        moments = list(dict.fromkeys(row.moment for row in own))
        yield f"{process} on {device}", moments, sorted(accounts.items(), key=lambda one: one[0] == "not-tensors")


def _tree(view: HeapView) -> list[dict[str, Any]]:
    """The holders as nodes with their members, those largest at the last snapshot first; labels leave out the way."""
    nodes = [{"index": i, "holder": h, "label": h.path, "members": []} for i, h in enumerate(view.holders)]
    roots = []
    for node, holder in zip(nodes, view.holders):
        if holder.parent is None:
            roots.append(node)
            continue
        above = view.holders[holder.parent].path
        if holder.path.startswith(above) and holder.path != above:
            node["label"] = holder.path[len(above) :].lstrip()
        nodes[holder.parent]["members"].append(node)  # type: ignore[attr-defined]
    for some in (roots, *(node["members"] for node in nodes)):
        some.sort(key=lambda node: (-node["holder"].bytes[-1], node["index"]))  # type: ignore[attr-defined]
    return roots
