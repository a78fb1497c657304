"""What the agent writes down of a container that may be a data set."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

from leakscope.agent.graph import rows, sketch, structures
from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.torch import tensors as torch_tensors
from leakscope.agent.torch.remembered import Remembered


def sketched(obj: Any, tensors: Mapping[int, tuple[int, int]] | None = None) -> tuple[int, str, str] | None:
    """(rows, data form, sketch) of ``obj``, as a snapshot of this process tells; None: it is none."""
    found = [one for one in told_of(obj, tensors) if one["table"] == "data_forms"]
    return (found[0]["row_count"], found[0]["data_form"], found[0]["content_sketch"]) if found else None


def told_of(obj: Any, tensors: Mapping[int, tuple[int, int]] | None = None) -> list[dict[str, Any]]:
    """The rows of ``data_forms`` and ``text_fields`` about ``obj``, each with its ``table``."""
    graph = HeapGraph(minds_watchers=False)
    if tensors is not None:
        graph.weigh_tensors(*_layout_of_tensors())
    assert graph.refusal is None, graph.refusal
    # Some of it is enough: variables of running functions are near, and of the object itself rows are copied anyhow.
    assert graph.read(1, 1, 1 << 36, None, 20_000) is not None
    assert graph.add([], [id(obj)], 1)  # it gets a row of its own, however little it is
    read = graph._read.pop()[0]
    try:
        largest = structures.Largest(least_bytes=0)
        assert graph._analyse(read, None, 1 << 60, 250, 3)  # nothing else has one, but for what is on the way to it
        assert graph._label(read, id(sys.modules), None, ctypes.byref(largest))
        row = read.contents.marks[0].row
        (copy,) = [copy for copy, at in rows.copies_of(largest) if at == row] or [None]
        found = [] if copy is None else sketch.rows_of_copy(copy, tensors or {})
        return [dict(columns, table=table) for table, columns in found]
    finally:
        graph._free(read)


def _layout_of_tensors() -> Any:
    import torch

    memory = Remembered()
    known = [torch.zeros(2000 + 100 * number) for number in range(5)]
    assert torch_tensors.look(
        torch_tensors.types_of("Tensor"), known, torch_tensors.Bounds(), [], [], (), memory, with_values=False
    )
    return memory.tensor_layout.get()
