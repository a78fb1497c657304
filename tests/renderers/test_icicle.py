"""The boxes of a heap add up to its process, and no box is wider than the one it lies in."""

from __future__ import annotations

import dataclasses

import pytest

from leakscope.findings import Band
from leakscope.pages import icicle

from .reports import FULL, MiB

VIEW = FULL.heap[0]


def inner(nodes: list[icicle.Node], parent: int | None) -> list[icicle.Node]:
    return [node for node in nodes if node.parent == parent]


def test_the_first_boxes_divide_all_memory_of_the_process():
    nodes = icicle.nodes(VIEW)
    assert list(nodes[0].bytes) == [320 * MiB, 800 * MiB]
    for take in (0, 1):
        assert sum(node.bytes[take] for node in inner(nodes, 0)) == nodes[0].bytes[take]
        assert sum(node.bytes[take] for node in inner(nodes, 1)) == nodes[1].bytes[take]


def test_what_holders_retain_beyond_the_accounts_is_native_memory_that_they_hold():
    accounts = [Band("tensors", [0, 0]), Band("native", [800 * MiB, 800 * MiB]), Band("mapped-files", [MiB, MiB])]
    nodes = icicle.nodes(dataclasses.replace(VIEW, accounts=accounts))
    sizes = {node.name.split(":")[0]: node.bytes[1] for node in inner(nodes, 0)}
    assert sizes == {"objects": 670 * MiB, "native": 130 * MiB, "mapped files": MiB}
    assert all(node.drawn_bytes == node.bytes for node in nodes)


def test_holders_that_retain_more_than_the_process_has_are_drawn_narrower_with_their_own_figures():
    """A snapshot and the sample of memory beside it are read at different instants, and not all is in RAM."""
    accounts = [Band("tensors", [60 * MiB, 300 * MiB]), Band("allocator-free", [0, 35 * MiB])]
    nodes = icicle.nodes(dataclasses.replace(VIEW, accounts=accounts))
    named = {node.name: node for node in nodes}
    assert nodes[0].drawn_bytes[1] == nodes[0].bytes[1] == 335 * MiB
    assert sum(node.drawn_bytes[1] for node in inner(nodes, 0)) == 335 * MiB
    assert named["main() trainer"].bytes[1] == 600 * MiB
    assert named["main() trainer"].drawn_bytes[1] == pytest.approx(300 * MiB * 600 / 670, abs=1)
    for number, node in enumerate(nodes):
        assert sum(one.drawn_bytes[1] for one in inner(nodes, number)) <= node.drawn_bytes[1]


def test_members_that_held_each_other_at_one_snapshot_are_not_counted_twice():
    twice = [*VIEW.holders, dataclasses.replace(VIEW.holders[3], path="main() trainer.history[0]")]
    nodes = icicle.nodes(dataclasses.replace(VIEW, holders=twice))
    history = next(number for number, node in enumerate(nodes) if node.name == ".history")
    assert sum(node.bytes[1] for node in inner(nodes, history)) == 2 * 569 * MiB
    assert sum(node.drawn_bytes[1] for node in inner(nodes, history)) <= nodes[history].bytes[1] == 570 * MiB


def test_the_colour_of_a_box_is_its_growth():
    shades = {box.node.name: box.shade for box in icicle.boxes(icicle.nodes(VIEW))}
    assert shades["main() trainer"] == "grew-much"
    assert shades["main() config"] == "level"
    assert shades["native: allocated by libraries"] == "shrank"


def test_a_box_lies_within_the_one_above_it():
    boxes = icicle.boxes(icicle.nodes(VIEW))
    above = {box.node.name: box for box in boxes}
    trainer, history = above["main() trainer"], above[".history"]
    assert (history.row, trainer.row) == (3, 2)
    assert trainer.left <= history.left
    assert history.left + history.width <= trainer.left + trainer.width + 1e-9
