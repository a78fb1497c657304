"""What sampling allocations costs a program: the same loop in two processes by turns, of which one samples.

Each round is timed by the CPU time of the whole process, so that the sampler's own thread counts, and compared with
the other's, right beside it: a machine that gets slower slows both. Two processes are never quite alike (which pages
they got is worth 3 %, for as long as they live), so there are many pairs of them, each pair forked anew, and the median
of all is told; pairs in which neither samples say how exact that is. ``armed``: with Python's small objects wrapped,
which is done for a tenth of the time, and only while these grow.
"""

from __future__ import annotations

import importlib.util
import json
import os
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

def resident():  # without files, whose pages a fork has to find anew
    with open("/proc/self/statm") as stream:
        _, resident, shared, *_ = map(int, stream.read().split())
    return (resident - shared) * 4096

def round_s():
    began = time.process_time()
    loop()
    return time.process_time() - began

loop, pairs = globals()[sys.argv[1]], int(sys.argv[2])

def sample():
    sampler = Sampler()
    sampler.load()
    sampler.begin()
    assert sampler.is_on, sampler.refusal
    def tick():
        while True:
            sampler.tick(None)
            sampler.rows()
            time.sleep(0.5)
    threading.Thread(target=tick, daemon=True).start()
    return sampler

class Process:
    # A fork of this one that runs a round when it is asked to.

    def __init__(self, way):
        ask, asked = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(ask[1])
            before = resident()
            if way != "bare":
                sampler = sample()
            if way == "armed":
                assert sampler._held.sampler_arm(OBJECT_SAMPLE_BYTES)
            while os.read(ask[0], 1):
                os.write(asked[1], json.dumps([round_s(), resident() - before]).encode())
            os._exit(0)
        os.close(ask[0])
        os.close(asked[1])
        self.asking, self.answers = ask[1], asked[0]

    def round(self):
        os.write(self.asking, b".")
        return json.loads(os.read(self.answers, 100))

    def end(self):
        os.close(self.asking)
        os.close(self.answers)
        os.waitpid(self.pid, 0)

def ratio(way, rounds=4):
    one, other = Process("bare"), Process(way)
    one.round(), other.round()
    taken = [(one.round(), other.round()) if turn % 2 else (other.round(), one.round())[::-1] for turn in range(rounds)]
    other.end(), one.end()  # the younger has the ends of the pipes of the elder
    return sum(own for _, (own, _) in taken) / sum(bare for (bare, _), _ in taken), taken[-1][1][1] - taken[-1][0][1]

loop()
found = {way: [] for way in ("bare", "sampled", "armed")}
for _ in range(pairs):
    for way in found:
        found[way].append(ratio(way))
alike, sampled, armed = (statistics.median(ratio for ratio, _ in found[way]) for way in found)
print(json.dumps([alike, sampled, armed, statistics.median(grown for _, grown in found["sampled"])]))
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


def _run(function: str, pairs: int = 20) -> list[float]:
    hidden = dict(os.environ, CUDA_VISIBLE_DEVICES="")  # what torch does for devices does not survive a fork
    command = [PYTHON, "-W", "ignore", "-c", _HEAD, function, str(pairs)]
    done = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sampling {function} failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found
