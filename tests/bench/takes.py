"""What one snapshot costs, by the number of objects and of tensors that are alive."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from leakscope import open_recording

from .figures import Figure
from .runs import PYTHON, recorded, spent_by

OBJECTS = (10_000, 100_000, 1_000_000, 5_000_000)
TENSORS = (100, 1_000, 10_000, 100_000)
MILLION_MS = 250.0  # no pause is longer, up to a million objects
# For each million of nodes, objects and what they refer to. With torch most are code, and lie farther apart: 100 ms for
# the 400,000 of a process that has imported it.
GRAPH_MILLION_MS = {"objects": 150.0, "tensors": 250.0}
_OBJECTS = "kept = [[i] for i in range(int(sys.argv[1]))]"
_TENSORS = "import torch; kept = [torch.zeros(4) for _ in range(int(sys.argv[1]))]"
_LIVE = "\nends = time.monotonic() + 4.0\nwhile time.monotonic() < ends: time.sleep(0.01)"


def measure(folder: Path, skipped: list[str]) -> Iterator[Figure]:
    yield from _curve("a snapshot of objects", _OBJECTS, OBJECTS, "objects", folder)
    if importlib.util.find_spec("torch"):
        yield from _curve("a snapshot of tensors", _TENSORS, TENSORS, "tensors", folder)
    else:
        skipped.append("snapshots of tensors (no torch)")


def _curve(name: str, make: str, counts: tuple[int, ...], per: str, folder: Path) -> Iterator[Figure]:
    cpu, pause, graph = [], [], []
    for count in counts:
        output = folder / "takes.parquet"
        program = [PYTHON, "-c", f"import sys, time\n{make}{_LIVE}", str(count)]
        spent_by(recorded(program, output, "--max-overhead", "50%", "--max-pause", "1h"))
        tables = open_recording(output).tables
        takes, graphs = tables.takes, tables.heap_graphs
        budget = MILLION_MS if count <= 1_000_000 else None
        cpu.append(Figure(f"{name}: CPU time", float(takes.take_cpu_s.median()) * 1e3, "ms", None, count, per))
        pause.append(Figure(f"{name}: pause", float(takes.duration_s.median()) * 1e3, "ms", budget, count, per))
        if len(graphs):
            read_ms = float(graphs.take_cpu_s.median()) * 1e3
            budget = GRAPH_MILLION_MS[per] * float(graphs.node_count.median()) / 1e6
            graph.append(Figure(f"{name}: of it, the graph of the heap", read_ms, "ms", budget, count, per))
    yield from cpu + pause + graph
