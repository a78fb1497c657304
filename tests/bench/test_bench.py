"""The benchmarks' own programs lean on inner names of the agent: that they still run, whatever they measure."""

from __future__ import annotations

import pytest

from . import heap, sampling

pytestmark = pytest.mark.live


def test_the_bench_of_the_heap_graph_reads_one() -> None:
    nodes, *figures = heap._run(heap._LISTS, 10_000)
    assert nodes > 20_000  # a list and its number, each
    assert all(value > 0 for value in figures)


def test_the_bench_of_sampling_samples() -> None:
    assert all(value > 0 for value in sampling._run("objects", pairs=1)[:3])
