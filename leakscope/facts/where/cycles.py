"""The line that closes a reference cycle, and how to open it there."""

from __future__ import annotations

from collections.abc import Sequence

from ..code.adding import CREATES, Holder, Line, Source, adding_lines
from ..code.index import index_of

_NODE_PREFIX = "torch.autograd.function."  # of the class that torch makes for each function written in Python
_NODE_SUFFIX = "Backward"


def cycle_line(
    sources: Sequence[Source], type_name: str, chain: str | None, place: tuple[str, int] | None
) -> Line | None:
    """Where the attribute is set by which objects of a type refer to what refers back to them.

    Only in code of their own class, which is at ``place``: elsewhere an attribute of this name may be another's.
    """
    if chain is None or not chain.startswith(type_name + "."):
        return None
    attribute, is_direct = _to_weaken(type_name, chain.split(" -> "))
    owner = _class_of(type_name)
    holder = Holder(attribute, owner=owner, owner_file=place[0] if place else None, edge_kind="attribute")
    lines = adding_lines(sources, holder)
    inside = [line for line in lines if line.kind != "calls" and (line.function or "").startswith(owner + ".")]
    if is_direct:  # where it is set, not where something is added to what it refers to
        inside.sort(key=lambda line: line.kind != CREATES)
    return next(iter(inside), None)


def _to_weaken(type_name: str, chain: Sequence[str]) -> tuple[str, bool]:
    """The attribute that can be a weak reference, and whether it refers to an object and to no container.

    A container of weak references would let go of its members: ``parent`` can be one, and ``children`` cannot.
    """
    own = [
        (link.removeprefix(type_name + "."), "." in following)
        for link, following in zip(chain, (*chain[1:], *chain[:1]))
        if link.startswith(type_name + ".")
    ]
    return next((one for one in own if one[1]), own[0])


def class_place(sources: Sequence[Source], type_name: str) -> tuple[str, int] | None:
    """(file, line) where a class of the user's is defined."""
    module, _, name = type_name.rpartition(".")
    if is_graph_node(type_name):
        module, name = "", _class_of(type_name)
    for scope in index_of(sources, "class").scopes:
        if scope.kind == "class" and scope.name == name and module in ("", scope.source.module):
            return scope.source.file, int(getattr(scope.node, "lineno", 1))
    return None


def breaking(type_name: str, line: Line | None) -> str:
    """What to change so that no cycle comes to be."""
    where = f" at {line.place}" if line is not None else ""
    if is_graph_node(type_name):
        return f"keep what a function returns or is given by ctx.save_for_backward{where}: it makes no cycle"
    return f"make one reference of the cycle a weakref.ref{where}: then nothing has to be collected at all"


def is_graph_node(type_name: str) -> bool:
    """The objects are contexts of an autograd function that the user wrote."""
    return type_name.startswith(_NODE_PREFIX) and type_name.endswith(_NODE_SUFFIX)


def _class_of(type_name: str) -> str:
    """The class as its source calls it."""
    name = type_name.rpartition(".")[2]
    return name[: -len(_NODE_SUFFIX)] if is_graph_node(type_name) else name
