"""What a report says of a holder of growing memory: title, evidence and doubts. What to do about it: mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..facts.heap.owners import weighs_in, weighs_in_members
from ..facts.heap.weights import ARRAYS
from ..facts.processes.table import DATALOADER_WORKER, POOL_WORKER
from ..facts.retained.figures import Retained
from ..facts.where.holders import NAMESPACE
from ..findings import Evidence
from ..units import (
    FEWEST,
    HARDLY,
    LISTED,
    MOST,
    MUCH,
    NEARLY_ALL,
    SOME,
    format_bytes,
    format_count,
    format_duration,
    per_step,
    steps_together,
)
from .mechanisms import also_held_by, holds_hooks, tasks_wait_in, within_member
from .sentences import at_line, grew_at, listed

_SOME_BESIDE = 1.1  # times what the place gained that was weighed: less would be the same figure again
_WHOLE = 100.0  # members: from here on no fraction is told
_ABOUT_ALL = 1.05  # what is weighed is estimated; more than that is no matter of rounding


def title(found: Retained, total: int, held: int, processes: int, role: str | None) -> str:
    """Bytes with and without what it pins, in all of so many ``processes`` that have it, or in one of a ``role``."""
    where = f" in each of {processes} processes" if processes > 1 else ""
    if not where and role in (DATALOADER_WORKER, POOL_WORKER):
        where = f" in a {role.replace('dataloader', 'loader').replace('-', ' ')}"
    size = total if total - held < HARDLY * total else held  # then the remedy has one figure with the title
    keeps = "keep" if found.name.startswith(NAMESPACE) else "keeps"
    text = f"{found.name} {keeps} growing{where}: {format_bytes(size, signed=True)} {_of_what(found)}"
    if total - held >= MUCH * total:
        text += f", plus {format_bytes(total - held)} of freed memory fragmented around them"
    return text


def _of_what(found: Retained) -> str:
    """``of float32 tensors``-like words, from the types found."""
    if found.is_graph:
        return "of autograd graphs"
    if found.holder.handle is not None:
        return f"behind {found.kept.type_name.rsplit('.', 1)[-1]} objects, outside Python"
    place = found.place
    arrays = place.array_bytes[-1] - place.array_bytes[0]
    growth = max(place.growth_bytes, 1.0)
    if found.tensor_growth_bytes >= MOST * growth:
        return "of tensors"
    member = place.member_type if found.kept is place else None
    name = (member or found.kept.type_name).rsplit(".", 1)[-1]
    inside = weighs_in(found.kept) if found.kept.type_name not in ARRAYS else None
    if inside in (*ARRAYS, "bytes", "str"):  # what a member is called says nothing of what weighs
        return f"of {'arrays' if inside in ARRAYS else inside.rsplit('.', 1)[-1]} in {name} objects"
    if arrays >= MOST * growth:
        return f"of arrays ({name})"
    others = [
        kind for one in found.holder.members
        if one.growth_bytes >= MUCH * found.holder.growth_bytes and (kind := one.type_name.rsplit(".", 1)[-1]) != name
    ]  # fmt: skip
    if others and len(found.holder.members) > 1:  # several containers have one name
        name = f"{name} and {others[0]}"
    return f"of {name} objects" if name not in ("str", "bytes") else f"of {name}"


def evidence(found: Retained, step_unit: str) -> Iterator[Evidence | None]:
    """``step_unit``: as ``Case.step_unit``."""
    if found.is_unseen_graph:
        nodes = int(found.place.count.max())
        text = f"its autograd graph is longer than a snapshot follows: {format_count(nodes)} nodes and more"
        yield Evidence(text, {"nodes": nodes})
    else:
        yield from _weighed(found, step_unit)
    below = weighs_in_members(found.place)
    if below is not None:
        text = f"most of each member examined is {within_member(below)}"
        yield Evidence(text, {"bytes": int(below.deep_bytes.max())})
    for line in (*found.lines[:3], *found.removing[:1]):
        yield at_line(line, line.kind)
    if found.made_at is not None:
        yield grew_at(found.made_at)
    calls, others = tasks_wait_in(found), also_held_by(found)
    if calls:
        text = ", there in ".join(call.said for call in calls)
        yield Evidence(f"its tasks do not end: one that was looked into waits in {text}", {"calls": len(calls)})
    if others:
        text = f"{' and '.join(others)} {'refers' if len(others) == 1 else 'refer'} to the same objects"
        yield Evidence(f"{text}: they are freed once all of these let go", {"other_holders": len(others)})


def _weighed(found: Retained, step_unit: str) -> Iterator[Evidence]:
    """What the snapshots saw of its growth."""
    place, look, holder = found.place, found.look, found.holder
    count, time_s = len(look.heap.takes), look.heap.time_s
    start, end = float(place.deep_bytes[0]), float(place.deep_bytes[-1])
    added = float(place.length[-1] - place.length[0])
    figures: dict[str, Any] = {"start_bytes": int(start), "end_bytes": int(end), "takes": count}
    first_s, last_s = format_duration(float(time_s[0])), format_duration(float(time_s[-1]))
    text = f"{place.said} held {format_bytes(start)} at {first_s}, {format_bytes(end)} at {last_s} ({count} snapshots)"
    if place.has_length:
        figures |= {"start_length": int(place.length[0]), "end_length": int(place.length[-1])}
        first, last = format_count(place.length[0]), format_count(place.length[-1])
        grew = f"went from {first} to {last}" if first != last else f"stayed {last}: its members grew"
        text += f"; its length {grew}"
    longer = found.named.longer_member
    if longer is not None:
        figures |= {"member_type": longer.type_name}
        if not longer.has_length:
            text += f"; its {format_count(longer.count[-1])} members of type {longer.type_name} grew"
        else:
            figures |= {"member_length": int(longer.length[-1])}
        if longer is not place and longer.has_length:
            first, last = format_count(longer.length[0]), format_count(longer.length[-1])
            text += f", that of one of its members ({longer.type_name}) from {first} to {last}"
    yield Evidence(text, figures)
    if holder.bytes_each is None and holder.growth_bytes > _SOME_BESIDE * found.weighed_bytes > 0:
        names = list(dict.fromkeys(one.said for one in holder.alike))
        more = [f"{len(names) - LISTED} more"] if len(names) > LISTED else []
        who = listed([*names[:LISTED], *more]) if len(names) > 1 else f"{found.name} is several objects, which"
        figures = {"growth_bytes": int(holder.growth_bytes)}
        yield Evidence(f"{who} together gained {format_bytes(holder.growth_bytes)} between those snapshots", figures)
    native = float(place.native_bytes[-1])
    if native >= SOME * end:
        told = f"{format_bytes(native)} of what it held at last is native memory to which its objects point"
        yield Evidence(f"{told}, by samples of allocations", {"native_bytes": int(native)})
    if holder.bytes_each is not None:
        text = f"for each of the {format_count(added)} members that were added, {format_bytes(holder.bytes_each)} came "
        figures = {"bytes_each": round(holder.bytes_each), "members": int(added)}
        yield Evidence(f"{text}into use, much the same between any two snapshots", figures)
        if holder.tensors_each is not None:
            number = round(holder.tensors_each)
            text = f"{format_count(number)} more live tensor{'s' if number != 1 else ''} came with each of them"
            yield Evidence(f"{text}: what the members hold was too much to read", {"tensors_each": number})
    else:
        yield _explained(found)
    if look.pinned_bytes >= MUCH * look.gained_bytes:
        text = f"malloc also keeps {format_bytes(look.pinned_bytes)} of freed memory: the gaps between live objects"
        yield Evidence(f"{text} are too small for later requests", {"pinned_bytes": int(look.pinned_bytes)})
    if count > 1:
        rising = int((np.diff(place.deep_bytes) > 0).sum())
        yield Evidence(f"it grew in {rising} of {count - 1} intervals between snapshots", {"rising_intervals": rising})
    if look.steps and place.has_length:
        yield _per_step(added / look.steps, step_unit)


def _explained(found: Retained) -> Evidence:
    look, explained = found.look, found.explained_bytes
    whole, took = look.gained_bytes, "the process gained"
    if look.pinned_bytes:
        whole, took = look.in_use_bytes, "that came into use"
    gained = f"the {format_bytes(max(whole, 0.0))} {took} between those snapshots"
    share = f"{explained / whole:.0%}" if explained < whole else ""
    part = f"{share} of {gained}" if share not in ("", "100%") else f"about all of {gained}"
    if explained > _ABOUT_ALL * whole:
        rest = "the rest reused memory the process already had, or other memory was freed meanwhile"
        unused = "most of it was never written to, and takes no memory yet"
        part = f"more than {gained}: {unused if found.untouched else rest}"
    figures = {"explained_bytes": int(explained), "process_growth_bytes": int(look.gained_bytes)}
    return Evidence(f"its gain of {format_bytes(explained)} is {part}", figures)


def _per_step(members: float, step_unit: str) -> Evidence:
    together = steps_together(step_unit)
    told = f"{members * together:.3g}" if members * together < _WHOLE else format_count(members * together)
    came = f"{told} member{'' if told == '1' else 's'}"
    each = "per training step" if step_unit == "step" else per_step(step_unit)
    if together == 1 and 0 < members < MOST:
        came, each = "one member", f"in {1 / members:.2g} training steps"
    return Evidence(f"it gained {came} {each}", {"members_per_step": round(members, 3)})


def doubts(found: Retained) -> Iterator[str]:
    heap, place = found.look.heap, found.place
    if found.untouched:
        yield "most of what it holds was never written to: that costs address space, and memory only once it is used"
    if found.limit is not None:
        text = f"it is bounded to {format_count(found.limit)} members: it may stop growing there"
        if place.has_length and place.length[-1] < found.limit:
            level = float(place.deep_bytes[-1]) * found.limit / max(float(place.length[-1]), 1.0)
            text += f", at about {format_bytes(level)}"
        yield text
    if found.is_unseen_graph:
        yield "what its graph gained was not seen: a model whose one step needs as many nodes would look the same"
    elif found.holder.handle is not None:
        is_in_step = found.holder.bytes_each is not None
        text = "what its members hold outside Python cannot be measured"
        yield f"{text}: it grew in step with their number" if is_in_step else text
    elif found.share < MOST and found.look.explained_share < NEARLY_ALL:
        yield f"snapshots found only {found.share:.0%} of the growth in it"
    if found.may_be_filling and not holds_hooks(found):
        yield f"only {len(heap.takes)} snapshots: this could be a bounded cache still filling"
    elif len(heap.takes) <= FEWEST:
        yield f"only {len(heap.takes)} snapshots show its growth"
    if found.constructor is not None:
        running = f"{found.constructor}() still ran at the last of these snapshots"
        yield f"{running}: a load that ends when it returns would look the same"
    if heap.truncated:
        yield "a snapshot was cut short by its time budget: figures are estimates"
    if found.line is None:
        yield "no line of the recorded sources adds to it"
