"""What a program calls the objects that its ``multiprocessing.Manager`` keeps for it in a process of their own.

The memory is in the manager's server, under ``Server.id_to_obj``, and the lines that add to it run in other processes,
on a proxy: ``board = manager.dict()`` there is what to look for in the sources.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..code.adding import ADDS, Holder, Line, Source, adding_lines, line_at
from ..code.index import Index, Scope, index_of, last_name, pairs
from ..code.points_to import ADDERS, THING, Things, points_to
from ..heap.place import Place

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
    named = replace(
        place.reference,
        variable=holder.variable,
        owner=holder.owner,
        owner_module=holder.owner_module,
        owner_file=holder.owner_file,
        edge_kind=holder.edge_kind,
        is_user=True,
    )
    others = [line for proxy in proxies if proxy is not likeliest for line in proxy.lines if line.kind == "adds"]
    return place.known_as(named), [*likeliest.lines[:1], *others, *likeliest.lines[1:]]


def _is_kept_by_server(place: Place, table: tuple[str, str]) -> bool:
    above: Place | None = place
    while above is not None:
        if (above.reference.owner_module, above.reference.variable) == table:
            return True
        above = above.parent
    return False


def _putting_proxies(sources: Sequence[Source]) -> list[Line]:
    """Lines that put a proxy into what is one itself."""
    index = index_of(sources, "Manager")
    managers, found = _managers(index), []
    sites = [(scope, site.node) for scope in index.scopes for site in scope.sites]
    made = [
        node for scope, node in sites
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MADE_BY
        and managers.kind(node.func.value, scope) == THING
    ]  # fmt: skip
    proxies = Things(points_to(index), made)
    for scope, node in sites:
        puts = [(t.value, v) for t, v in pairs(node) if isinstance(t, ast.Subscript) and v is not None]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            puts += [(node.func.value, node.args[0])] if node.func.attr in ADDERS else []
        for container, member in puts:
            if proxies.kind(container, scope) is not None and (member in made or proxies.kind(member, scope) == THING):
                found.append(line_at(index, scope, node, ADDS, 1.0))
    return found


def _managers(index: Index) -> Things:
    made = [site.node for scope in index.scopes for site in scope.sites if _makes_manager(site.node)]
    return Things(points_to(index), [node for node in made if isinstance(node, ast.Call)])


def _proxies(sources: Sequence[Source], place: Place) -> Iterator[Holder]:
    methods = [method for method, types in _MADE_BY.items() if place.type_name in types]
    index = index_of(sources, "Manager")
    managers = _managers(index)
    for scope, target, value in _assignments(index):
        func = value.func if isinstance(value, ast.Call) else None
        if not isinstance(func, ast.Attribute) or func.attr not in methods:
            continue
        if managers.kind(func.value, scope) == THING:
            holder = _holder(index, target, scope, place.type_name)
            if holder is not None:
                yield holder


def _makes_manager(value: ast.AST) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in _MAKES_MANAGER


def _assignments(index: Index) -> Iterator[tuple[Scope, ast.expr, ast.expr]]:
    for scope in index.scopes:
        for site in scope.sites:
            for target, value in pairs(site.node):
                if value is not None:
                    yield scope, target, value


def _holder(index: Index, target: ast.expr, scope: Scope, type_name: str) -> Holder | None:
    """The assigned name, as a snapshot would have named it."""
    source = scope.source
    if isinstance(target, ast.Name):
        owner, variable = index.resolve(target.id, scope)
        is_local = owner.kind == "function"
        name = owner.qualname if is_local else source.module
        return Holder(variable, name, source.module, source.file, "local" if is_local else "global", type_name)
    if isinstance(target, ast.Attribute):
        owner_class = index.class_of(target.value, scope)
        return Holder(target.attr, owner_class, source.module, source.file, "attribute", type_name)
    return None
