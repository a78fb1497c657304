"""What the graph of the whole heap costs, from ten thousand objects to ten million: the pause, and the memory it takes.

Each point is a process of its own that reads its own heap, as the agent does in a snapshot.
"""

from __future__ import annotations

import importlib.util
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
LIBRARIES_MS = 100.0
NODE_BYTES = 100.0  # what the agent sets aside (BYTES_AN_OBJECT)
_LISTS = "kept = [[number] for number in range(int(sys.argv[1]))]"
# A training of which little but libraries is in memory: dicts and functions, which lie scattered.
_LIBRARIES = """
import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments
small = BertConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
model = BertForMaskedLM(small)
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(1000, (4, 16))
model(input_ids=tokens, labels=tokens).loss.backward()
optimizer.step()
"""
_PROGRAM = """
import gc, json, sys, time
from leakscope.agent.graph.heap_graph import HeapGraph

def peak_bytes():
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM")) * 1024

MAKE
graph = HeapGraph()
assert graph.refusal is None, graph.refusal
gc.collect()
began_cpu = time.thread_time()
gc.collect()
collection_cpu = time.thread_time() - began_cpu
with open("/proc/self/clear_refs", "w") as stream:
    stream.write("5")  # what the peak was until now is forgotten
before = peak_bytes()
graph.make_room(1 << 40, 1e9)
began, began_cpu = time.perf_counter(), time.thread_time()
read = graph.read(1, 1 << 40, 1 << 40, ())
pause, pause_cpu = time.perf_counter() - began, time.thread_time() - began_cpu
assert read is not None
began_cpu = time.thread_time()
(summary,) = [row for table, row in graph.work_out().rows if table == "heap_graphs"]
later_cpu = time.thread_time() - began_cpu
peak = peak_bytes() - before
graph.make_room(1 << 40, 1e9)
began_cpu = time.thread_time()
graph.read(2, 1 << 40, 1 << 40, ())
next_cpu = time.thread_time() - began_cpu
figures = [summary["node_count"], collection_cpu, pause, pause_cpu, next_cpu, later_cpu, peak, summary["edge_count"]]
print(json.dumps(figures))
"""


def measure(skipped: list[str]) -> Iterator[Figure]:
    yield from _of_lists()
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        nodes, _, _, first_cpu, next_cpu, _, _, edges = _point(_LIBRARIES)
        of = "the graph of torch and transformers"
        yield Figure(f"{of}: objects in it", nodes / 1e3, "thousand", None, None, PER)
        yield Figure(f"{of}: references", edges / 1e3, "thousand", None, None, PER)
        yield Figure(f"{of}: pause, CPU time", first_cpu * 1e3, "ms", None, None, PER)
        millions = edges / 1e6
        what = "next pause, CPU time for each million of references"
        yield Figure(f"{of}: {what}", next_cpu * 1e3 / millions, "ms", LIBRARIES_MS, None, PER)
    else:
        skipped.append("the heap of a process with transformers (not installed)")


def _of_lists() -> Iterator[Figure]:
    points = [_point(_LISTS, count)[:7] for count in COUNTS]
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


def _point(make: str, count: int = 0) -> list[float]:
    """Nodes, CPU time of a collection, pause, its CPU time, that of the next, and afterwards, bytes, references.

    Each a median. ``make``: code that fills the heap.
    """
    runs = [_run(make, count) for _ in range(REPEATS)]
    return [statistics.median(values) for values in zip(*runs)]


def _run(make: str, count: int) -> list[float]:
    program = _PROGRAM.replace("MAKE", make)
    done = subprocess.run([PYTHON, "-c", program, str(count)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:  # a benchmark of failures measures nothing
        raise SystemExit(f"a graph of a heap failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found
