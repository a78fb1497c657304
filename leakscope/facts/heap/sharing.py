"""What several hold at once: told at one of them, which the others are named at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from ...units import MOST
from .place import Place, upwards


@dataclass(frozen=True)
class Sharer:
    """One that refers to objects that others hold as well, or to what refers to them and to which they refer."""

    bytes: float  # the most of these objects in any snapshot
    is_direct: bool


# {(number of a node, type): {number of one that refers to such objects below it: how}}
Sharers = Mapping[tuple[int, str], Mapping[int, Sharer]]


def sharers_of(rows: Iterable[tuple[Any, ...]], of_number: Mapping[int, int]) -> Sharers:
    """``rows``: as ``History.shared`` has them."""
    found: dict[tuple[int, str], dict[int, Sharer]] = {}
    for above, number, type_name, bytes, count, direct in rows:
        of_type = found.setdefault((of_number.get(above, above), str(type_name)), {})
        number = of_number.get(number, number)
        known = of_type.get(number, Sharer(0.0, False))
        is_direct = direct is None or direct != direct or direct >= MOST * count
        of_type[number] = Sharer(max(known.bytes, float(bytes)), known.is_direct or is_direct)
    return found


def give_to_holder(members: Place, sharers: Mapping[int, Sharer], places: Mapping[int, Place]) -> None:
    """Choose the holder with the most bytes; among near-equal ones rather one to which the user's own names lead, than
    a cache of a library that was asked about the same objects; and rather one that refers to the objects than one that
    does by way of others.
    """
    above = members.parent
    holding = [
        (sharer, places[number]) for number, sharer in sorted(sharers.items(), key=lambda one: -one[1].bytes)
        if number in places and sharer.bytes >= MOST * members.deep_bytes.max() and _is_below(places[number], above)
    ]  # fmt: skip
    if above is None or not holding:
        return
    holding.sort(key=lambda one: (not _is_by_users_names(one[1]), not one[0].is_direct))
    holders = [place for _, place in holding]
    above.children.remove(members)
    holder, *members.also_held_by = holders
    members.path = f"{holder.path}[*]"
    members.parent = holder
    holder.children.append(members)
    holder.length = np.where(holder.length > 0, holder.length, members.count)  # where it was too small to be told of
    holder.member_type = holder.member_type or members.type_name
    _hold(holder, [members], above)
    # Some were large enough to be told of by themselves, if only in some snapshots.
    alike = [one for one in above.children if one.named_by is holder and one.type_name == members.type_name]
    _move([one for one in alike if one is not members], holder, above)


def give_members(above: Place) -> None:
    """To a container of the user's: several objects of one type that are named by it, and that others hold as well.

    Who does is seen where it hangs beside the container and is as long in each snapshot.
    """
    groups: dict[tuple[int, str], list[Place]] = {}
    for child in above.children:
        holder = child.named_by
        if holder is not None and holder is not above and child.reference.edge_kind == "item":
            groups.setdefault((id(holder), child.type_name), []).append(child)
    for members in groups.values():
        holder = members[0].named_by
        if len(members) > 1 and holder is not None and _is_below(holder, above) and _is_by_users_names(holder):
            as_long = [one for one in above.children if one is not holder and _grows_with(one, holder)]
            for one in members:
                one.also_held_by = as_long
            holder.member_type = holder.member_type or members[0].type_name
            _move(members, holder, above)


def _grows_with(place: Place, holder: Place) -> bool:
    is_as_long = place.has_length and np.array_equal(place.length, holder.length)
    return is_as_long and bool(np.ptp(holder.length))


def _move(members: Sequence[Place], holder: Place, above: Place) -> None:
    for one in members:
        above.children.remove(one)
        one.parent = holder
        holder.children.append(one)
    _hold(holder, members, above)


def _hold(holder: Place, members: Sequence[Place], above: Place) -> None:
    """It and what it hangs on hold these, too, up to ``above``, which did before."""
    gained = sum((one.deep_bytes for one in members), np.zeros_like(holder.deep_bytes))
    for at in takewhile(lambda one: one is not above, upwards(holder)):
        at.deep_bytes = at.deep_bytes + gained


def _is_by_users_names(place: Place) -> bool:
    at: Place | None = place
    while at is not None and not at.is_user:
        at = at.named_by
    return at is not None


def _is_below(place: Place, above: Place | None) -> bool:
    return any(at is above for at in upwards(place.parent))
