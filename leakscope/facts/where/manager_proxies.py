"""What a program calls the objects that its ``multiprocessing.Manager`` keeps for it in a process of their own.

The memory is in the manager's server, under ``Server.id_to_obj``, and the lines that add to it run in other processes,
on a proxy: ``board = manager.dict()`` there is what to look for in the sources.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..code.adding import ADDS, Holder, Line, Source, adding_lines, line_at
from ..code.index import Index, Scope, index_of
from ..code.points_to import ADDERS, THING, Field, Things, Variable, points_to
from ..code.syntax import last_name, pairs
from ..heap.place import Place, Reference, upwards

_SERVER, _OF_PROXIES = ("multiprocessing.managers", "id_to_obj"), ("multiprocessing.managers", "id_to_local_proxy_obj")
_MAKES_MANAGER = ("Manager", "SyncManager")
# What a manager's method makes, by its name; the types are those found inside the server.
_MADE_BY = {
    "dict": ("dict",),
    "list": ("list",),
    "Namespace": ("multiprocessing.managers.Namespace",),
    "Queue": ("queue.Queue", "collections.deque"),
    "JoinableQueue": ("queue.Queue", "collections.deque"),
}


class _Proxy(NamedTuple):
    holder: Holder
    lines: list[Line]

    @property
    def rank(self) -> tuple[bool, float]:
        best = self.lines[0] if self.lines else None
        return (best is not None and best.kind == "adds", best.score if best is not None else 0.0)


def named_by_proxy(sources: Sequence[Source], place: Place) -> tuple[Place, list[Line]] | None:
    """The place under the program's name for its proxy, and the lines that add there. None: no manager keeps it.

    Of several proxies to objects of its type the one that the sources add to is meant. In the server's table of proxies
    that were put into other managed objects, the program has no name for any: that the lines put them there is known.
    """
    if _is_kept_by_server(place, _OF_PROXIES):
        lines = _putting_proxies(sources)
        return (place, lines) if lines else None
    if not _is_kept_by_server(place, _SERVER):
        return None
    if place.type_name == "tuple" and place.children:
        # An entry of the table: the object, and what may be called on it.
        place = max(place.children, key=lambda child: child.growth_bytes)
    proxies = [_Proxy(holder, adding_lines(sources, holder)) for holder in _proxies(sources, place)]
    if not proxies:
        return None
    likeliest = max(proxies, key=lambda proxy: proxy.rank)
    holder = likeliest.holder
    named = Reference(holder.edge_kind, *holder[:4], place.reference.owner_line, is_user=True)
    others = [line for proxy in proxies if proxy is not likeliest for line in proxy.lines if line.kind == "adds"]
    return place.known_as(named), [*likeliest.lines[:1], *others, *likeliest.lines[1:]]


def _is_kept_by_server(place: Place, table: tuple[str, str]) -> bool:
    return any((above.reference.owner_module, above.reference.variable) == table for above in upwards(place))


def _putting_proxies(sources: Sequence[Source]) -> list[Line]:
    """Lines that put a proxy into what is one itself."""
    index, found = index_of(sources, "Manager"), []
    made = [node for node, _ in _made(index, _MADE_BY)]
    proxies = Things(points_to(index), made)
    for scope, node in ((one, site.node) for one, site in index.sites()):
        puts = [(t.value, v) for t, v in pairs(node) if isinstance(t, ast.Subscript) and v is not None]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            puts += [(node.func.value, node.args[0])] if node.func.attr in ADDERS else []
        for container, member in puts:
            if proxies.kind(container, scope) is not None and (member in made or proxies.kind(member, scope) == THING):
                found.append(line_at(index, scope, node, ADDS, 1.0))
    return found


def _proxies(sources: Sequence[Source], place: Place) -> Iterator[Holder]:
    """The names that are given a proxy, as a snapshot would have named them."""
    index = index_of(sources, "Manager")
    methods = [method for method, types in _MADE_BY.items() if place.type_name in types]
    for node, scope in _made(index, methods):
        source = scope.source
        for flow in points_to(index).out.get(node, ()):
            if flow.term.path:
                continue
            if isinstance(flow.target, Field):
                owner, name, kind = flow.target.owner, flow.target.name, "attribute"
            elif isinstance(flow.target, Variable):
                name, is_local = flow.target.name, flow.target.scope.kind == "function"
                owner, kind = (flow.target.scope.qualname, "local") if is_local else (source.module, "global")
            else:
                continue
            yield Holder(name, owner, source.module, source.file, kind, place.type_name)


def _made(index: Index, methods: Collection[str]) -> list[tuple[ast.Call, Scope]]:
    """Calls of these methods of managers."""
    calls = [(call, scope) for scope, _, call in index.calls()]
    managers = Things(points_to(index), [call for call, _ in calls if last_name(call.func) in _MAKES_MANAGER])
    return [
        (call, scope) for call, scope in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods
        and managers.kind(call.func.value, scope) == THING
    ]  # fmt: skip
