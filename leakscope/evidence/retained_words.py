"""What a report says of a holder of growing memory: title, evidence, doubts and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..agent import libraries
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.heap.owners import user_place, weighs_in_members
from ..facts.heap.place import OUTSIDE, Place
from ..facts.heap.waiting import Call, waits_in
from ..facts.retained.figures import Retained
from ..facts.where.allocations import OBJECTS
from ..facts.where.holders import are_results_of_cells, holder_name
from ..facts.where.libraries import CALLABLES, is_hook_table
from ..facts.where.wrapped import WRAPPED
from ..findings import BY_THE_END, Evidence
from ..units import format_bytes, format_count, format_duration, per_step, steps_together

# How to let go of what a library keeps on the user's behalf.
_LET_GO = {thing.name: thing.let_go for thing in libraries.all_of(libraries.REGISTRY) if thing.let_go}

_SOME_NATIVE = 0.1  # of what it holds: less is not worth a line
_MUCH_OF_MEMBERS = 0.3  # of what one holds: the traceback of an exception, the array that a view is of
_MOST = 0.8  # of the growth: what one holder does not explain, others do
_HARDLY, _MUCH = 0.05, 0.2  # of what mending it would free: what it pins
_SOME_BESIDE = 1.1  # times what the place gained that was weighed: less would be the same figure again
_ITS_TYPE = re.compile(r" \([^()]*\)$")  # behind the name of a holder
_EMPTIES = re.compile(r"\.clear\(")
_ABOUT_ALL = 1.05  # what is weighed is estimated; more than that is no matter of rounding


def title(found: Retained, total: int, held: int, processes: int) -> str:
    """Bytes with and without what it pins, in all of so many ``processes`` that have it."""
    where = f" in each of {processes} processes" if processes > 1 else ""
    size = total if total - held < _HARDLY * total else held  # then the remedy has one figure with the title
    text = f"{found.name} keeps growing{where}: {format_bytes(size, signed=True)} {_of_what(found)}"
    if total - held >= _MUCH * total:
        text += f", and {format_bytes(total - held)} of freed memory in pieces between them"
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
    if found.tensor_growth_bytes >= 0.5 * growth:
        return "of tensors"
    member = place.member_type if found.kept is place else None
    name = (member or found.kept.type_name).rsplit(".", 1)[-1]
    if arrays >= 0.5 * growth:
        return f"of arrays ({name})"
    others = [
        kind for one in found.holder.members
        if one.growth_bytes >= _MUCH * found.holder.growth_bytes and (kind := one.type_name.rsplit(".", 1)[-1]) != name
    ]  # fmt: skip
    if others and len(found.holder.members) > 1:  # several containers have one name
        name = f"{name} and {others[0]}"
    return f"of {name} objects" if name not in ("str", "bytes") else f"of {name}"


def evidence(found: Retained, step_unit: str) -> Iterator[Evidence]:
    """``step_unit``: as ``Case.step_unit``."""
    if found.is_unseen_graph:
        nodes = int(found.place.count.max())
        text = f"its autograd graph is longer than a snapshot follows: {format_count(nodes)} nodes and more"
        yield Evidence(text, {"nodes": nodes})
    else:
        yield from _weighed(found, step_unit)
    if found.link is not None:
        link, end = found.link, f"{format_count(found.link.count[-1])} in the last snapshot"
        kind = link.type_name.rsplit(".", 1)[-1]
        begins = "it begins" if link.parent is found.place or link is found.place else "each of its members begins"
        yield Evidence(
            f"{begins} a chain, in which each {kind} keeps another as its {link.reference.variable}: {end}",
            {"chain_length": int(link.count[-1])},
        )
    below = weighs_in_members(found.place)
    if below is not None:
        text = f"most of each member that was looked into is {_within_member(below)}"
        yield Evidence(text, {"bytes": int(below.deep_bytes.max())})
    for line in found.lines[:3]:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})
    for line in found.removing[:1]:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})
    made = found.made_at
    if made is not None:
        is_small = made.alive[0].allocator in OBJECTS
        what = "the small objects that stayed" if is_small else "what malloc handed out and was kept"
        samples = f"by {made.sample_count:,} samples"
        text = f"{made.file}:{made.line} allocated {made.share:.0%} of {what}, {samples}"
        figures = {"line": made.line, "share": round(made.share, 3), "samples": made.sample_count}
        yield Evidence(f"{text}: {made.text}" if made.text else text, figures)
    calls = _waits_in(found)
    if calls:
        text = ", there in ".join(call.said for call in calls)
        yield Evidence(f"its tasks do not end: one that was looked into waits in {text}", {"calls": len(calls)})
    others = _also_held_by(found)
    if others:
        text = f"{' and '.join(others)} {'refers' if len(others) == 1 else 'refer'} to the same objects"
        yield Evidence(f"{text}: they are freed once all of these let go", {"other_holders": len(others)})


def _waits_in(found: Retained) -> list[Call]:
    return waits_in(found.place, found.look.heap.places)


def _also_held_by(found: Retained) -> list[str]:
    """Names of the other holders of what multiplies there, at most two."""
    below = [child for child in found.place.children if child.growth_bytes >= 0.5 * found.place.growth_bytes > 0]
    return list(dict.fromkeys(holder_name(user_place(other)) for child in below for other in child.also_held_by))[:2]


def _weighed(found: Retained, step_unit: str) -> Iterator[Evidence]:
    """What the snapshots saw of its growth."""
    place, look = found.place, found.look
    weighed, steps = found.weighed_bytes, look.steps
    count, time_s = len(look.heap.takes), look.heap.time_s
    figures: dict[str, Any] = {
        "start_bytes": int(place.deep_bytes[0]),
        "end_bytes": int(place.deep_bytes[-1]),
        "takes": count,
    }
    between = f"from {format_duration(float(time_s[0]))} to {format_duration(float(time_s[-1]))}"
    text = (
        f"{place.said} held {format_bytes(place.deep_bytes[0])} in the first and "
        f"{format_bytes(place.deep_bytes[-1])} in the last of {count} snapshots, {between}"
    )
    if place.has_length:
        figures |= {"start_length": int(place.length[0]), "end_length": int(place.length[-1])}
        first, last = format_count(place.length[0]), format_count(place.length[-1])
        grew = f"went from {first} to {last}" if first != last else f"stayed {last}: its members grew"
        text += f"; its length {grew}"
    yield Evidence(text, figures)
    if found.holder.bytes_each is None and found.holder.growth_bytes > _SOME_BESIDE * weighed > 0:
        gained = f"gained {format_bytes(found.holder.growth_bytes)} between those snapshots"
        text = f"{found.name} stands for several objects, which together {gained}"
        yield Evidence(text, {"growth_bytes": int(found.holder.growth_bytes)})
    native = float(place.native_bytes[-1])
    if native >= _SOME_NATIVE * float(place.deep_bytes[-1]):
        told = f"{format_bytes(native)} of what it held at last is native memory"
        text = f"{told} to which its objects point, by samples of allocations"
        yield Evidence(text, {"native_bytes": int(native)})
    if found.holder.bytes_each is not None:
        added = place.length[-1] - place.length[0]
        yield Evidence(
            f"for each of the {format_count(added)} members that were added, {format_bytes(found.holder.bytes_each)} "
            f"came into use, much the same between any two snapshots",
            {"bytes_each": round(found.holder.bytes_each), "members": int(added)},
        )
    else:
        whole = look.in_use_bytes if look.pinned_bytes else look.gained_bytes
        took = "that came into use" if look.pinned_bytes else "the process gained"
        gained = f"the {format_bytes(max(whole, 0.0))} {took} between those snapshots"
        explained = found.explained_bytes
        own = f"its gain of {format_bytes(explained)} is"
        part = f"{explained / whole:.0%} of {gained}" if explained < whole else f"about all of {gained}"
        yield Evidence(
            f"{own} {part}"
            if explained <= _ABOUT_ALL * whole
            else f"{own} more than {gained}: {_where_the_rest_was(found)}",
            {"explained_bytes": int(explained), "process_growth_bytes": int(look.gained_bytes)},
        )
    if look.pinned_bytes >= 0.2 * look.gained_bytes:
        yield Evidence(
            f"beside that, malloc kept {format_bytes(look.pinned_bytes)} more of freed memory, in pieces between live "
            f"objects, which are too small for later requests",
            {"pinned_bytes": int(look.pinned_bytes)},
        )
    rising = int((np.diff(place.deep_bytes) > 0).sum())
    if count > 1:
        text = f"it grew in {rising} of {count - 1} intervals between snapshots"
        yield Evidence(text, {"rising_intervals": rising})
    if steps:
        added = (place.length[-1] - place.length[0]) / steps
        figures = {"bytes_per_step": round(weighed / steps, 1), "members_per_step": round(added, 3)}
        together = steps_together(step_unit)
        number = added * together
        number_told = format_count(number) if number >= 100 else f"{number:.3g}"
        gained = f"{number_told} member{'' if number_told == '1' else 's'}"
        each = "per training step" if step_unit == "step" else per_step(step_unit)
        if not place.has_length:
            gained = format_bytes(weighed / steps * together)
        elif together == 1 and 0 < added < 0.5:
            gained, each = "one member", f"in {1 / added:.2g} training steps"
        yield Evidence(f"it gained {gained} {each}", figures)


def _where_the_rest_was(found: Retained) -> str:
    if found.untouched:
        return "most of it was never written to, and takes no memory yet"
    return "the rest lies in memory that it had before, or other memory was freed"


def doubts(found: Retained) -> Iterator[str]:
    heap = found.look.heap
    if found.untouched:
        yield "most of what it holds was never written to: that costs address space, and memory only once it is used"
    if found.limit is not None:
        yield from _bounded(found.limit, found)
    if found.is_unseen_graph:
        yield "what its graph gained was not seen: a model whose one step needs as many nodes would look the same"
    elif found.holder.bytes_each is not None:
        yield "what its members hold outside Python cannot be measured: it grew in step with their number"
    elif found.share < 0.5 and found.look.explained_share < _MOST:
        yield f"what snapshots saw in it is only {found.share:.0%} of the growth"
    if len(heap.takes) < 4:
        few = f"only {len(heap.takes)} snapshots"
        fills = found.place.has_length and not found.is_graph and not _holds_hooks(found)
        cache = "a cache whose limit cannot be seen would look the same while it fills"
        yield f"{few}: {cache}" if fills else f"{few} of its growth"
    if found.constructor is not None:
        running = f"{found.constructor}() still ran at the last of these snapshots"
        yield f"{running}: a load that ends when it returns would look the same"
    if heap.truncated:
        yield "a snapshot was cut short by its time budget: figures are estimates"
    if found.line is None:
        yield "no line of the recorded sources adds to it"


def _bounded(limit: int, found: Retained) -> Iterator[str]:
    place = found.place
    text = f"it is bounded to {format_count(limit)} members: it may stop growing there"
    if place.has_length and place.length[-1] < limit:
        level = float(place.deep_bytes[-1]) * limit / max(float(place.length[-1]), 1.0)
        text += f", at about {format_bytes(level)}"
    yield text


def remedy(found: Retained, total: int, held: int) -> list[str]:
    """``total``, ``held``: as for the title, which speaks of what is pinned where that is much."""
    place, line = found.place, found.line
    variable = _ITS_TYPE.sub("", found.name)
    where = f" at {line.place}" if line is not None else ""
    size = format_bytes(total)
    would_free = f"would save about {size} {BY_THE_END}"
    if _HARDLY * total <= total - held < _MUCH * total:
        would_free += f", {format_bytes(total - held)} of it freed memory in pieces between its objects"
    for registry, how in _LET_GO.items():
        if place.path.startswith(registry):
            return [f"{how}; that {would_free}"]
    if are_results_of_cells(place):
        return [
            f"end the last line of a cell with a semicolon, or assign it to a variable: IPython keeps what it returns; "
            f"that {would_free} (%reset -f out frees what is there, InteractiveShell.cache_size = 0 keeps none)"
        ]
    if place.root_kind == OUTSIDE:
        return [
            f"unregister what is registered{where} after use (as atexit.unregister does), or register one function "
            f"for all: that {would_free}"
        ]
    if found.named.reference.edge_kind == "cache":
        how = "give the cache a maxsize, or call it with arguments that repeat"
        if not found.named.is_user and found.named.root_kind == "module":
            library = found.named.path.split(".", 1)[0]
            how = f"the cache is {library}'s own: give it arguments that repeat, or update {library}"
        return [f"{how}: that would save up to {size} {BY_THE_END}"]
    if found.named.reference.edge_kind == WRAPPED:
        wrapper = found.named.type_name.split(".", 1)[0]
        return [
            f"call {variable}{where} with arguments that repeat: {wrapper} keeps what it makes of it for each new kind "
            f"of arguments, and each value of a number may be one; an array or tensor of one shape and type is the "
            f"same, whatever is in it; that {would_free}"
        ]
    if line is not None and line.text.startswith("raise "):
        return [
            f"raise a new exception each time{where}, not the one that {variable} keeps: its traceback keeps the "
            f"locals of every function it passed through; that {would_free}"
        ]
    if _holds_hooks(found):
        handle = f"registering a hook{where} returns a handle: keep it"
        return [f"{handle}, and call its remove() once the hook has done its work; that {would_free}"]
    if not place.is_user and place.member_type in CALLABLES and line is not None:
        return [f"unregister what is registered{where} after use: that {would_free}"]
    if place.reference.variable == "_waiters":
        return [f"cancel what waits for {variable}{where} once it is no longer needed: that {would_free}"]
    if found.is_graph:
        return [
            f"detach what {variable} keeps{where}, by .detach() or, where a number is enough, .item(): each tensor "
            f"carries the history it was computed by; that {would_free}",
            "where nothing is trained, as in an evaluation, compute under torch.no_grad(): then there is no history",
        ]
    if found.link is not None:
        kind, attribute = found.link.type_name.rsplit(".", 1)[-1], found.link.reference.variable
        return [f"end the chain{where}: where a new {kind} keeps no other as its {attribute}, that {would_free}"]
    calls = _waits_in(found)
    if calls:
        return [
            f"end the tasks that {variable} keeps: give what they wait for in {calls[-1].said} a timeout, or cancel "
            f"those that are no longer needed; that {would_free}"
        ]
    if found.named.type_name.endswith("ContextVar") and any(child.chained for child in place.children):
        return [
            f"reset {variable} after use, with the token that set() returns{where}: each value keeps the one before; "
            f"that {would_free}"
        ]
    others = " and ".join(_also_held_by(found))
    as_well = f"from {others} as well" if others else ""  # by itself that frees nothing
    beside = f", and {as_well}" if others else ""
    filled = f" (filled{where})" if where else ""
    if _is_write_buffer(place):
        return [
            f"whoever reads from it is slower than what is written{where}: await drain() after writing, or close the "
            f"connections of those that do not keep up; that {would_free}"
        ]
    below = weighs_in_members(place)
    if below is not None and line is not None and line.kind == "adds" and not place.is_user:
        return [
            f"what {line.place} stores is kept in {place.said} for good, and most of it is {_within_member(below)}: "
            f"store less there, or keep it elsewhere and only as long as it is needed; that {would_free}"
        ]
    if found.removing and found.limit is None and _has_more_members(found.named):
        removing = found.removing[0]
        if _EMPTIES.search(removing.text):
            empties = f"{removing.place}, which empties {variable}, is not reached as often as it is filled{where}"
            why = f"see why {empties}: it may stand under a condition, or an exception may come before"
        else:
            why = f"see why {removing.place} removes fewer members of {variable} than are added{where}: it may be "
            why += "skipped after an exception, or not find the key"
        also = f"; remove them {as_well}" if others else ""
        advice = [f"{why}{also}; that {would_free}"]
    elif not place.is_user and (whose := _library_of(place)) is not None and _is_of_library(found):
        return [*_of_members(found.holder.largest or place), *_let_library(found, whose, would_free)]
    elif found.named.has_members:
        advice = [f"remove what is no longer needed from {variable}{filled}{beside}, or bound it; that {would_free}"]
    else:
        advice = [f"empty {variable}{filled}{beside}; that {would_free}"]
    is_inside = found.named is not place or found.holder.largest is not None
    if is_inside and not found.named.has_members:  # an optimizer, a parser
        return [f"drop what {variable} keeps in {place.said}{filled} and is no longer needed; that {would_free}"]
    member = place.member_type or found.kept.type_name
    if member.startswith("torch.") and found.tensor_growth_bytes > 0.5 * max(place.growth_bytes, 1.0):
        advice.append("if only numbers are needed from these tensors, keep .item() or a small summary instead")
    return [*_of_members(found.holder.largest or place), *advice]


def _is_write_buffer(place: Place) -> bool:
    """Of a transport: what was written and nobody has read yet."""
    if "buffer" not in str(place.reference.variable):
        return False
    above, steps = place.parent, 0
    while above is not None and steps < 3:
        if re.search(r"(Transport|StreamWriter|IOStream)$", above.type_name):
            return True
        above, steps = above.parent, steps + 1
    return False


def _has_more_members(named: Place) -> bool:
    """Or it is not known how many it has."""
    return not named.has_length or bool(named.length[-1] > named.length[0])


def _within_member(below: Place) -> str:
    """``_user_attrs['scores'] (numpy.ndarray)``: how a member has it."""
    parent = below.parent
    name = (parent.reference.variable or "") if parent is not None else ""
    return f"{name}[{below.path.rpartition('[')[2]} ({below.type_name})"


def _library_of(place: Place) -> str | None:
    module = place.reference.owner_module
    return module.split(".", 1)[0].lstrip("_") if module is not None else None


def _is_of_library(found: Retained) -> bool:
    """Nobody can remove from it by its name: it is private, or the program has no name for what it is in."""
    return not found.named.is_user or str(found.place.reference.variable).startswith("_")


def _let_library(found: Retained, library: str, would_free: str) -> Iterator[str]:
    """What its owner can do about a container that a library has for itself: use less of it, or what ends it."""
    place, line = found.place, found.line
    at = f"at {line.place}" if line is not None else "by some call"
    more = place.has_length and place.length[-1] > place.length[0]
    owner = place.reference.owner if place.reference.edge_kind == "attribute" else None
    ends = f"a method of {owner}" if owner is not None else f"a function of {library}"
    if more and place.type_name.endswith(("dict", "Dict")):
        yield (
            f"{library} keeps an entry in {place.said} for each new key that it meets {at}: let keys repeat (no ids, "
            f"no objects made anew), or end what is done with by {ends} that removes it; that {would_free}"
        )
    elif more:
        yield (
            f"{library} keeps one more in {place.said} for what is done {at}: do that once and use it again, or end "
            f"what is done with by {ends} that removes it; that {would_free}"
        )
    else:
        yield f"{library} keeps in {place.said} what is done {at}: end what is done with by {ends}; that {would_free}"
    if not found.named.is_user and library not in STANDARD_LIBRARY:
        yield f"look whether a newer {library} removes it"


def _holds_hooks(found: Retained) -> bool:
    return is_hook_table(found.named.reference.variable) or is_hook_table(found.place.reference.variable)


def _of_members(place: Place) -> Iterator[str]:
    """What one of the members keeps, seen in those that snapshots looked into."""
    tracebacks = views = False
    for member in place.children:
        looked_at = list(member.children) if member.deep_bytes[-1] > 0 else []
        for part in looked_at:  # which becomes longer
            is_much = float(part.deep_bytes[-1]) > _MUCH_OF_MEMBERS * float(member.deep_bytes[-1])
            tracebacks |= is_much and part.type_name == "traceback"
            above = part.parent.type_name if part.parent is not None else ""
            views |= is_much and part.type_name == above == "numpy.ndarray"
            looked_at += part.children
    if tracebacks:
        yield (
            "the exceptions keep the locals of every function they passed through, by their tracebacks: keep "
            "str(error), or error.with_traceback(None), instead"
        )
    if views:
        yield "the members are views that keep a larger array alive: keep a .copy() of the part instead"
