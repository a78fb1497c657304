"""What each holder held, snapshot by snapshot: the lines of those that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings import HeapView
from ._axes import TIME_LABEL, axes, bytes_on, legend, line_style, nothing, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CARRIES = 0.8  # of a holder's change: the member or members that carry it are the ones to show
_VISIBLE = 0.02  # of the largest change: less is a line on the axis


def holders(views: Sequence[HeapView], ax: Axes | None = None, *, process: str | None = None, most: int = 6) -> Axes:
    """Of one process, by its name in the report (``train.py[4242]``); of the one that changed most if none is named."""
    views = [view for view in views if len(view.takes) > 1 and process in (None, view.process)]
    if not views:
        of = f" of {process}" if process else ""
        return nothing(ax, "What the holders held", f"there are no two snapshots{of} to compare")
    view = max(views, key=lambda v: max((abs(h.bytes[-1] - h.bytes[0]) for h in v.holders), default=0))
    ax = axes(ax, f"What the holders held in {view.process}{'' if view.exact else ' (estimate)'}")
    for number, index in enumerate(_accumulating(view)[:most]):
        holder = view.holders[index]
        ax.plot([take.time_s for take in view.takes], holder.bytes, label=short(holder.path), **line_style(number))
    ax.set_xlabel(f"{TIME_LABEL}; a point is a snapshot")
    ax.set_ylim(bottom=0)
    bytes_on(ax.yaxis, "held")
    legend(ax)
    return ax


def _accumulating(view: HeapView) -> list[int]:
    """Indexes by change, largest first: down each path as long as members with names of their own carry the change."""
    change = [abs(holder.bytes[-1] - holder.bytes[0]) for holder in view.holders]
    members: dict[int | None, list[int]] = {}
    for index, holder in enumerate(view.holders):
        above = view.holders[holder.parent].path if holder.parent is not None else None
        if above is None or not holder.path.startswith(above + "["):  # an item has no name of its own
            members.setdefault(holder.parent, []).append(index)
    ends, open_ends = [], list(members.get(None, ()))
    while open_ends:
        index = open_ends.pop()
        inner = members.get(index, [])
        if inner and sum(change[i] for i in inner) >= _CARRIES * change[index]:
            open_ends += inner
        else:
            ends.append(index)
    most = max((change[i] for i in ends), default=0)
    return sorted((i for i in ends if change[i] and change[i] >= _VISIBLE * most), key=lambda i: (-change[i], i))
