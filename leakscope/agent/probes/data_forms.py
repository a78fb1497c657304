"""Large containers of records and a sketch of what is in them, so that copies can be told later."""

from __future__ import annotations

from ..interpreter import names
from ..walking import sketch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..walking.walk import Node
    from . import Snapshot

TABLE = "data_forms"
NEEDS_WALK = True

MOST = 50  # of the largest: half a millisecond each at the worst


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Of the large containers the walk came to, {node: container}, those that hold sketch.LEAST_BYTES or more.

    They are let go here: whoever asks for referrers after us must not meet the dict that they were kept in.
    """
    large = snapshot.walk.large
    try:
        nodes = [node for node in large if node.deep >= sketch.LEAST_BYTES]
        for node in sorted(nodes, key=lambda node: -node.deep)[:MOST]:
            row_count = sketch.row_count(large[node])
            found = sketch.sketch(large[node], row_count)
            if found is not None:
                yield _row(node, row_count, *found)
    finally:
        large.clear()


def _row(node: Node, row_count: int, data_form: str, content_sketch: str) -> dict[str, Any]:
    return {
        "path": node.path(),
        "type_name": names.type_name(node.cls),
        "row_count": row_count,
        "deep_bytes": int(node.deep),
        "data_form": data_form,
        "content_sketch": content_sketch,
    }
