"""Where the growth went: one bar for each account of each process. The bars add up to the growth that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings import LedgerRow
from ..units import format_bytes
from ._axes import ACCOUNT_COLOURS, axes, bytes_on, nothing, short, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Where the growth went"


def ledger(rows: Sequence[LedgerRow], ax: Axes | None = None, *, most: int = 12) -> Axes:
    """The ``most`` largest movements, up or down; the others are added up in one more bar."""
    moved = sorted((row for row in rows if row.growth_bytes and row.in_total), key=lambda row: -abs(row.growth_bytes))
    if not moved:
        return nothing(ax, _TITLE, "no account grew or shrank")
    several = len({row.process for row in rows}) > 1
    bars = [
        (f"{row.process}: {row.account}" if several else row.account, row.account, row.growth_bytes, row.estimated)
        for row in moved[:most]
    ]
    if rest := moved[most:]:
        bars.append((f"{len(rest)} smaller", "", sum(row.growth_bytes for row in rest), any(r.estimated for r in rest)))
    ax = axes(ax, _TITLE, (9.0, 1.0 + 0.32 * len(bars)))
    for place, (name, account, growth_bytes, estimated) in enumerate(bars):
        label = f"{short(name)} (estimate)" if estimated else short(name)
        look = {**style(ACCOUNT_COLOURS.get(account, 7)), "hatch": "//" if estimated else ""}
        bar = ax.barh(label, growth_bytes, **look)
        ax.bar_label(bar, [format_bytes(growth_bytes, signed=True)], padding=3, fontsize="small")
        ax.set_ylim(place + 0.6, -0.6)  # the largest on top
    ax.axvline(0, color="black", linewidth=0.8)
    ax.margins(x=0.15)
    bytes_on(ax.xaxis, "growth from the start to the end")
    return ax
