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
import shutil
import subprocess
import tempfile
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
    sampler.load(0)
    begun = threading.Event()
    def tick():  # on a thread of its own, as the agent does: what that thread asks for is left out
        sampler.begin()
        begun.set()
        while True:
            sampler.tick(None)
            sampler.rows()
            time.sleep(0.5)
    threading.Thread(target=tick, daemon=True).start()
    begun.wait()
    assert sampler.is_on, sampler.refusal
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


# Of C, since what Python adds to a call takes longer than what is measured. It says how long a pair of calls took: of
# CPU time, the least of some rounds.
_PAIRS_OF_C = """
#include <stdlib.h>
#include <time.h>
double pair_ns(size_t bytes, long count) {
    struct timespec began, ended;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    for (long at = 0; at < count; at++) {
        void *volatile block = malloc(bytes);
        free(block);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    return ((ended.tv_sec - began.tv_sec) * 1e9 + ended.tv_nsec - began.tv_nsec) / count;
}
"""
# Such blocks are too small for a sample in a round, but for one or two; of these each has one: malloc has them at hand.
SMALL_BYTES, SAMPLED_BYTES = 16, 16 << 20
_MALLOCS = """
import ctypes, json, sys, threading
from leakscope.agent.allocations.sampler import Sampler
library = ctypes.CDLL(sys.argv[1])
pair_ns = library.pair_ns
pair_ns.restype, pair_ns.argtypes = ctypes.c_double, [ctypes.c_size_t, ctypes.c_long]
libc = ctypes.CDLL(None)
libc.mallopt(-3, 1 << 30), libc.mallopt(-1, 1 << 30)  # from the heap, which keeps them
def least():
    return [min(pair_ns(size, count) for _ in range(15)) for size, count in (SIZES)]
bare = least()
sampler = Sampler()
sampler.load(0)
beginning = threading.Thread(target=sampler.begin)  # the thread that does it is left out
beginning.start(), beginning.join()
assert sampler.is_on, sampler.refusal
found = least()
assert sampler.figures()["drawn"] >= 15 * 2_000, sampler.figures()
print(json.dumps([bare, found]))
"""


def measure(skipped: list[str]) -> Iterator[Figure]:
    yield from _mallocs(skipped)
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


def _mallocs(skipped: list[str]) -> Iterator[Figure]:
    """Nanoseconds that a malloc and its free take more: where nothing is sampled, and where each is."""
    if shutil.which("cc") is None:
        skipped.append("nanoseconds a malloc (no C compiler)")
        return
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name, "pairs.c"), Path(name, "libpairs.so")
        source.write_text(_PAIRS_OF_C)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        program = _MALLOCS.replace("SIZES", f"({SMALL_BYTES}, 500_000), ({SAMPLED_BYTES}, 2_000)")
        done = subprocess.run([PYTHON, "-c", program, str(library)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"mallocs failed:\n{done.stderr}")
    (small, large), (passed_by, sampled) = json.loads(done.stdout)
    yield Figure("a malloc and its free: bare", small, "ns", None, None, PER)
    yield Figure("a malloc and its free: added where no sample is due", passed_by - small, "ns", None, None, PER)
    yield Figure("a malloc and its free: added where one is taken", sampled - large, "ns", None, None, PER)


def _run(function: str, pairs: int = 20) -> list[float]:
    hidden = dict(os.environ, CUDA_VISIBLE_DEVICES="")  # what torch does for devices does not survive a fork
    command = [PYTHON, "-W", "ignore", "-c", _HEAD, function, str(pairs)]
    done = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sampling {function} failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found
