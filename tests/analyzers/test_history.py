"""The graphs of a process are read once, and whoever asks about some of its snapshots gets what these say."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.facts.heap.comparable import heap_of
from leakscope.facts.heap.graph import graph_places
from leakscope.facts.heap.place import Place
from leakscope.facts.heap.tree import heap_tree
from leakscope.storage import Recording
from tests.builders import RecordingBuilder

PID, MiB = 7, 1 << 20
TAKES = (1, 2, 3, 4, 5)


def recorded(folder: Path) -> Recording:
    """``KEPT`` grows; ``last`` is an object of its own in each snapshot, whose name only the second saw."""
    builder = RecordingBuilder(folder).process(PID).source(PID, "/home/me/store.py", "KEPT = {}\n", module="store")
    for take in TAKES:
        builder.take(PID, take, 10.0 * take, rss_bytes=take * 10 * MiB)
        builder.heap(PID, take, 10.0 * take, take * 10 * MiB, 100 * take)
        held = {"type_name": "store.Batch", "retained_bytes": take * MiB, "retained_device_bytes": take << 10}
        name = {"edge_kind": "attribute", "edge_name": "last" if take == 2 else None, "is_named": take == 2}
        where = {"node": 100 + take, "path_node": 8, "dominator_node": 8, "root_kind": "module", "shallow_bytes": 50}
        builder.row("heap_nodes", 10.0 * take, PID, take=take, **where, **name, **held)
    return builder.open()


def told(places: list[Place]) -> list[dict[str, Any]]:
    return [
        {
            "path": place.path, "parent": place.parent.path if place.parent else None, "reference": place.reference,
            "bytes": place.deep_bytes.tolist(), "length": place.length.tolist(), "tensors": place.tensor_bytes.tolist(),
            "children": [child.path for child in place.children], "numbers": sorted(place.numbers),
        }
        for place in places
    ]  # fmt: skip


@pytest.mark.parametrize("on_devices", [False, True])
def test_what_others_asked_before_changes_no_answer(tmp_path: Path, on_devices: bool) -> None:
    asked = recorded(tmp_path)
    for takes in (TAKES, (3, 4, 5), (1, 2), (2, 4), (4, 5), TAKES):
        alone = graph_places(recorded(tmp_path), PID, takes, on_devices=on_devices)
        among_others = graph_places(asked, PID, takes, on_devices=on_devices)
        assert told(among_others) == told(alone)
        assert {place.path for place in among_others if place.type_name == "store.Batch"} == {"store.last"}


def test_what_one_makes_of_his_places_is_not_seen_by_others(tmp_path: Path) -> None:
    asked = recorded(tmp_path)
    before = told(graph_places(asked, PID, TAKES))
    assert [place.path for place in heap_tree(asked, PID).places] != [place["path"] for place in before]
    heap = heap_of(asked, PID, 0.0, 100.0)
    assert heap is not None and heap.takes == TAKES
    assert told(graph_places(asked, PID, TAKES)) == before


MEMBERS = 3
_in_list = st.lists(st.booleans(), min_size=MEMBERS, max_size=MEMBERS)


@given(st.lists(_in_list, min_size=2, max_size=4))
@settings(max_examples=25, deadline=None)
def test_what_hung_elsewhere_in_earlier_snapshots_changes_no_figure(hung: list[list[bool]]) -> None:
    """A variable that goes round a list has another of its members each time: the list dominates the others alone."""
    with TemporaryDirectory() as folder:
        builder = RecordingBuilder(Path(folder)).process(PID)
        sizes = {take: [take * (n + 1) * MiB for n in range(MEMBERS)] for take in range(1, len(hung) + 1)}
        for (take, held), in_list in zip(sizes.items(), hung):
            builder.take(PID, take, 10.0 * take, rss_bytes=take * 10 * MiB)
            builder.heap(PID, take, 10.0 * take, take * 10 * MiB, 100 * take)
            own = {"take": take, "root_kind": "module", "is_named": True, "shallow_bytes": 50, "path_node": 8}
            listed = {"node": 100, "dominator_node": 8, "type_name": "list", "edge_kind": "attribute"}
            of_list = MiB + sum(size for size, inside in zip(held, in_list) if inside)
            builder.row(
                "heap_nodes", 10.0 * take, PID, **own, **listed, edge_name="parts", retained_bytes=of_list, length=3
            )
            for n, (size, inside) in enumerate(zip(held, in_list)):
                member = {"node": 101 + n, "type_name": f"store.Part{n}", "edge_kind": "item", "edge_name": str(n)}
                where = {**own, "path_node": 100, "dominator_node": 100 if inside else 8}
                builder.row("heap_nodes", 10.0 * take, PID, **where, **member, retained_bytes=size)
        places = {place.node: place for place in graph_places(builder.open(), PID, tuple(sizes))}
    wanted = [MiB + sum(size for size, inside in zip(held, hung[-1]) if inside) for held in sizes.values()]
    assert places[100].deep_bytes.tolist() == wanted
    assert {child.node for child in places[100].children if child.node} == {
        101 + n for n, inside in enumerate(hung[-1]) if inside
    }
