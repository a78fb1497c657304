"""All objects found at one path from a root: the walk's nodes that hold enough to matter."""

from __future__ import annotations

import types

from .. import libraries
from ..interpreter import names
from ..torch.autograd import AutogradGraph
from ..walking import openers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..interpreter.names import Named
    from ..walking.walk import Node
    from . import Snapshot

TABLE = "holders"
NEEDS_WALK = True

MIN_BYTES = 32 * 1024  # smaller paths cannot be the culprit of anything a person would notice
MIN_LENGTH = 256  # a container this long is kept even if its bytes cannot be seen
MAX_ROWS = 1500
MAX_OPAQUE = 40


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Nodes over the thresholds, and those above them on their paths. **Cost** about 4 us a row."""
    nodes = snapshot.walk.nodes
    chosen = [n for n in nodes if n.deep >= MIN_BYTES or (n.length is not None and n.length >= MIN_LENGTH)]
    if len(chosen) > MAX_ROWS:
        chosen.sort(key=lambda n: n.deep, reverse=True)
        del chosen[MAX_ROWS:]
    chosen += _opaque_of_users(nodes) + [n for n in nodes if n.cls is AutogradGraph]
    kept = set()
    for node in chosen:
        above: Node | None = node
        while above is not None and above not in kept:
            kept.add(above)
            above = above.parent
    for node in nodes:
        if node in kept:
            yield _row(node)


def _opaque_of_users(nodes: Iterable[Node]) -> list[Node]:
    found = []
    for node in nodes:
        if not node.opaque or id(node.cls) in _NOT_OPAQUE or not _named(node)[5]:
            continue
        if names.type_name(node.cls) not in libraries.HARMLESS_TYPES:
            found.append(node)
            if len(found) >= MAX_OPAQUE:
                break
    return found


_NAMESPACES = frozenset(("_thread._local", "types.SimpleNamespace", "argparse.Namespace"))
_NOT_OPAQUE = names.ids_of(
    types.BuiltinFunctionType, types.MethodType, types.FunctionType, types.GeneratorType, type, property
)


def _named(node: Node | None) -> Named:
    """(variable, owner, module, file, line, is_user) of the nearest name on the way to a node."""
    while node is not None:
        if node.named is not None:
            return node.named
        parent = node.parent
        if node.edge is openers.ATTRIBUTE and parent is not None:
            if names.type_name(parent.cls) in _NAMESPACES:  # whoever names the object names what is in it
                variable, _owner, module, file, line, user = _named(parent)
                node.named = (node.label[1:], variable, module, file, line, user)
                return node.named
            module = names.module_of(parent.cls)
            file = names.module_file(module)
            named = (
                node.label[1:],
                names.qualname_of(parent.cls),
                module,
                file,
                None,
                names.is_user_module(module, file),
            )
            node.named = named
            return named
        node = parent
    return (None, None, None, None, None, False)


def _row(node: Node) -> dict[str, Any]:
    variable, owner, module, file, line, user = _named(node)
    return {
        "path": node.path(),
        "parent_path": None if node.parent is None else node.parent.path(),
        "root_kind": node.root,
        "edge_kind": node.edge,
        "variable": variable,
        "owner": owner,
        "owner_module": module,
        "owner_file": file,
        "owner_line": line,
        "is_user": user,
        "type_name": names.type_name(node.cls),
        "member_type": None if node.member is None else names.type_name(node.member),
        "object_count": round(node.count, 1),
        "length": None if node.length is None else round(node.length, 1),
        "length_limit": node.length_limit,
        "shallow_bytes": int(node.own_bytes),
        "deep_bytes": int(node.deep),
        "array_deep_bytes": int(node.deep_array),
        "tensor_deep_bytes": int(node.deep_tensor),
        "opaque": node.opaque,
        "chained": node.chained,
    }
