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


@pytest.mark.parametrize("native", [0, 20 * MiB])
def test_holders_that_retain_more_than_the_accounts_say_still_fit(native):
    """A snapshot and the sample of memory beside it are read at different instants."""
    accounts = [Band("tensors", [0, 0]), Band("native", [native, native])]
    nodes = icicle.nodes(dataclasses.replace(VIEW, accounts=accounts))
    assert list(nodes[0].bytes) == [120 * MiB, 670 * MiB]
    assert all(size >= 0 for node in nodes for size in node.bytes)
    assert sum(node.bytes[1] for node in inner(nodes, 0)) == nodes[0].bytes[1]


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
