"""What several hold at once is told at one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakscope.facts.heap.graph import graph_places
from leakscope.facts.heap.place import Place
from leakscope.facts.heap.waiting import waits_in
from tests.builders import RecordingBuilder

PID = 7
MODULES, CACHE, ROUTES = 6, 12, 22


def _node(number: int, above: int, kind: str | None, name: str | None, of: str, **more: Any) -> dict[str, Any]:
    return {
        "node": number, "path_node": above, "dominator_node": above, "root_kind": "module", "type_name": of,
        "edge_kind": kind, "edge_name": name, "is_named": True, "shallow_bytes": 100, "retained_bytes": 500, **more,
    }  # fmt: skip


def _two_holders(
    tmp_path: Path, *, other_bytes: int = 100, other_direct: int | None = None, more: tuple[dict[str, Any], ...] = ()
) -> list[Place]:
    """Places of a program whose ``routes`` and a second list of its own refer to the same members.

    ``other_bytes``: percent of them; ``other_direct``: to how many that refers itself.
    """
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "routes = []\n", module="app")
    for take in (1, 2, 3):
        all_bytes = take << 20
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=all_bytes),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(ROUTES, 21, "key", "routes", "list", length=10 * take),
            _node(CACHE, 21, "key", "waiting", "dict", length=10 * take),
            *more,
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
        members = {"type_name": "_asyncio.Task", "object_count": 10 * take, "retained_bytes": all_bytes}
        builder.row("heap_children", 10.0 * take, PID, take=take, node=MODULES, **members)
        for number, share, direct in ((CACHE, other_bytes, other_direct), (ROUTES, 100, 10 * take)):
            shared = {**members, "retained_bytes": all_bytes * share // 100, "direct_count": direct}
            builder.row("heap_shared", 10.0 * take, PID, take=take, node=number, dominator_node=MODULES, **shared)
    return graph_places(builder.open(), PID, [1, 2, 3])


def test_who_refers_to_them_himself_is_told_before_who_does_by_way_of_others(tmp_path: Path) -> None:
    places = _two_holders(tmp_path, other_bytes=101, other_direct=0)
    (told,) = [place for place in places if place.type_name == "_asyncio.Task"]
    assert told.path == "app.routes[*]"
    assert [place.path for place in told.also_held_by] == ["app.waiting"]


def test_of_tasks_that_do_not_end_it_is_told_where_one_waits(tmp_path: Path) -> None:
    """An example that has a coroutine waits in what that calls; one that has ended has none any more."""
    places = _two_holders(
        tmp_path,
        other_direct=0,
        more=(
            _node(30, ROUTES, "member", None, "_asyncio.Task", retained_bytes=900),
            _node(31, 30, None, None, "coroutine", owner="serve", owner_file="/home/me/app.py", owner_line=7),
            _node(32, 31, None, None, "coroutine", owner="sleep", owner_file="/lib/tasks.py", owner_line=9),
            _node(33, CACHE, "member", None, "_asyncio.Task", retained_bytes=900),
        ),
    )  # fmt: skip
    holders = {place.path: place for place in places}
    calls = waits_in(holders["app.routes"], places)
    assert [(call.function, call.file, call.line) for call in calls] == [
        ("serve", "/home/me/app.py", 7), ("sleep", "/lib/tasks.py", 9)
    ]  # fmt: skip
    assert waits_in(holders["app.waiting"], places) == []


def test_what_is_as_long_beside_it_holds_the_same_few_large_members(tmp_path: Path) -> None:
    """Few and large: optimizers in a list, and their schedulers in another, of which each refers to its optimizer."""
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "made = []\n", module="app")
    for take in (1, 2, 3):
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=take << 20),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict", retained_bytes=take << 20),
            _node(22, 21, "key", "made", "list", length=2 * take),
            _node(23, 21, "key", "plans", "list", length=2 * take),
            _node(24, 21, "key", "names", "list", length=7),
            *(
                _node(30 + at, 22, "index", str(at), "Adam", dominator_node=21, retained_bytes=1 << 19)
                for at in range(2 * take)
            ),
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
    made = {place.path: place for place in graph_places(builder.open(), PID, [1, 2, 3])}["app.made"]
    assert (made.member_type, len(made.children)) == ("Adam", 6)
    assert {other.path for member in made.children for other in member.also_held_by} == {"app.plans"}


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
    places = graph_places(builder.open(), PID, [1, 2, 3])
    (told,) = [place for place in places if place.type_name == "function" and place.deep_bytes[-1] > 1 << 20]
    assert told.path == ("library._seen[*]" if less else "app.routes[*]")


def test_the_dict_of_a_cache_holds_nothing_beside_the_cache(tmp_path: Path) -> None:
    """It refers to the results as the program's list does, and is no place once they count to the cache."""
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "routes = []\n", module="app")
    for take in (1, 2, 3):
        all_bytes, length = take << 20, 10 * take
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=all_bytes),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(30, 21, "key", "load", "functools._lru_cache_wrapper", retained_bytes=all_bytes),
            _node(CACHE, 30, None, None, "dict", length=length),
            _node(ROUTES, 30, "attribute", "kept", "list", length=length),
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
        members = {"type_name": "app.Route", "object_count": length, "retained_bytes": all_bytes}
        builder.row("heap_children", 10.0 * take, PID, take=take, node=30, **members)
        for number in (CACHE, ROUTES):
            shared = {**members, "direct_count": length}
            builder.row("heap_shared", 10.0 * take, PID, take=take, node=number, dominator_node=30, **shared)
    recording = builder.open()
    for _ in range(2):  # the second time of what is known already
        (told,) = [one for one in graph_places(recording, PID, [1, 2, 3]) if one.type_name == "app.Route"]
        assert told.also_held_by == [] and told.path == "app.load.kept[*]"


