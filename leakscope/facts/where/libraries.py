"""Holders inside libraries of which nobody writes the name: the lines of the program that fill them, or make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...agent import libraries
from ..code.adding import CREATES, Line, find_calls, find_calls_given, find_method_calls
from ..code.index import Source, tail
from ..code.starts import calls
from ..heap.accumulation import multiplies
from ..heap.place import Place

# By the attribute that is one; torch's hooks are also in the user's own modules and tensors.
_REGISTRIES = {thing.name.rsplit(".", 1)[-1]: thing for thing in libraries.all_of(libraries.REGISTRY)}


CALLABLES = ("method", "function")  # as the snapshots name their types


def is_hook_table(variable: object) -> bool:
    """By its name, torch keeps hooks there."""
    registry = _REGISTRIES.get(str(variable))
    return registry is not None and registry.library is None


def filled_by(sources: Sequence[Source], place: Place) -> tuple[Place, list[Line]] | None:
    """The known table of a library that a place is, or is a member of, and the lines that add to it."""
    for table in (place, place.parent):
        if table is None or table.reference.edge_kind not in ("attribute", "class-attribute", "global"):
            continue
        lines = _filling(sources, table)
        if lines:
            return table, lines
    return None


def _filling(sources: Sequence[Source], table: Place) -> list[Line]:
    variable, module = table.reference.variable or "", table.reference.owner_module or ""
    registry = _REGISTRIES.get(variable)
    if registry is not None and (registry.made_by or registry.also_by) and registry.is_in(module):
        by_method = find_method_calls(sources, *registry.made_by) if registry.made_by else []
        return by_method or find_calls(sources, *registry.also_by)
    return [] if table.is_user else _registering(sources, table)


def _registering(sources: Sequence[Source], table: Place) -> list[Line]:
    """Where a table of a library was given the user's methods or functions that now multiply in it."""
    multiplying = {one.type_name for one in table.children if one.type_name in CALLABLES and multiplies(one)}
    for member in (one for one in table.children if one.type_name in multiplying):
        for held in _inside(member):
            owner = held.reference.owner if held.reference.edge_kind in ("cell", "default") else None
            lines = find_calls_given(sources, methods_of=tail(held.type_name), function=tail(owner))
            if lines:
                return lines
    return []


def _inside(member: Place) -> Iterator[Place]:
    """What a method is of, or a function has of those it was made in: between lie a tuple and cells."""
    for child in member.children:
        if child.type_name in ("tuple", "cell", "method"):
            yield from _inside(child)
        yield child


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
