"""The page of a fleet: claims, growth by rank as a heat map, kills, commits, news, of the project's page parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from ..pages import plots
from ..pages.page import page
from ..units import MiB, format_bytes, format_rate, per_clock
from .commits import Trend
from .report import FleetReport, Heat

_MOST_CELLS = 40_000  # of all maps: half a megabyte
_MOST_MAPS = 24
_BAND_NODES = 64  # side by side
_SHADES = (20, 22, 24, 26, 27)  # numbers of colours, from slow to fast growth
_LEVEL = 0.02  # of the fastest growth: less cannot be told from none
_MOST_COMMITS = 80
_MOST_JOBS = 60
_TONES = {"bad": "bad", "good": "good"}


@dataclass(frozen=True)
class Map:
    """A heat map as shapes in a box of ``width`` by ``height`` cells: a path for each shade, ranks nobody judged apart.

    ``deep``: ranks of a node, one below the other; ``across``: nodes side by side.
    """

    title: str
    sentence: str
    count: str
    key: int
    width: int
    height: int
    deep: int
    across: int
    known: str
    shades: Sequence[tuple[int, str]]


def html(report: FleetReport) -> str:
    """A whole HTML document below 1 MB, whatever the fleet has."""
    maps, level, left_out = _maps(report.heat)
    drawn, (clock, share) = dict(_trend_plots(report.trends)), per_clock(report.longest_s)
    data = [
        {
            "deep": one.deep,
            "across": one.across,
            "rates": [None if rate is None else round(rate * share / MiB, 1) for rate in heat.growth_bytes_per_hour],
            "nodes": _short(heat.nodes, one.deep),
        }
        for one, heat in maps
    ]
    return page(
        "fleet.html",
        ((), {"plots": {key: plots.data(plot) for key, plot in drawn.items()}}),
        (("fleet.js",), {"heat": data, "clock": clock}),
        report=report,
        tone=_TONES.get(report.tone, "unsure"),
        figures=list(_figures(report)),
        maps=[one for one, _ in maps],
        most=format_rate(_most(report.heat), report.longest_s),
        clock=clock,
        shades=_SHADES,
        level=level,
        left_out=left_out,
        band=_BAND_NODES,
        drawn={key: plots.drawn(plot) for key, plot in drawn.items()},
        jobs=report.jobs[:_MOST_JOBS],
        trends=[(t, _rows(t, share), f"level{n}") for n, t in enumerate(report.trends) if len(t.commits) > 2],
    )


def _figures(report: FleetReport) -> Iterator[tuple[str, str]]:
    counts = report.counts
    yield "recordings", f"{counts['recordings']:,}"
    for key, name in (("leaking", "leaking"), ("killed", "killed"), ("jobs", "jobs"), ("nodes", "nodes")):
        yield name, f"{counts[key]:,}"
    unknown = counts["not_judged"] + counts["cannot_tell"]
    yield "unclear", f"{unknown:,}"
    if counts["unfinished"] + counts["unreadable"]:
        yield "without an end", f"{counts['unfinished'] + counts['unreadable']:,}"


def _most(heat: Sequence[Heat]) -> float:
    return max((rate for one in heat for rate in one.growth_bytes_per_hour if rate is not None), default=0.0)


def _maps(heat: Sequence[Heat]) -> tuple[list[tuple[Map, Heat]], int, int]:
    """Those in which something grows; how many are level, and how many are too much for one page."""
    most = _most(heat)
    growing = [one for one in heat if any((rate or 0.0) > _LEVEL * most for rate in one.growth_bytes_per_hour)]
    found: list[tuple[Map, Heat]] = []
    cells = 0
    for one in growing:
        size = len(one.growth_bytes_per_hour)
        if cells + size <= _MOST_CELLS and len(found) < _MOST_MAPS:
            cells += size
            found.append((_map(one, len(found), most), one))
    return found, len(heat) - len(growing), len(growing) - len(found)


def _map(heat: Heat, key: int, most: float) -> Map:
    size = len(heat.growth_bytes_per_hour)
    deep = _ranks_of_a_node(heat.nodes)
    across = min(_BAND_NODES, max(1, ceil(size / deep)))
    bands = max(1, ceil(size / (deep * across)))
    shade_of: dict[int, list[tuple[int, int]]] = {}
    known: list[tuple[int, int]] = []
    for rank, rate in enumerate(heat.growth_bytes_per_hour):
        node, row = divmod(rank, deep)
        band, column = divmod(node, across)
        at = (band * (deep + 1) + row, column)
        if rate is None:
            continue
        known.append(at)
        share = rate / most if most > 0 else 0.0
        if share > _LEVEL:
            shade = min(len(_SHADES) - 1, int(share**0.5 * len(_SHADES)))
            shade_of.setdefault(shade, []).append(at)
    grows = sum(map(len, shade_of.values()))
    name = heat.job + (f", attempt {heat.attempt}" if heat.attempt is not None else "")
    count = f"{grows:,} of {size:,}"
    shades = [(_SHADES[shade], _path(cells)) for shade, cells in sorted(shade_of.items())]
    return Map(
        name,
        f"{name}: {count} ranks grow",
        count,
        key,
        across,
        bands * (deep + 1) - 1,
        deep,
        across,
        _path(known),
        shades,
    )


def _ranks_of_a_node(nodes: Sequence[str]) -> int:
    """How many ranks in a row run on one node: 8 of 8 GPUs."""
    first = nodes[0] if nodes else ""
    run = next((n for n, node in enumerate(nodes) if node != first), len(nodes))
    return max(1, min(run, 16))


def _path(cells: Sequence[tuple[int, int]]) -> str:
    """Neighbours in a row are one rectangle."""
    parts: list[str] = []
    start: tuple[int, int] | None = None
    length = 0
    for row, column in [*sorted(cells), (-1, -1)]:
        if start is not None and (row, column) == (start[0], start[1] + length):
            length += 1
            continue
        if start is not None:
            parts.append(f"M{start[1]} {start[0]}h{length}v1h-{length}z")
        start, length = (row, column), 1
    return "".join(parts)


def _short(nodes: Sequence[str], deep: int) -> list[str]:
    """One name for each column of the map; where ranks of a column run on several nodes, the first."""
    return [nodes[n] for n in range(0, len(nodes), deep)]


def _trend_plots(trends: Sequence[Trend]) -> Iterator[tuple[str, plots.Plot]]:
    for number, trend in enumerate(trends):
        if len(trend.commits) < 3:
            continue
        count = len(trend.commits)
        numbers = [float(n) for n in range(1, count + 1)]
        named = {at: f"{commit[:10]}" for at, commit in zip(numbers, trend.commits)}
        level = plots.Curve("peak without leaks", plots.colour(0), numbers, [round(v) for v in trend.level_bytes])
        title = f"{trend.job or 'recordings'}: peak from commit to commit"
        marks = (
            [] if trend.since is None else [(numbers[trend.since], f"peak changed at {named[numbers[trend.since]]}")]
        )
        yield f"level{number}", plots.Plot(title, [level], "commit", names=named, marks=marks)


def _rows(trend: Trend, share: float) -> list[tuple[str, int, int, str, str]]:
    rows = [
        (commit, recordings, leaking, format_bytes(level), format_bytes(rate * share, signed=True) if leaking else "")
        for commit, recordings, leaking, level, rate in zip(
            trend.commits, trend.recordings, trend.leaking, trend.level_bytes, trend.growth_bytes_per_hour
        )
    ]
    return rows[-_MOST_COMMITS:]
