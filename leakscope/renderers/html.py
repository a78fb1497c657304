"""The report as one page: a file to keep, to mail, to open without a network. Charts, sources and the heap inside.

The page asks nobody for anything: script and style are in it, allowed by their hashes alone, and every string of the
job is escaped. Without JavaScript, and on paper, the charts are still pictures and every figure is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..findings import BudgetRow, Finding, HeapView, Report
from ..pages import icicle, plots
from ..pages.page import cell, harmless, page
from ..words import by_reason, cost, ended, numbered
from . import _bill, _plots
from ._gpu import LINE_COLUMNS, SNAPSHOT_MOMENTS, largest_lines, line_cells
from ._timeline import LANES, TIMELINE, clock, timeline_plot

SUFFIX = ".html"
_SCRIPTS = ("icicle.js", "heap.js")


def render(report: Report, *, renewal: int | None = None, is_paged: bool = False) -> str:
    """A whole HTML document. The same report gives the same bytes each time. ``renewal``: as in ``page``.

    ``is_paged``: where it came from has more of the timeline, and is asked for what somebody zooms to.
    """
    drawn = _plots.views(report)
    then = _data(report, drawn)
    key = _first_chart(report, drawn)
    first = {"plots": {key: then["plots"].pop(key)} if key else {}}
    values = _values(report, drawn, renewal)
    return page("report.html", ((), first), (_SCRIPTS, then), renewal=renewal, is_paged=is_paged, **values)


def render_cell(report: Report) -> str:
    """A report as a box for a cell of a notebook."""
    drawn = _plots.views(report)
    return cell("report.html", _data(report, drawn), _SCRIPTS, **_values(report, drawn))


def bill_of(report: Report) -> _bill.Told | None:
    """What all memory was, as its template takes it."""
    return _bill.told(report)


def heap_values(view: HeapView) -> tuple[tuple[HeapView, Any, Any], dict[str, Any]]:
    """One heap by itself: what its template takes, and what its script draws."""
    return (view, _tree(view), _boxes(view)[1]), _heap_data(view)


def _values(report: Report, drawn: Mapping[str, plots.Plot], renewal: int | None = None) -> dict[str, Any]:
    """What the template names."""
    return {
        "until": clock(report.recording.started_at, report.recording.duration_s),
        "report": report,
        "bill": bill_of(report),
        "on_device": _on_device(report),
        "first_chart": _first_chart(report, drawn),
        "left_out": [(LANES.get(kind, kind), count) for kind, count in report.timeline.left_out.items()]
        if report.timeline
        else [],
        "ended": ended(report.recording) if renewal is None else "still being recorded",
        "cost": cost(report.recording),
        "answer": _answer(report),
        "links": {number: f"holder-{at[0]}-{at[1]}" for number, at in _plots.places(report).items()},
        "plots": {key: plots.drawn(plot) for key, plot in drawn.items()},
        "heaps": [(view, _tree(view), *_boxes(view)) for view in report.heap],
        "excerpts": {(e.file, e.line): numbered(e) for e in report.excerpts},
        "budgets": list(_budgets(report.tensor_budget)),
        "moment_titles": {"end": "In the last snapshot", "peak": "Peak of a step", **SNAPSHOT_MOMENTS},
        "gpu_lines": [
            (title, [line_cells(line) for line in lines]) for title, lines in largest_lines(report.gpu_lines)
        ],
        "line_columns": LINE_COLUMNS,
        "ruled_out": by_reason(report.ruled_out),
        "skipped": by_reason([one for one in report.skipped if one.applies]),
    }


def _data(report: Report, drawn: Mapping[str, plots.Plot]) -> dict[str, Any]:
    """What the scripts draw; all else stands in the page itself."""
    return {
        "plots": {key: plots.data(plot) for key, plot in drawn.items()},
        "heap": [_heap_data(view) for view in report.heap],
    }


def timeline_data(report: Report) -> dict[str, Any] | None:
    """What the script draws of the timeline: for a server that is asked for a part of it."""
    plot = timeline_plot(report)
    return plots.data(plot) if plot is not None else None


def _answer(report: Report) -> Finding | None:
    """The finding that the first screen shows: the first, where it says what to edit or what to do."""
    first = report.findings[0] if report.findings else None
    return first if first is not None and (first.subject.file or first.remedy or first.subject.holder) else None


def _on_device(report: Report) -> str | None:
    """The device that the answer is about: neither it nor its figures are in the memory of processes."""
    answer = _answer(report)
    on = answer.subject.device if answer is not None and report.devices else None
    return on if on != "cpu" else None


def _first_chart(report: Report, drawn: Mapping[str, plots.Plot]) -> str | None:
    """The key of the chart of the first screen; None where nothing was followed over time."""
    in_order = (TIMELINE,) if _on_device(report) is None else ()
    return next((key for key in (*in_order, "device-0", TIMELINE) if key in drawn), None)


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
