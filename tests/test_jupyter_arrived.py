"""What an object gained by allocation, and not because another let go of what both held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.jupyter._arrived import new_bytes
from tests.builders import RecordingBuilder

PID = 7
MODULES, LETS_GO, HOLDS, ARRAY = 6, 10, 11, 12  # numbers of nodes


class Snapshots:
    def __init__(self, folder: Path) -> None:
        self.builder = RecordingBuilder(folder).process(PID)

    def node(self, take: int, number: int, retained_bytes: int, dominator: int | None = MODULES, **row: Any) -> None:
        given: dict[str, Any] = {"type_name": "list", "was_there": take > 1, "edge_kind": "global", **row}
        self.builder.row(
            "heap_nodes", 10.0 * take, PID, take=take, node=number, dominator_node=dominator,
            retained_bytes=retained_bytes, **given,
        )  # fmt: skip

    def children(self, take: int, number: int, count: int, new_count: int) -> None:
        """Of 100 bytes each."""
        self.builder.row(
            "heap_children", 10.0 * take, PID, take=take, node=number, type_name="dict", object_count=count,
            retained_bytes=100 * count, new_count=new_count, new_bytes=100 * new_count,
        )  # fmt: skip

    def new_bytes(self) -> dict[int, float]:
        return new_bytes(self.builder.open(), PID, 1, 2)


def of_two_holders(folder: Path) -> Snapshots:
    snapshots = Snapshots(folder)
    for take in (1, 2):
        snapshots.node(take, MODULES, 1_000_000, dominator=0)
    return snapshots


def test_what_two_held_is_not_new_to_the_one_that_is_left(tmp_path: Path):
    snapshots = of_two_holders(tmp_path)
    snapshots.node(1, HOLDS, 500)
    snapshots.node(2, HOLDS, 100_500 + 2_000)
    snapshots.children(2, HOLDS, count=1_020, new_count=20)
    snapshots.children(1, MODULES, count=1_000, new_count=0)  # where both had them
    found = snapshots.new_bytes()
    assert found[HOLDS] == 2_000
    assert found[MODULES] == 0, "it had them all the time"


def test_of_a_large_object_too(tmp_path: Path):
    snapshots = of_two_holders(tmp_path)
    snapshots.node(1, HOLDS, 500)
    snapshots.node(1, ARRAY, 80_000, type_name="numpy.ndarray")
    snapshots.node(2, HOLDS, 500 + 80_000 + 300)
    snapshots.node(2, ARRAY, 80_000, dominator=HOLDS, type_name="numpy.ndarray")
    snapshots.children(2, HOLDS, count=3, new_count=3)
    assert snapshots.new_bytes()[HOLDS] == 300
    assert snapshots.new_bytes()[MODULES] == 0


def test_where_another_lost_as_many_they_may_be_new_ones_at_the_same_addresses(tmp_path: Path):
    snapshots = of_two_holders(tmp_path)
    snapshots.node(1, LETS_GO, 100_500)
    snapshots.children(1, LETS_GO, count=1_000, new_count=0)
    snapshots.node(2, HOLDS, 100_500)
    snapshots.children(2, HOLDS, count=1_000, new_count=0)
    assert snapshots.new_bytes()[HOLDS] == 100_500


def test_what_was_its_own_before_may_have_grown(tmp_path: Path):
    """A thousand dicts that each got an entry are the same objects as before."""
    snapshots = of_two_holders(tmp_path)
    for take, size in ((1, 100_500), (2, 300_500)):
        snapshots.node(take, HOLDS, size)
        snapshots.children(take, HOLDS, count=1_000, new_count=0)
    assert snapshots.new_bytes()[HOLDS] == 200_000
