"""Who held most at the end, and what they gained: a short table of every report, whatever its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..findings import HeapHolder, HeapView, Report
from ..units import MiB, format_bytes, format_count, format_duration, unnumbered

_MOST = 5
_LEAST_BYTES = MiB
_LEAST_SHARE = 0.02  # of what all of them hold
_LEAST_STANDING_SHARE = 0.05  # the same of what gained nothing
_HARDLY = 0.01  # of what it holds
_CARRIES = 0.8  # of what the object above it holds
_OF_NO_ONE = ("several modules together", "smaller modules")
_NO_HOLDERS = ("frame", "module")
COLUMNS = ("holder", "what it is", "at first", "at last", "gained")


class Held(NamedTuple):
    """``members``: of a container how many, at first and at last; None: it has none.

    ``there_bytes``: what its process had at last, where the holder has more: pages that nobody wrote to are none.
    """

    path: str
    what: str
    first_bytes: int
    last_bytes: int
    members: tuple[int, int] | None
    there_bytes: int | None = None

    @property
    def changed(self) -> bool:
        return abs(self.last_bytes - self.first_bytes) > _HARDLY * self.last_bytes

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        first = format_bytes(self.first_bytes) if self.first_bytes else "new"
        last = format_bytes(self.last_bytes)
        gained = format_bytes(self.last_bytes - self.first_bytes, signed=True) if self.changed else "unchanged"
        if self.there_bytes is not None:
            last, gained = f"≤ {format_bytes(self.there_bytes)}", ""
        what = self.what
        if self.members is not None and self.members[1] > 1:
            before, now = self.members
            is_known = 0 < before < now  # members that had rows of their own at first were not counted together
            what += f", {format_count(before)} → {format_count(now)}" if is_known else f", {format_count(now)}"
        if self.there_bytes is not None:
            what += f"; {format_bytes(self.last_bytes)} with pages that nobody wrote to"
        return self.path, what, first, last, gained


def largest_holders(report: Report) -> Iterator[tuple[str, list[Held]]]:
    """(heading, rows) of the process that has most on GPUs, and without a bill of that which gained most.

    Nothing where no two snapshots told of its heap, or nobody holds much.
    """
    for is_on_devices in (True,) if report.bill else (False, True):
        views = [view for view in report.heap if view.on_devices is is_on_devices]
        if views and len(views[0].takes) >= 2:
            heading, held = _largest(views[0], report.verdict.start_s, is_alone=len(views) == 1)
            if held:
                yield heading, held


def _begin(view: HeapView, start_s: float | None) -> int:
    """Which snapshot gains are counted from: that nearest to the time from which growth is judged."""
    if start_s is None:
        return 0
    return min(range(len(view.takes) - 1), key=lambda at: abs(view.takes[at].time_s - start_s))


def _largest(view: HeapView, start_s: float | None, *, is_alone: bool) -> tuple[str, list[Held]]:
    begin = _begin(view, start_s)
    tops = [number for number, holder in enumerate(view.holders) if _is_told(holder, view.holders)]
    total = sum(holder.bytes[-1] for holder in view.holders if holder.parent is None)
    least = max(_LEAST_BYTES, _LEAST_SHARE * total)
    tops = [number for number in tops if view.holders[number].bytes[-1] >= least]
    tops.sort(key=lambda number: -view.holders[number].bytes[-1])
    found = [_held(view, _carrier(view, number), begin) for number in tops]
    held = [one for one in found if one.changed or one.last_bytes >= _LEAST_STANDING_SHARE * total]
    first, last = (format_duration(view.takes[at].time_s) for at in (begin, -1))
    whose = f" in {view.process}" if not is_alone else " on GPUs" if view.on_devices else ""
    return f"Largest holders{whose}, at {first} and at {last}", held[:_MOST]


def _is_told(holder: HeapHolder, holders: Sequence[HeapHolder]) -> bool:
    """A function or a module is no holder to a reader: what its variables hold is told instead."""
    above = None if holder.parent is None else holders[holder.parent]
    is_at_top = above is None or (above.parent is None and above.type in _NO_HOLDERS)
    return is_at_top and holder.type not in _NO_HOLDERS and holder.path not in _OF_NO_ONE


def _carrier(view: HeapView, number: int) -> int:
    """From an object to the one that it has nearly all of that in, and that has a name of its own."""
    named = at = number
    while True:
        most = _CARRIES * view.holders[at].bytes[-1]
        below = [one for one, holder in enumerate(view.holders) if holder.parent == at and holder.bytes[-1] >= most]
        if not below:
            return named
        at = below[0]
        if not unnumbered(view.holders[at].path).endswith(("[*]", ">", "…")):
            named = at


def _held(view: HeapView, number: int, begin: int) -> Held:
    holder = view.holders[number]
    members = _members(view.holders, number)
    what = holder.type
    counts = None
    kind = holder.member_type or (members.type if members is not None else None)
    if kind is not None:
        what += f" of {kind}"
    told = holder.length or (members.count if members is not None else None)  # what others hold too is in its length
    if told:
        counts = (told[min(begin, len(told) - 1)], told[-1])
    own = (band.value_bytes[-1] for band in view.accounts if band.name != "mapped-files")
    there = sum(own) if not view.on_devices else 0
    most = there if 0 < there < holder.bytes[-1] else None
    return Held(unnumbered(holder.path), what, holder.bytes[begin], holder.bytes[-1], counts, most)


def _members(holders: Sequence[HeapHolder], number: int) -> HeapHolder | None:
    """What a container has most of, told together."""
    path = f"{holders[number].path}[*]"
    found = [one for one in holders if one.parent == number and unnumbered(one.path) == path]
    return max(found, key=lambda one: one.bytes[-1], default=None)
