"""`leakscope heap`: the objects of a process by who holds them, as `du` shows folders: exact sizes, at any snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import BadInput
from ..facts.heap.place import Place, upwards
from ..facts.heap.tree import HeapTree, heap_tree, steps_of
from ..facts.tables import process_name
from ..storage import Recording
from ..units import format_bytes, format_count, format_duration, unnumbered
from ..words import printable
from .whole import WholeHeap, whole_heap_of

__all__ = ["every_way", "show", "ways"]

_LEAST_SHARE = 0.005  # of the heap, or of its growth: less is no line of its own
_MOST_LINES = 60
_MOST_ALIKE = 3  # members of one container, of one type: the others are told together
_MOST_OBJECTS = 3  # of one type, each with its way
_MOST_STEPS = 12  # at each end of a way


def show(
    recording: Recording,
    *,
    pid: int | None = None,
    at_s: float | None = None,
    since_s: float | None = None,
    at_end: bool = False,
    by_growth: bool = False,
    depth: int = 12,
    on_devices: bool = False,
) -> str:
    """The dominator tree as text. ``at_s``, ``since_s``: seconds since the recording began; the last snapshot at work
    and the first unless given. ``at_end``: as the process ended. ``on_devices``: who holds what tensors have on GPUs.

    **Errors** BadInput where no process, or not the one asked for, has a graph.
    """
    tree = heap_tree(recording, pid, at_s, at_end=at_end, on_devices=on_devices)
    last, first = len(tree.takes) - 1, tree.nearest(since_s)
    lines = list(_head(recording, tree, first, last, on_devices=on_devices))
    shown = list(_below(tree.roots, tree, first, last, by_growth, (), depth))
    grown = f"{'growth':>10}  " if last > first else ""  # of one snapshot nobody knows
    lines += ["", f"{'retained':>10}  {grown}holder", *shown[:_MOST_LINES]]
    if len(shown) > _MOST_LINES:
        lines.append(f"{'':24}… {len(shown) - _MOST_LINES} more lines")
    if not shown:
        lines.append(f"{'':24}nothing retains as much as {_LEAST_SHARE:.1%} of the heap")
    return "\n".join(map(printable, lines)) + "\n"


def ways(
    recording: Recording,
    wanted: str,
    *,
    pid: int | None = None,
    at_s: float | None = None,
    at_end: bool = False,
    on_devices: bool = False,
) -> str:
    """The ways from the roots to the objects whose type or name contains ``wanted``, the largest first.

    **Errors** BadInput where there is none.
    """
    tree = heap_tree(recording, pid, at_s, at_end=at_end, on_devices=on_devices)
    last = len(tree.takes) - 1
    found = [p for p in tree.places if wanted in p.type_name or wanted in p.path]
    found = [p for p in found if p.deep_bytes[last] > 0 and p.count[last] > 0]
    if not found:
        later = f" at {_moment(tree, last)}" if tree.exit_s is not None else ""
        raise BadInput(f"{wanted}: no object that retains much has this in its type or name{later}")
    within = {id(place) for place in found}
    found = [place for place in found if id(place.parent) not in within]
    lines = [f"at {_moment(tree, last)}", ""] if tree.exit_s is not None else []
    for place in sorted(found, key=lambda p: -p.deep_bytes[last])[:10]:
        lines += [f"{format_bytes(place.deep_bytes[last])}  {place.path}  ({_kind(place, last)})"]
        lines += [f"    held by {above.path}  ({above.type_name})" for above in upwards(place.parent)]
        lines.append("")
    return "\n".join(map(printable, lines))


def every_way(
    recording: Recording, wanted: str, *, pid: int | None = None, at_s: float | None = None, at_end: bool = False
) -> str:
    """The way from a root to the object at an address, or to the largest of a type, small as they may be.

    **Errors** BadInput where there is none, or no file with the whole heap.
    """
    whole = whole_heap_of(recording, pid, at_s, at_end=at_end)
    found = whole.find(wanted)
    if not len(found):
        raise BadInput(f"{wanted}: no object has this address, or this in the name of its type")
    counted = f"{format_count(len(whole.nodes))} objects and {format_count(len(whole.edges))} references"
    lines = [f"process {whole.pid} at {format_duration(whole.time_s)}: {counted}"]
    if len(found) > 1:
        own = format_bytes(int(whole.nodes["own_bytes"].to_numpy()[found].sum()))
        lines.append(
            f"{format_count(len(found))} objects have {wanted} in their type, {own} of their own; the largest:"
        )
    for number in found[:_MOST_OBJECTS]:
        lines += ["", *_way(whole, int(number))]
    return "\n".join(map(printable, lines)) + "\n"


def _way(whole: WholeHeap, number: int) -> Iterator[str]:
    *above, one = whole.way_of(number).to_dict("records")
    own, retained = (format_bytes(one[column]) for column in ("own_bytes", "retained_bytes"))
    yield f"{retained}  {one['type_name']} at {one['address']:#x}  ({own} of its own)"
    steps = above[::-1]
    for at, step in enumerate(steps):
        if _MOST_STEPS <= at < len(steps) - _MOST_STEPS:
            if at == _MOST_STEPS:
                yield f"    … {format_count(len(steps) - 2 * _MOST_STEPS)} more"
            continue
        name = step["name"] if isinstance(step["name"], str) else None
        where = f" at {step['address']:#x}" if name is None and step["address"] else ""
        yield f"    held by {name or step['type_name']}{where}" + (f"  ({step['type_name']})" if name else "")


def _head(recording: Recording, tree: HeapTree, first: int, last: int, *, on_devices: bool) -> Iterator[str]:
    known = recording.rows["processes"]
    known = known[known["pid"] == tree.pid]
    name = process_name(known.iloc[-1] if len(known) else None)
    yield (
        f"{name}[{tree.pid}] at {_moment(tree, last)}: {format_bytes(tree.total_bytes[last])} "
        + ("on GPUs" if on_devices else f"in {format_count(int(tree.node_count[last]))} Python objects")
    )
    if first != last:
        gained = format_bytes(tree.total_bytes[last] - tree.total_bytes[first], signed=True)
        yield f"{gained} since {format_duration(tree.time_s[first])} ({len(tree.takes)} snapshots)"
    if any(tree.sampled):
        yield "estimated: there were too many objects to read all (--max-pause)"
    others = (
        ("held by C code alone", tree.outside_bytes),
        ("garbage not collected yet", tree.unreached_bytes),
    )
    for what, bytes in others:
        if not on_devices and bytes[last] >= _LEAST_SHARE * tree.total_bytes[last]:
            yield f"{format_bytes(bytes[last])} {what}"
    whole = {file.identity.take for file in recording.whole_heaps() if file.identity.pid == tree.pid}
    graphs = recording.rows["heap_graphs"]
    moments = graphs["time_s"][(graphs["pid"] == tree.pid) & graphs["take"].isin(whole)]
    if len(moments):
        yield f"every object is known at {', '.join(map(format_duration, moments))}: --full --path TYPE or ADDRESS"


def _moment(tree: HeapTree, last: int) -> str:
    """When, and where a later snapshot is left out since the process was ending."""
    moment = format_duration(tree.time_s[last])
    if tree.exit_s is None:
        return moment
    return f"{moment}, the last snapshot while it worked (as it ended, at {format_duration(tree.exit_s)}: --at-end)"


def _below(
    places: Sequence[Place], tree: HeapTree, first: int, last: int, by_growth: bool, above: Sequence[str], depth: int
) -> Iterator[str]:
    """``above``: the names of the lines that these are below."""
    least = _LEAST_SHARE * (
        max(tree.total_bytes[last] - tree.total_bytes[first], 1.0) if by_growth else tree.total_bytes[last]
    )

    def figure(place: Place) -> float:
        return float(place.deep_bytes[last] - (place.deep_bytes[first] if by_growth else 0.0))

    def line(held: float, gained: float, text: str) -> str:
        growth = f"{format_bytes(gained, signed=True):>10}  " if last > first else ""
        return f"{format_bytes(held):>10}  {growth}{'  ' * len(above)}{text}"

    members: dict[str, list[Place]] = {}  # of one type, without names of their own
    for place in sorted(places, key=lambda p: -figure(p)):
        if figure(place) < least:
            break
        place = steps_of(place, last)
        name = _shorter(place.path, above[-1]) if above else place.path
        name = unnumbered(name)
        if name.startswith("["):
            alike = members.setdefault(place.type_name, [])
            alike.append(place)
            if len(alike) > _MOST_ALIKE:
                continue
        yield line(
            place.deep_bytes[last], place.deep_bytes[last] - place.deep_bytes[first], f"{name}  ({_kind(place, last)})"
        )
        if len(above) < depth:
            told = "" if place.type_name == "module" else place.path  # of a module's own the whole name is shown
            yield from _below(place.children, tree, first, last, by_growth, (*above, told), depth)
    for type_name, alike in members.items():
        rest = alike[_MOST_ALIKE:]
        if rest:
            held, before = (sum(float(place.deep_bytes[at]) for place in rest) for at in (last, first))
            yield line(held, held - before, f"… {format_count(len(rest))} more  ({type_name})")


def _kind(place: Place, at: int) -> str:
    if place.count[at] > 1:
        others = f", also held by {' and '.join(o.said for o in place.also_held_by[:2])}" if place.also_held_by else ""
        return f"{format_count(int(place.count[at]))} {place.type_name}{others}"
    if place.has_length and place.length[at] >= 2:
        return f"{place.type_name} holding {format_count(int(place.length[at]))}"
    return place.type_name


def _shorter(path: str, above: str) -> str:
    """Below what it hangs from, as far as it is told by it."""
    return path[len(above) :] if path.startswith(above) and len(path) > len(above) else path
