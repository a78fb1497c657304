"""What the graph of the whole heap costs, from ten thousand objects to ten million: the pause, and the memory it takes.

Each point is a process of its own that reads its own heap, as the agent does in a snapshot.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .figures import Figure
from .runs import PYTHON, ROOT

RESULTS = Path(__file__).with_name("heap_graph.json")
COUNTS = (10_000, 100_000, 1_000_000, 10_000_000)
REPEATS = 3
PER = "lists"
MILLION_MS = 150.0
NODE_BYTES = 100.0  # what the agent sets aside (BYTES_AN_OBJECT)
_PROGRAM = """
import gc, json, sys, time
from leakscope.agent.graph.heap_graph import HeapGraph

def peak_bytes():
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM")) * 1024

count = int(sys.argv[1])
kept = [[number] for number in range(count)]
graph = HeapGraph()
assert graph.refusal is None, graph.refusal
gc.collect()
began_cpu = time.thread_time()
gc.collect()
collection_cpu = time.thread_time() - began_cpu
with open("/proc/self/clear_refs", "w") as stream:
    stream.write("5")  # what the peak was until now is forgotten
before = peak_bytes()
began, began_cpu = time.perf_counter(), time.thread_time()
read = graph.read(1, 1 << 40, 1 << 40, ())
pause, pause_cpu = time.perf_counter() - began, time.thread_time() - began_cpu
assert read is not None
began_cpu = time.thread_time()
(summary,) = [row for table, row in graph.work_out().rows if table == "heap_graphs"]
later_cpu = time.thread_time() - began_cpu
peak = peak_bytes() - before
began_cpu = time.thread_time()
graph.read(2, 1 << 40, 1 << 40, ())
next_cpu = time.thread_time() - began_cpu
print(json.dumps([summary["node_count"], collection_cpu, pause, pause_cpu, next_cpu, later_cpu, peak]))
"""


def measure() -> Iterator[Figure]:
    points = [_point(count) for count in COUNTS]
    of = "the graph of the heap"
    for what, unit, values, budgets in (
        ("objects in it", "thousand", [nodes / 1e3 for nodes, *_ in points], None),
        ("pause", "ms", [pause * 1e3 for _, _, pause, *_ in points], None),
        # What a machine's memory takes, both take: the job's own collector stops it as often as it likes. For the
        # first, memory has to be found, at times by the host of a virtual machine.
        ("next pause, CPU time beside that of a full garbage collection", "times", [p[4] / p[1] for p in points], None),
        (
            "pause, CPU time for each million of objects", "ms",
            [cpu * 1e3 / (nodes / 1e6) for nodes, _, _, cpu, *_ in points], MILLION_MS,
        ),
        (
            "next pause, CPU time for each million of objects", "ms",
            [cpu * 1e3 / (nodes / 1e6) for nodes, _, _, _, cpu, *_ in points], MILLION_MS,
        ),
        ("worked out afterwards, CPU time beside the program", "ms", [later * 1e3 for *_, later, _ in points], None),
        ("memory until then", "bytes an object", [bytes / nodes for nodes, *_, bytes in points], NODE_BYTES),
    ):  # fmt: skip
        for count, value in zip(COUNTS, values):
            yield Figure(f"{of}: {what}", value, unit, budgets, count, PER)


def _point(count: int) -> list[float]:
    """Nodes, CPU time of a collection, pause, its CPU time, that of the next, and afterwards, bytes: each a median."""
    runs = [_run(count) for _ in range(REPEATS)]
    return [statistics.median(values) for values in zip(*runs)]


def _run(count: int) -> list[float]:
    done = subprocess.run([PYTHON, "-c", _PROGRAM, str(count)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:  # a benchmark of failures measures nothing
        raise SystemExit(f"a graph of {count} lists failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found