def test_members_with_rows_of_their_own_in_some_snapshots_hang_at_their_holder_in_all(tmp_path: Path) -> None:
    """A snapshot that found few of them gave each a row, below what dominates it; later ones counted them together."""
    each = 200_000
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "sessions = {}\n", module="app")
    for take, count in ((1, 10), (2, 40), (3, 80)):
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=count * each),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(ROUTES, 21, "key", "sessions", "dict", length=count),
            _node(CACHE, 21, "key", "lanes", "dict", length=count),
            *(_node(100 + n, ROUTES, "key", f"['{n}']", "app.Session", retained_bytes=each, dominator_node=MODULES)
              for n in range(count if take == 1 else 0)),
        ):  # fmt: skip
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
        members = {"type_name": "app.Session", "object_count": count, "retained_bytes": count * each}
        builder.row("heap_children", 10.0 * take, PID, take=take, node=MODULES, **members)
        for number in (ROUTES, CACHE):
            shared = {**members, "direct_count": count}
            builder.row("heap_shared", 10.0 * take, PID, take=take, node=number, dominator_node=MODULES, **shared)
    places = {place.path: place for place in graph_places(builder.open(), PID, [1, 2, 3])}
    held = places["app.sessions"].deep_bytes / each
    assert held == pytest.approx([10, 40, 80], rel=0.01)


def test_members_are_what_the_container_refers_to_and_not_what_these_share(tmp_path: Path) -> None:
    """Records of which each has the array of the one before: the list dominates the arrays as well."""
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "items = []\n", module="app")
    for take in (1, 2, 3):
        for node in (
            _node(MODULES, 1, None, None, "dict", retained_bytes=take << 20),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(ROUTES, 21, "key", "items", "list", length=20 * take, retained_bytes=take << 20),
            _node(40, ROUTES, "index", "0", "app.Transition", retained_bytes=900),
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
        for kind, held in (("numpy.ndarray", take << 20), ("app.Transition", 2000 * take)):
            members = {"type_name": kind, "object_count": 20 * take, "retained_bytes": held}
            builder.row("heap_children", 10.0 * take, PID, take=take, node=ROUTES, **members)
    places = {place.path: place for place in graph_places(builder.open(), PID, [1, 2, 3])}
    assert places["app.items"].member_type == "app.Transition"


def test_hooks_of_a_tensor_have_a_name_though_c_code_keeps_them(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(PID).source(PID, "/home/me/app.py", "weight = 1\n", module="app")
    for take in (1, 2):
        for node in (
            _node(MODULES, 1, None, None, "dict"),
            _node(20, MODULES, "key", "app", "module", owner_file="/home/me/app.py"),
            _node(21, 20, "namespace", None, "dict"),
            _node(22, 21, "key", "weight", "torch.nn.parameter.Parameter"),
            _node(23, 22, None, None, "collections.OrderedDict", length=5 * take),
        ):
            builder.row("heap_nodes", 10.0 * take, PID, take=take, **node)
    (hooks,) = [one for one in graph_places(builder.open(), PID, [1, 2]) if one.type_name.endswith("OrderedDict")]
    assert (hooks.path, hooks.reference.variable) == ("app.weight._backward_hooks", "_backward_hooks")
