"""Holders inside libraries of which nobody writes the name: the lines of the program that fill them, or make them."""

from __future__ import annotations

from collections.abc import Sequence

from ...agent import libraries
from ..code.adding import CREATES, Line, find_calls, find_method_calls
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
        one = table.reference if table is not None else None
        if one is None or table is None or one.edge_kind not in ("attribute", "class-attribute", "global"):
            continue
        registry = _REGISTRIES.get(one.variable or "")
        if registry is not None and registry.is_in(one.owner_module or ""):
            lines = find_method_calls(sources, *registry.made_by) if registry.made_by else []
            if lines := lines or find_calls(sources, *registry.also_by):
                return table, lines
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
