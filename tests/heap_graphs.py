"""Whether the heap can be read as a graph here: found out once, and not by each file of tests that needs it."""

from __future__ import annotations

import pytest

from leakscope.agent.graph.heap_graph import HeapGraph

REFUSAL = HeapGraph().refusal
needs_heap_graph = pytest.mark.skipif(REFUSAL is not None, reason=f"no heap graph: {REFUSAL}")
