"""Charts as pictures that stand alone: SVG files of the page's own shapes and colours, and PNG made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from ..errors import BadInput
from ..findings import DATA, Bill, HeapView, LedgerRow
from ..units import format_bytes
from ..words import BILL_NAMES
from . import charts, icicle
from .page import bundle, environment
from .plots import Plot, still

WIDTH, HEIGHT = 900, 260  # pixels, of a chart without its lanes and names
_LEFT, _LEFT_OF_BARS = 90, 260
_LETTER = 6.3  # pixels of a letter of 11 pixels, on average
_LONGEST_LABEL, _LONGEST_NAME = 40, 80  # letters, of a bar and in a legend
_ROW, _BAR_ROW, _BOX_ROW = 18, 22, 22
_MOST_ORDERED = 8  # names of curves from early to late
_SCALE = 2  # of PNG: as many pixels as a dense screen has
_VARIABLE = re.compile(r"(?<![\w-])--([\w-]+): ([^;:]+);")
_BLOCK = re.compile(r"[^{}]+")
_STROKE_WIDTH = re.compile(r"(stroke-width: )(\d+)")
_OWN = """
.paper { fill: var(--paper); } .label { fill: var(--ink); font: 11px var(--sans); }
.title { fill: var(--ink); font: 600 14px var(--sans); }
"""


def of_plot(plot: Plot) -> str:
    """SVG of lines or bands."""
    chart = still(plot)
    height = HEIGHT + 84 + 16 * len(chart.lanes)
    named = [(shape.slot, shape.dash, shape.name) for shape in chart.shapes]
    named = named[::-1] if plot.stacked else named
    spans = [(slot, 0, f"{lane.name}: {name}") for lane in chart.lanes for name, slot in lane.spans.items()]
    if plot.ordered and len(named) > _MOST_ORDERED:  # colours between these two say which is when
        named = [named[0], named[-1]]
    names = [*_in_rows(named, height)]
    if spans and plot.stacked:
        names += _in_rows(spans, names[-1][1] + _ROW)
    bottom = names[-1][1] + 12 if names else height
    return _svg(plot.title, chart.sentence, bottom, chart=chart, names=names, is_filled=plot.stacked)


class Bar(NamedTuple):
    """``slot`` is the number of its colour, None for one that has none of its own; ``text`` says how much it is."""

    label: str
    slot: int | None
    bytes: int
    text: str


def pieces(bill: Bill, most: int = 12) -> list[Bar]:
    """What all memory was, the largest ``most`` first: of variables each holder, of the rest each account."""
    sizes = [(part.name, part.bytes) for row in bill.rows if row.account == DATA for part in (row.parts or (row,))]
    accounts: dict[str, int] = {}
    for row in bill.rows:
        if row.account != DATA:
            name = BILL_NAMES.get(row.account, row.account)
            accounts[name] = accounts.get(name, 0) + row.bytes
    sizes = sorted((one for one in [*sizes, *accounts.items()] if one[1]), key=lambda one: -one[1])
    rest = sum(size for _, size in sizes[most:])
    told = sizes[:most] + ([(f"{len(sizes) - most} smaller", rest)] if rest else [])
    whole = max(bill.total_bytes, 1)
    return [Bar(name, None, size, f"{format_bytes(size)}, {size / whole:.0%}") for name, size in told]


def movements(rows: Sequence[LedgerRow], most: int = 12) -> list[Bar]:
    """What grew and what shrank, the largest ``most`` first; the others are added up in one more."""
    moved = sorted((row for row in rows if row.growth_bytes and row.in_total), key=lambda row: -abs(row.growth_bytes))
    several = len({row.process for row in rows}) > 1
    told = [
        (f"{r.process}: {r.account}" if several else r.account, charts.account_slot(r.account), r.growth_bytes)
        for r in moved[:most]
    ]
    if rest := moved[most:]:
        told.append((f"{len(rest)} smaller", None, sum(row.growth_bytes for row in rest)))
    return [Bar(*one, format_bytes(one[-1], signed=True)) for one in told]


def of_bars(title: str, told: Sequence[Bar]) -> str:
    """SVG of bars: to the right what there is or what grew, to the left what shrank."""
    low, high = min(0, *(bar.bytes for bar in told)), max(0, *(bar.bytes for bar in told))
    unit = (WIDTH - _LEFT_OF_BARS - 120) / (high - low)
    bars = []
    for number, (label, slot, size, text) in enumerate(told):
        x = _LEFT_OF_BARS + (min(0, size) - low) * unit
        look = "more" if slot is None else f"area c{slot}"
        bars.append((round(x, 1), 40 + _BAR_ROW * number, round(abs(size) * unit, 1), look, _end_of(label), text))
    sentence = f"{title}: " + "; ".join(f"{bar.label} {bar.text}" for bar in told)
    return _svg(title, sentence, 48 + _BAR_ROW * len(bars), bars=bars, left=_LEFT_OF_BARS)


def of_heap(title: str, view: HeapView) -> str:
    """SVG of the boxes of a process, at its last snapshot."""
    boxes = icicle.boxes(icicle.nodes(view))
    return _svg(title, title, 44 + _BOX_ROW * (1 + max(box.row for box in boxes)), boxes=boxes)


def png(svg: str) -> bytes:
    """An SVG as PNG. **Errors** BadInput: what draws them is not installed."""
    try:
        import resvg_py
    except ImportError:
        raise BadInput("PNG needs resvg: pip install resvg-py; .svg needs nothing") from None
    svg = _BLOCK.sub(_scaled, svg)
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_SCALE))


def _scaled(block: re.Match[str]) -> str:
    """A rule whose strokes are told in pixels of the screen."""
    before, mark, after = block[0].rpartition("non-scaling-stroke")
    return _STROKE_WIDTH.sub(lambda found: f"{found[1]}{_SCALE * int(found[2])}", before) + mark + after


def _svg(title: str, sentence: str, height: float, **values: object) -> str:
    given = {"chart": None, "chart_height": HEIGHT, "bars": (), "names": (), "boxes": (), "is_filled": False}
    return (
        environment()
        .get_template("picture.svg")
        .render(
            {"left": _LEFT, **given, **values},
            title=title,
            sentence=sentence,
            width=WIDTH,
            height=round(height),
            style=Markup(_style()),
        )
    )


def colours() -> dict[str, str]:
    """The page's colours on white paper, by name: ``c0`` to ``c27`` of what is drawn, ``paper``, ``ink``, ``bad``."""
    return dict(_VARIABLE.findall(bundle("colours.css").partition(":root {")[2].partition("\n}")[0]))


def _style() -> str:
    """The page's colours on white paper, without variables: not every program that draws SVG knows them."""
    values = colours()
    rules = bundle("charts.css") + _OWN
    return re.sub(r"var\(--([\w-]+)\)", lambda found: values[found[1]].replace('"', "'"), rules)


def _in_rows(named: Sequence[tuple[int, int, str]], top: float) -> Iterator[tuple[float, float, int, int, str]]:
    """Names beside each other, as many as there is room for."""
    x, y = float(_LEFT), top
    for slot, dash, name in named:
        label = _end_of(name, _LONGEST_NAME)
        width = 34 + _LETTER * len(label)
        if x > _LEFT and x + width > WIDTH - 16:
            x, y = float(_LEFT), y + _ROW
        yield round(x), y, slot, dash, label
        x += width


def _end_of(name: str, most: int = _LONGEST_LABEL) -> str:
    """The end of a path says most."""
    return name if len(name) <= most else "…" + name[1 - most :]
