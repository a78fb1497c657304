"""The rows of a recording that are made of a graph, once it is worked out. Runs in the job, after a snapshot.

Numbers and texts alone: no object of the job's is looked at.
"""

from __future__ import annotations

import ctypes

from .. import libraries
from ..interpreter import names
from ..interpreter.turns import give_way
from .structures import AUTOGRAD, DEVICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

LEAST_CHILDREN = 8  # to be told by type
LEAST_STRAYS = 16  # of one type
GROUPS = ("", "module", "thread", "recorder", "outside", "unreached")
_EDGES = (None, "attribute", "key", "index", "local", "namespace", "contents", "member", "item", "cell", "default")
_MODULES, _KEY, _NAMED = 1, 2, (1, 2, 3, 4, 5, 9, 10)
_ATTRIBUTE, _NAMESPACE = 1, 5
_LIVES_FOR_EVER = _NO_ROW = 0xFFFFFFFF
_NO_LENGTH = 0xFFFFFFFFFFFFFFFF
_BLOCK = 5  # the type of what is native memory
_FILLED_IN_C = libraries.names_of(libraries.FILLED_IN_C)
_CONTAINERS = (1, 2, 3, 7, 9, 10)  # dict, list, tuple, set, deque, OrderedDict
_LIMITS = (
    "max", "most", "limit", "cap", "size", "bound", "keep", "len", "window", "depth", "quota", "slots",
    "entries", "items",
)  # fmt: skip
_WAITS = 0xFFFFFFFF  # before what waits to be called
_NO_OBJECTS = (0, _BLOCK, DEVICE)  # which are told at what holds them


class TypeNames:
    """The names of a graph's types, each read when it is first asked for."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._names = [""] * graph.type_count

    def __getitem__(self, number: int) -> str:
        if not self._names[number]:
            self._names[number] = type_name(self._graph, number)
        return self._names[number]


def rows_of(graph: Any, number: int, numbers: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of all that is told of a graph, for snapshot ``number``; ``numbers``: of the nodes, by row."""
    types = TypeNames(graph)
    told = (
        ("heap_nodes", _nodes(graph, numbers, types)),
        ("heap_strays", _strays(graph, types)),
        ("heap_pins", _pins(graph, numbers)),
        ("heap_children", _children(graph, numbers, types)),
        ("heap_shared", _shared(graph, numbers, types)),
    )
    for table, rows in told:
        for row in rows:
            row["take"] = number
            yield table, row


def _roots(graph: Any) -> list[str]:
    """From what each row is reached."""
    rows = graph.rows
    roots: list[str] = []
    for at in range(graph.row_count):
        row = rows[at]
        root = GROUPS[row.node] if row.node < len(GROUPS) else roots[row.path_row]
        roots.append("frame" if row.is_main and root == "thread" else root)
    return roots


def _nodes(graph: Any, numbers: Sequence[int], types: TypeNames) -> Iterator[dict[str, Any]]:
    rows, roots, is_all = graph.rows, _roots(graph), not graph.is_sampled
    for at in range(graph.row_count):
        give_way()
        row = rows[at]
        is_object = row.node >= len(GROUPS)
        owner, file, line = owner_of(graph, row)
        yield {
            "node": numbers[at],
            "path_node": numbers[row.path_row] if at else None,
            "dominator_node": numbers[row.dominator_row] if at else None,
            "also_node": numbers[row.also_row] if row.also_row else None,
            "root_kind": roots[at] or None,
            "type_name": types[row.type] if is_object else None,
            "edge_kind": _EDGES[row.label_kind],
            "edge_name": _edge_name(graph, row),
            "owner": owner,
            "owner_file": file,
            "owner_line": line,
            "is_named": bool(row.is_seen),
            "opaque": bool(row.is_wanted),
            "was_there": bool(row.is_old) if is_all else None,
            **_sizes(row),
            "error_bytes": None if is_all else row.error_bytes,
            "limits": _limits(_text(graph, row.numbers)) if row.numbers else None,
            "child_count": row.children,
            "new_child_count": row.new_children if is_all else None,
            "reference_count": row.references if is_object and row.references != _LIVES_FOR_EVER else None,
            "edge_count": row.edges_in if is_object and is_all else None,
        }


def _sizes(row: Any) -> dict[str, int | None]:
    return {
        "shallow_bytes": row.own_bytes,
        "retained_bytes": row.retained_bytes,
        "retained_storage_bytes": row.storage_bytes or None,
        "retained_native_bytes": row.native_bytes or None,
        "retained_device_bytes": row.device_bytes or None,
        "retained_unshown_bytes": row.unshown_bytes or None,
        "length": None if row.length == _NO_LENGTH else row.length,
        "length_limit": None if row.limit == _NO_LENGTH else row.limit,
        "hit_count": None if row.hits == _NO_LENGTH else row.hits,
        "miss_count": None if row.misses == _NO_LENGTH else row.misses,
    }


