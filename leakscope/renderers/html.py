"""The report as one page: a file to keep, to mail, to open without a network. Charts, sources and the heap inside.

The page asks nobody for anything: script and style are in it, allowed by their hashes alone, and every string of the
job is escaped. Without JavaScript, and on paper, the charts are still pictures and every figure is there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ..findings import BudgetRow, Excerpt, HeapView, Report, Timeline
from ..pages import charts
from ..pages.page import harmless, page
from ..units import format_bytes
from ..words import by_reason, cost, ended

SUFFIX = ".html"
_KIB = 1024  # the chart's unit: finer than a pixel, and a third shorter to write


def render(report: Report) -> str:
    """A whole HTML document. The same report gives the same bytes each time."""
    return page(
        "report.html",
        ("timeline.js", "heap.js"),
        _data(report),
        report=report,
        ended=ended(report.recording),
        cost=cost(report.recording),
        timeline_charts=_timeline_charts(report.timeline),
        heaps=[(view, _tree(view)) for view in report.heap],
        excerpts={(e.file, e.line): _excerpt(e) for e in report.excerpts},
        budgets=list(_budgets(report.tensor_budget)),
        ruled_out=by_reason(report.ruled_out),
        skipped=by_reason(report.skipped),
    )


def _data(report: Report) -> dict[str, Any]:
    """What the scripts draw; all else stands in the page itself."""
    return {
        "timeline": _timeline_data(report.timeline) if report.timeline else None,
        "heap": [{"bytes": [h.bytes for h in view.holders]} for view in report.heap],
    }


def _timeline_data(timeline: Timeline) -> dict[str, Any]:
    views = [
        [
            {"name": harmless(b.name), "slot": slot, "kib": [value // _KIB for value in b.value_bytes]}
            for b, slot in zip(bands, charts.slots(bands))
        ]
        for bands in (timeline.accounts, timeline.processes)
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
    return {"time_s": timeline.time_s, "step": timeline.step, "views": views, "lanes": lanes}


def _timeline_charts(timeline: Timeline | None) -> list[tuple[str, charts.Chart]]:
    if timeline is None or len(timeline.time_s) < 2:
        return []
    first, most, last = timeline.total_bytes[0], max(timeline.total_bytes), timeline.total_bytes[-1]
    figures = f"{format_bytes(first)} at the start, at most {format_bytes(most)}, {format_bytes(last)} at the end"
    return [
        (by, charts.stacked(timeline, bands, f"Memory of the process tree by {by}: {figures}"))
        for by, bands in (("account", timeline.accounts), ("process", timeline.processes))
        if by == "account" or len(bands) > 1
    ]


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
