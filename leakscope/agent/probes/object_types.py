"""Objects by type that the collector tracks: the census."""

from __future__ import annotations

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from . import Snapshot

TABLE = "object_types"
NEEDS_WALK = True

MAX_ROWS = 60
MIN_COUNT = 500


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The most numerous types, and how many of each the walk stands for."""
    ranked = sorted(snapshot.census.items(), key=lambda item: item[1], reverse=True)[:MAX_ROWS]
    for cls, count in ranked:
        if count < MIN_COUNT:
            break
        yield {
            "type_name": names.type_name(cls),
            "object_count": count,
            "reached_count": int(snapshot.reached.get(cls, 0)),
            "shallow_bytes": count * (names.basicsize_of(cls) + 16),
        }
