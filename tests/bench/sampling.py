"""What sampling allocations costs a program: the same loop in two processes by turns, of which one samples.

Each round is timed by the CPU time of the whole process, so that the sampler's own thread counts, and compared with
the other's, right beside it: a machine that gets slower slows both. The median of many pairs is told, against that of
pairs in which neither samples: two processes are never quite alike. ``armed``: with Python's small objects wrapped,
which is done for a tenth of the time, and only while these grow.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .figures import Figure
from .runs import PYTHON, ROOT

RESULTS = Path(__file__).with_name("sampling.json")
PER = "loop"
TRAINING, CHURN, MEMORY_MB = 1.01, 1.03, 4.0  # budgets
SHARE_ARMED = 0.1
_HEAD = """
import json, os, statistics, sys, threading, time
from leakscope.agent.allocations.sampler import OBJECT_SAMPLE_BYTES, Sampler

def objects():
    class Node:
        __slots__ = "number", "text"
    for number in range(150_000):
        node = Node()
        node.number = [number]
        node.text = str(number)

def buffers():
    for _ in range(150_000):
        bytearray(2000)
    [bytearray(700) for _ in range(50_000)]

def training():
    import torch
    global model, optimizer, batch
    if "model" not in globals():
        torch.set_num_threads(1)
        layers = [torch.nn.Linear(256, 256) for _ in range(6)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.Adam(model.parameters())
        batch = torch.randn(128, 256)
    for _ in range(25):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096

def round_s():
    began = time.process_time()
    loop()
    return time.process_time() - began

loop, rounds = globals()[sys.argv[1]], int(sys.argv[2])
ask, asked = os.pipe(), os.pipe()
if not os.fork():
    os.close(ask[1])
    while os.read(ask[0], 1):
        os.write(asked[1], json.dumps(round_s()).encode())
    os._exit(0)
os.close(ask[0])

def bare_s():
    os.write(ask[1], b".")
    return json.loads(os.read(asked[0], 100))

def ratio():
    pairs = [(bare_s(), round_s()) if turn % 2 else (round_s(), bare_s())[::-1] for turn in range(rounds)]
    return statistics.median(own / bare for bare, own in pairs)

for _ in range(3):
    bare_s(), round_s()
alike = ratio()
before = resident()
sampler = Sampler()
stop = threading.Event()
def tick():
    sampler.load()
    sampler.begin()
    assert sampler.is_on, sampler.refusal
    while not stop.wait(0.5):
        sampler.tick(None)
        sampler.rows()
thread = threading.Thread(target=tick)
thread.start()
while not sampler.is_on:
    time.sleep(0.01)
round_s()
sampled = ratio()
grown = resident() - before
assert sampler._held.sampler_arm(OBJECT_SAMPLE_BYTES)
armed = ratio()
sampler._held.sampler_disarm()
stop.set()
thread.join()
print(json.dumps([alike, sampled / alike, armed / alike, grown]))
"""


def measure(skipped: list[str]) -> Iterator[Figure]:
    loops: list[tuple[str, str, float | None]] = [
        ("training loop", "training", TRAINING),
        ("objects made and dropped", "objects", CHURN),
    ]
    loops.append(("nothing but buffers of 700 and 2,000 bytes", "buffers", None))
    if not importlib.util.find_spec("torch"):
        skipped.append("sampling in a training loop (no torch)")
        del loops[0]
    memory = 0.0
    for name, function, budget in loops:
        alike, sampled, armed, grown = _run(function)
        memory = max(memory, grown / 1e6)
        yield Figure(f"{name}: CPU time of two that do not sample", alike, "× bare", None, None, PER)
        yield Figure(f"{name}: CPU time, sampled", sampled, "× bare", budget, None, PER)
        yield Figure(f"{name}: CPU time, with Python's small objects", armed, "× bare", None, None, PER)
        mean = (1 - SHARE_ARMED) * sampled + SHARE_ARMED * armed
        yield Figure(f"{name}: CPU time, with these a tenth of the time", mean, "× bare", budget, None, PER)
    yield Figure("memory that sampling takes", memory, "MB", MEMORY_MB, None, PER)


def _run(function: str, rounds: int = 25) -> list[float]:
    done = subprocess.run([PYTHON, "-c", _HEAD, function, str(rounds)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sampling {function} failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found