def _pins(graph: Any, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What lies in pools and arenas that are mostly free."""
    for at in range(graph.pin_count):
        pin = graph.pins[at]
        yield {
            "node": numbers[pin.row],
            "object_count": pin.count,
            "shallow_bytes": pin.bytes,
            "pinned_bytes": pin.pinned_bytes,
        }


def _children(graph: Any, numbers: Sequence[int], types: TypeNames) -> Iterator[dict[str, Any]]:
    """What each row dominates directly, by type."""
    is_all = not graph.is_sampled
    for at in range(graph.share_count):
        give_way()
        share = graph.shares[at]
        is_told = share.type == AUTOGRAD or graph.rows[share.row].children >= LEAST_CHILDREN
        if is_told and share.type not in _NO_OBJECTS:
            yield {
                "node": numbers[share.row],
                "type_name": types[share.type],
                "object_count": share.count,
                "retained_bytes": share.bytes,
                "retained_device_bytes": share.device_bytes or None,
                "new_count": share.new_count if is_all else None,
                "new_bytes": share.new_bytes if is_all else None,
            }


def _shared(graph: Any, numbers: Sequence[int], types: TypeNames) -> Iterator[dict[str, Any]]:
    """What each row refers to that others hold as well, by type."""
    for at in range(graph.sharer_count):
        sharer = graph.sharers[at]
        if sharer.type not in _NO_OBJECTS and sharer.count >= LEAST_CHILDREN:
            yield {
                "node": numbers[sharer.row],
                "dominator_node": numbers[sharer.dominator_row],
                "type_name": types[sharer.type],
                "object_count": sharer.count,
                "direct_count": sharer.direct_count,
                "retained_bytes": sharer.bytes,
                "retained_device_bytes": sharer.device_bytes or None,
            }


def copies_of(largest: Any) -> Iterator[tuple[bytes, int]]:
    """(what was copied of a container, its row)."""
    begin = 0
    for at in range(largest.count):
        end = largest.ends[at]
        yield ctypes.string_at(largest.copied + begin, end - begin), largest.rows[at]
        begin = end


def about_row(
    graph: Any, number: int, numbers: Sequence[int], at: int, columns: dict[str, Any], is_weighed: bool
) -> dict[str, Any]:
    row = graph.rows[at]
    if is_weighed:
        columns = dict(columns, type_name=type_name(graph, row.type), deep_bytes=row.retained_bytes)
    return dict(columns, take=number, node=numbers[at])


def types_of(graph: Any) -> Iterator[tuple[str, int, int, int]]:
    """(name, objects that the collector lists, those of them that something leads to, their own bytes) of each type."""
    for at in range(graph.type_count):
        kind = graph.kinds[at]
        if kind.listed:
            yield type_name(graph, at), kind.listed, kind.listed - kind.unreached, kind.listed_bytes


def marks_of(graph: Any, numbers: Sequence[int]) -> Iterator[tuple[int | None, bool]]:
    for at in range(graph.mark_count):
        mark = graph.marks[at]
        if mark.row == _NO_ROW:
            yield None, False
        else:
            yield numbers[mark.row if at < graph.marked_rows else _container(graph, mark.row)], bool(mark.is_held)


def _container(graph: Any, at: int) -> int:
    """The row of the outermost container that has a row as a member, or that itself: what has a name of its own."""
    rows, kinds = graph.rows, graph.kinds
    while True:
        above = rows[at].path_row
        of = rows[above]
        is_container = of.node >= len(GROUPS) and kinds[of.type].base in _CONTAINERS
        if not is_container or of.label_kind == _NAMESPACE or rows[of.path_row].node == _MODULES:
            return at
        at = above


def stacks_of(graph: Any) -> Iterator[list[Any]]:
    stack: list[Any] = []
    texts = iter(graph.stacks[: graph.stack_count] if graph.stack_count else ())
    for at in texts:
        if not at:
            yield stack
            stack = []
        elif at == _WAITS:
            stack.append((None, _text(graph, next(texts)), _definition(graph, next(texts))))
        else:
            stack.append(_definition(graph, at))


def _definition(graph: Any, at: int) -> tuple[str, str, int]:
    file, line, name = _text(graph, at).split("\n")
    return name, file, int(line)


def _strays(graph: Any, types: TypeNames) -> Iterator[dict[str, Any]]:
    """Types of which there are objects that no name leads to."""
    for at in range(graph.stray_count):
        stray = graph.strays[at]
        if max(stray.unreached_count, stray.outside_count, stray.loose_count, stray.extra_references) < LEAST_STRAYS:
            continue
        yield {
            "type_name": types[stray.type],
            "object_count": stray.count,
            "unreached_count": stray.unreached_count,
            "unreached_bytes": stray.unreached_bytes,
            "frozen_count": stray.frozen_count,
            "outside_count": stray.outside_count,
            "outside_bytes": stray.outside_bytes,
            "extra_reference_count": stray.extra_references,
            "loose_count": stray.loose_count if graph.arena_count else None,
            "loose_bytes": stray.loose_bytes if graph.arena_count else None,
            "chain": _cycle(graph, stray) if stray.links else None,
        }


def _cycle(graph: Any, stray: Any) -> str:
    """``Node.parent -> Child -> Node``; the dict of an object's attributes is part of the object."""
    text = ""
    links = [graph.links[stray.first_link + at] for at in range(stray.links)]
    for at, link in enumerate(links):
        is_namespace = at > 0 and links[at - 1].label_kind == _NAMESPACE
        if not is_namespace:
            text += (" -> " if at else "") + type_name(graph, link.type)
        name = _text(graph, link.label) if link.label_kind in _NAMED[:2] else ""
        if name.isidentifier() and (is_namespace or link.label_kind == _ATTRIBUTE):
            text += "." + name
    return f"{text} -> {type_name(graph, stray.type)}"


def summary_of(graph: Any, number: int, took_s: float, analysed_s: float) -> dict[str, Any]:
    return {
        "take": number,
        "node_count": graph.nodes,
        "edge_count": graph.edges,
        "is_sampled": bool(graph.is_sampled),
        "retained_bytes": graph.total_bytes,
        **(_unnamed(graph) if not graph.is_sampled else {}),
        "array_bytes": graph.array_bytes,
        "beyond_malloc_bytes": graph.beyond_malloc_bytes,
        "column_pools_bytes": graph.pool_rss_bytes,
        "storage_bytes": graph.storage_bytes,
        "native_bytes": graph.native_bytes,
        "device_bytes": graph.device_bytes or None,
        "reading_bytes": graph.most_bytes,
        **(_pools(graph) if graph.arena_count else {}),
        "take_cpu_s": took_s,
        "analysis_cpu_s": analysed_s,
    }


def _unnamed(graph: Any) -> dict[str, int]:
    return {
        "outside_count": graph.from_c_count,
        "outside_bytes": graph.from_c_bytes,
        "unreached_count": graph.unreachable_count,
        "unreached_bytes": graph.unreachable_bytes,
        "small_object_bytes": graph.small_bytes,
        "key_reference_count": graph.key_references,
    }


def _pools(graph: Any) -> dict[str, int]:
    sums = {"arena_bytes": graph.arena_bytes, "block_bytes": graph.block_bytes}
    if graph.is_sampled:  # whose objects hold which pools was not looked at
        return sums
    return {
        **sums,
        "pool_bytes": graph.pool_count * graph.pool_bytes,
        "held_arena_count": graph.held_arena_count,
        "held_pool_count": graph.held_pool_count,
        "held_bytes": graph.held_bytes,
    }


def _edge_name(graph: Any, row: Any) -> str | None:
    """Names of variables and attributes; of keys those that look like names, since others may be anybody's data.

    A key is written as in a way (``['name']``): there the outbox masks what looks like a secret.
    """
    if row.label_kind not in _NAMED:
        return None
    text = _text(graph, row.label)
    if row.label_kind != _KEY:
        return text or None
    of_modules = graph.rows[graph.rows[row.path_row].path_row].node == _MODULES
    is_name = names.is_like_a_name(text) or (of_modules and all(part.isidentifier() for part in text.split(".")))
    return f"['{text}']" if is_name else None


def _limits(numbers: str) -> str | None:
    """Of attributes that are numbers, those that may be the most that an object is to hold, by their names."""
    found = []
    for number in numbers.split():
        name = number.lower()
        if any(word in name for word in _LIMITS):
            found.append(number)
    return " ".join(found) or None


def owner_of(graph: Any, row: Any) -> tuple[str | None, str | None, int | None]:
    """(name, file, line) of what a function's frame, a generator or a function is; (name, None, None) of a class."""
    if not row.owner:
        return None, None, None
    parts = _text(graph, row.owner).split("\n")
    return (parts[-1], parts[0], int(parts[1])) if len(parts) == 3 else (parts[-1], None, None)


def _text(graph: Any, at: int) -> str:
    return ctypes.string_at(graph.texts + at).decode("utf-8", "replace")


def is_opaque(type_name: str, kind: Any) -> bool:
    """Whether a type's objects may hold what Python does not see. A database, a parser, a model; an address of C's."""
    if not kind.is_made_in_c:
        return type_name in _FILLED_IN_C
    module, _, name = type_name.rpartition(".")
    if not module:
        return bool(kind.may_hold)
    if libraries.is_harmless(type_name) or not name:
        return False
    file = names.module_file(module)
    return not kind.is_gc or type_name in _FILLED_IN_C or (file is not None and file.endswith((".so", ".pyd")))


def type_name(graph: Any, number: int) -> str:
    name = _text(graph, graph.kinds[number].text)
    return name[9:] if name.startswith("builtins.") else name
