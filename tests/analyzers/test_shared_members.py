"""What several hold at once is told at one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakscope.facts.heap.graph import graph_places
from tests.builders import RecordingBuilder

PID = 7
MODULES, CACHE, ROUTES = 6, 12, 22


def _node(number: int, above: int, kind: str | None, name: str | None, of: str, **more: Any) -> dict[str, Any]:
    return {
        "node": number, "path_node": above, "dominator_node": above, "root_kind": "module", "type_name": of,
        "edge_kind": kind, "edge_name": name, "is_named": True, "shallow_bytes": 100, "retained_bytes": 500, **more,
    }  # fmt: skip


@pytest.mark.parametrize("less", [0, 60])  # percent of all that the program's own list has less than the cache
def test_rather_at_the_users_own_than_in_a_cache_of_a_library(tmp_path: Path, less: int) -> None:
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "routes = []\n", module="app")
    for take in (1, 2, 3):
        all_bytes = take << 20
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=all_bytes),
            _node(10, MODULES, "key", "library", "module"),
            _node(11, 10, "namespace", None, "dict"),
            _node(CACHE, 11, "key", "_seen", "functools._lru_cache_wrapper"),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(ROUTES, 21, "key", "routes", "list", length=10 * take),
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
        members = {"type_name": "function", "object_count": 10 * take, "retained_bytes": all_bytes}
        builder.row("heap_children", 10.0 * take, PID, take=take, node=MODULES, **members)
        for number, share in ((CACHE, 100), (ROUTES, 100 - less)):
            shared = {**members, "retained_bytes": all_bytes * share // 100}
            builder.row("heap_shared", 10.0 * take, PID, take=take, node=number, dominator_node=MODULES, **shared)
    places = graph_places(builder.open(), PID, [1, 2, 3], by_holder=True)
    (told,) = [place for place in places if place.type_name == "function" and place.deep_bytes[-1] > 1 << 20]
    assert told.path == ("library._seen[*]" if less else "app.routes[*]")
