"""Holders inside libraries of which nobody writes the name: the lines of the program that fill them, or make them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...agent import libraries
from ...units import GOOD_PART, WATCHED_TEXT, over
from ..code.adding import CREATES, Line, find_calls, find_method_calls
from ..code.index import Source, tail
from ..code.starts import calls
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..heap.accumulation import multiplies
from ..heap.place import Place
from .allocations import allocations
from .stacks import by_creation, lines_of

# By the attribute that is one; torch's hooks are also in the user's own modules and tensors.
_REGISTRIES = {thing.name.rsplit(".", 1)[-1]: thing for thing in libraries.all_of(libraries.REGISTRY)}


CALLABLES = ("method", "function")  # as the snapshots name their types


_LEAVE = [thing for thing in libraries.all_of(libraries.KEEPER) if thing.also_by and thing.let_go]


class Left(NamedTuple):
    """What a function of a library's leaves behind, by the ``line`` that calls it.

    ``share``: of what stays in the process, by samples; 0 where no sample was made, since it traces the program.
    """

    thing: libraries.Thing
    line: Line
    share: float
    bytes: float


def left_behind(growth: TreeGrowth, process: ProcessGrowth, sources: Sequence[Source]) -> Left | None:
    """Of the functions of which it is known that they leave something, the one that left a good part of what stays.

    The program calls it, and what stays was asked for at that line, or by C code of its own wherever the program was.
    """
    grown = [stack for stack in allocations(growth, process) if stack.bytes > 0]
    called = []
    for thing in _LEAVE:
        lines = find_calls(sources, *thing.also_by, given=thing.given, without=thing.without)
        if not lines and thing.asks is not None and any(thing.asks in stack.native_stack for stack in grown):
            bounded = find_calls(sources, *thing.also_by, given=thing.without)
            lines = [line for line in find_calls(sources, *thing.also_by) if line not in bounded]  # by ``**options``
        called += [(thing, lines)] if lines else []
    if not called:
        return None
    lines_seen = lines_of(growth, process, sources)
    at: dict[tuple[str, int], float] = {}
    for one in (*lines_seen, *by_creation(lines_seen, sources)):  # what a traced model allocates is its maker's, too
        at[one.file, one.line] = max(one.bytes, at.get((one.file, one.line), 0.0))
    found = []
    for thing, lines in called:
        line = max(lines, key=lambda call: at.get((call.file, call.line), 0.0))
        size = at.get((line.file, line.line), 0.0)
        if thing.asks is not None:
            size = max(size, sum(stack.bytes for stack in grown if thing.asks in stack.native_stack))
        found.append(Left(thing, line, over(size, sum(stack.bytes for stack in grown)), size))
    most = max(found, key=lambda left: left.share)
    if most.share >= GOOD_PART:
        return most
    is_watched = (process.rows("agent_notes")["text"] == WATCHED_TEXT).any()
    return next(
        (left._replace(share=0.0) for left in found if is_watched and libraries.WATCHER in left.thing.is_), None
    )


def is_hook_table(variable: object) -> bool:
    """By its name, torch keeps hooks there."""
    registry = _REGISTRIES.get(str(variable))
    return registry is not None and registry.library is None


def registers_hook(line: Line) -> bool:
    made_by = (name for thing in _REGISTRIES.values() if thing.library is None for name in thing.made_by)
    return any(f".{name}(" in line.text for name in made_by)


def filled_by(sources: Sequence[Source], place: Place) -> tuple[Place, list[Line]] | None:
    """The known table of a library that a place is, or is a member of, and the lines that add to it."""
    for table in (place, place.parent):
        one = table.reference if table is not None else None
        if one is None or table is None or one.edge_kind not in ("attribute", "class-attribute", "global"):
            continue
        registry = _REGISTRIES.get(one.variable or "")
        if registry is not None and registry.is_in(one.owner_module or ""):
            lines = find_method_calls(sources, *registry.made_by) if registry.made_by else []
            if lines := lines or find_calls(sources, *registry.also_by):
                return table, lines
    hooks = [word for word in re.findall(r"\w+", place.path) if is_hook_table(word)]
    if hooks and place.reference.edge_kind == "cell":  # of a function that is a hook, of which there are ever more
        lines = find_method_calls(sources, *_REGISTRIES[hooks[-1]].made_by)
        if lines and not lines[0].is_once:
            return place, lines
    return None


def made_at(sources: Sequence[Source], named: Place, place: Place) -> tuple[Place, Line] | None:
    """The attribute that grows, and the line that makes its object: one that the program gave to another library's.

    ``named`` is the user's name for that other one, as a logger to which a handler was added. It says where the object
    went, not what fills it: the object and its settings are what to mend. None: it is no such object, or several lines
    make objects of its class.
    """
    holder = _member_of_library(named, place)
    if holder is None:
        return None
    attribute, member = holder
    made = calls(sources, tail(member.type_name))
    lines = {(call.line.file, call.line.line): call.line for call in made}
    if len(lines) != 1:
        return None
    (line,) = lines.values()
    return attribute, line._replace(kind=CREATES)


def _member_of_library(named: Place, place: Place) -> tuple[Place, Place] | None:
    """The attribute at or above ``place`` that belongs to a member of a container of the library's own, and the member.

    Not where the members multiply: then it is the container that is filled.
    """
    attribute: Place | None = None
    at: Place | None = place
    while at is not None and at is not named:
        container = at.parent
        if at.reference.edge_kind == "attribute" and attribute is None:
            attribute = at if at.has_length else None
        elif at.reference.edge_kind in ("item", "key") and attribute is not None:
            is_own = container is not None and container is not named and not container.is_user
            return (attribute, at) if is_own and not at.is_user and not multiplies(at) else None
        at = container
    return None
