"""What each holder held, inventory by inventory: the lines of those that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings import HeapView
from ._axes import TIME_LABEL, axes, bytes_on, legend, line_style, nothing, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CARRIES = 0.8  # of a holder's change: the member that carries it is the one to show
_VISIBLE = 0.02  # of the largest change: less is a line on the axis


def holders(views: Sequence[HeapView], ax: Axes | None = None, *, process: str | None = None, most: int = 6) -> Axes:
    """Of one process, by its name in the report (``train.py[4242]``); of the one that changed most if none is named."""
    views = [view for view in views if len(view.takes) > 1 and process in (None, view.process)]
    if not views:
        of = f" of {process}" if process else ""
        return nothing(ax, "What the holders held", f"there are no two inventories{of} to compare")
    view = max(views, key=lambda v: max((abs(h.bytes[-1] - h.bytes[0]) for h in v.holders), default=0))
    ax = axes(ax, f"What the holders held in {view.process} (estimate)")
    for number, index in enumerate(_accumulating(view)[:most]):
        holder = view.holders[index]
        ax.plot([take.time_s for take in view.takes], holder.bytes, label=short(holder.path), **line_style(number))
    ax.set_xlabel(f"{TIME_LABEL}; a point is an inventory")
    ax.set_ylim(bottom=0)
    bytes_on(ax.yaxis, "held")
    legend(ax)
    return ax


def _accumulating(view: HeapView) -> list[int]:
    """Indexes by change, largest first: of a way to what grows only the last name, and nothing of what is inside it."""
    change = [holder.bytes[-1] - holder.bytes[0] for holder in view.holders]
    carried = set()  # holders whose change is that of one named member
    for index, holder in enumerate(view.holders):
        if holder.parent is None or abs(change[index]) < _CARRIES * abs(change[holder.parent]):
            continue
        if not holder.path.startswith(view.holders[holder.parent].path + "["):  # an item has no name of its own
            carried.add(holder.parent)
    chosen: set[int] = set()
    for index in sorted(range(len(change)), key=lambda i: (-abs(change[i]), i)):
        if index not in carried and change[index] and not _is_inside(view, index, chosen):
            chosen.add(index)
    most = max((abs(change[i]) for i in chosen), default=0)
    return sorted((i for i in chosen if abs(change[i]) >= _VISIBLE * most), key=lambda i: (-abs(change[i]), i))


def _is_inside(view: HeapView, index: int, others: set[int]) -> bool:
    parent = view.holders[index].parent
    while parent is not None:
        if parent in others:
            return True
        parent = view.holders[parent].parent
    return False
