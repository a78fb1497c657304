"""What recording costs a job in wall and CPU time, beside the usual tools on the same work."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leakscope.recorder import answering, finalizing

from .figures import Figure
from .recorders import cost_of
from .runs import PYTHON, TookTooLong, in_pairs, median_ratio, recorded, spent_by

_LESS = 2  # times: jobs without a budget for a minute are as much shorter
_PART = 16  # of the work is done under each peer: some are several times slower
_MOST = 5.0  # times as long as bare: then a peer is stopped, and is said to take more


class Job(NamedTuple):
    """A program that does as many rounds of work as it is told. ``budget``: of its wall time under record;
    ``cpu_budget``: of its CPU time, of a run of a minute.
    """

    name: str
    program: str
    budget: float | None
    needs: str = "sys"
    cpu_budget: float | None = None


TRAINING = Job("training loop", """
import sys, torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 256)
for _ in range(int(sys.argv[1])):
    loss = torch.nn.functional.mse_loss(model(data), data)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""", 1.01, "torch", 1.03)  # fmt: skip
OBJECTS = Job("object churn", """
import sys
class Row:
    def __init__(self, i): self.i, self.name, self.tags = i, str(i), [i, i + 1]
for _ in range(int(sys.argv[1])):
    rows = [Row(i) for i in range(10_000)]
    index = {row.name: row for row in rows}
""", 1.03)  # fmt: skip
LOADER = Job("DataLoader, 2 workers", """
import sys, torch
torch.set_num_threads(1)
class Rows(torch.utils.data.Dataset):
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, i): return torch.full((64,), float(i)).sin().cos().exp()
if __name__ == "__main__":
    for batch in torch.utils.data.DataLoader(Rows(256 * int(sys.argv[1])), batch_size=256, num_workers=2):
        batch.sum()
""", None, "torch")  # fmt: skip
JOBS = (TRAINING, OBJECTS, LOADER)

# Name -> (module, words before the script, environment). {out}: a file of its own.
PEERS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "tracemalloc, 1 frame": ("tracemalloc", [], {"PYTHONTRACEMALLOC": "1"}),
    "memray": ("memray", ["-m", "memray", "run", "-q", "-f", "-o", "{out}"], {}),
    "memray, Python allocators too": (
        "memray", ["-m", "memray", "run", "-q", "-f", "--trace-python-allocators", "-o", "{out}"], {},
    ),
    "Scalene": ("scalene", ["-m", "scalene", "run", "-o", "{out}"], {}),
    "mprof": ("memory_profiler", ["-m", "mprof", "run", "-M", "-C", "-o", "{out}", PYTHON], {}),
    "psrecord": ("psrecord", [], {}),
}  # fmt: skip


def measure(folder: Path, seconds: float, repeats: int, skipped: list[str]) -> Iterator[Figure]:
    peers = {name: peer for name, peer in PEERS.items() if importlib.util.find_spec(peer[0])}
    skipped += [f"{name} (not installed)" for name in PEERS if name not in peers]
    yield from _start_up(folder, max(7, 5 * repeats))
    for job in JOBS:
        if importlib.util.find_spec(job.needs) is None:
            skipped.append(f"{job.name} (no {job.needs})")
            continue
        script = folder / f"{job.needs}-{job.name.split()[0]}.py"
        script.write_text(job.program)
        rounds = _rounds(script, seconds if job.cpu_budget else seconds / _LESS)
        yield from _job(job, [PYTHON, str(script), str(rounds)], folder, repeats if job.budget else 1)
        if job is TRAINING:
            yield _answer(folder / "job.parquet", 2 * repeats + 1)
        rounds = max(1, rounds // _PART)
        plain_s = spent_by([PYTHON, str(script), str(rounds)]).wall_s
        for name in peers:
            what = f"{job.name}: wall time under {name}"
            try:
                yield Figure(what, _under(name, script, rounds, folder, _MOST * plain_s) / plain_s, "× bare")
            except TookTooLong:
                yield Figure(what, _MOST, "× bare", is_least=True)
            except SystemExit as error:
                skipped.append(f"{job.name} under {name} ({str(error).splitlines()[-1]}, bare {plain_s:.1f} s)")


def _start_up(folder: Path, repeats: int) -> Iterator[Figure]:
    command = [PYTHON, "-c", "pass"]
    pairs = in_pairs(command, recorded(command, folder / "pass.parquet"), repeats)
    # Not only the job is faster or slower on another machine, or another day.
    yield Figure("`python -c pass`: wall time bare", statistics.median(plain.wall_s for plain, _ in pairs) * 1e3, "ms")
    for name, field, budget in (("wall", "wall_s", 100.0), ("CPU", "cpu_s", None)):
        added = [getattr(watched, field) - getattr(plain, field) for plain, watched in pairs]
        yield Figure(f"`python -c pass`: {name} time added", statistics.median(added) * 1e3, "ms", budget)
    yield Figure("`python -c pass`: of it before its first statement", _begins_later_ms(folder, repeats), "ms")


def _begins_later_ms(folder: Path, repeats: int) -> float:
    """The rest is finishing the file."""
    program = [PYTHON, "-c", "import time; print(time.monotonic())"]

    def begins_s(command: list[str]) -> float:
        asked_s = time.monotonic()
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) - asked_s

    wrapped = recorded(program, folder / "begin.parquet")
    return statistics.median(begins_s(wrapped) - begins_s(program) for _ in range(repeats)) * 1e3


def _job(job: Job, command: list[str], folder: Path, repeats: int) -> Iterator[Figure]:
    output = folder / "job.parquet"
    pairs = in_pairs(command, recorded(command, output, is_told=True), repeats)
    yield Figure(f"{job.name}: wall time under record", median_ratio(pairs, "wall_s"), "× bare", job.budget)
    with_all = f"{job.name}: CPU time under record, all included"
    yield Figure(with_all, median_ratio(pairs, "cpu_s"), "× bare", job.cpu_budget)
    cost = cost_of(output)
    yield Figure(f"{job.name}: recorder's memory", cost.rss_bytes / 1e6, "MB", 20.0)
    yield Figure(f"{job.name}: recorder's CPU", cost.cpu_fraction * 100, "% of a core", 1.0)


def _answer(output: Path, repeats: int) -> Figure:
    """By the helper of the recorder that is started when a job is over."""

    def cpu_s() -> float:
        helper = subprocess.Popen(
            finalizing.command(answering.HELPER, "now"),
            env={**os.environ, **finalizing.ENVIRON},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert helper.stdin is not None and helper.stdout is not None
        helper.stdin.write(json.dumps(["tell", str(output)]).encode() + b"\n")
        helper.stdin.close()
        if b"answer" not in helper.stdout.read():
            raise SystemExit("there was no answer")
        _, _, usage = os.wait4(helper.pid, 0)
        helper.returncode = 0
        return usage.ru_utime + usage.ru_stime

    return Figure("the answer at the end: CPU time", statistics.median(cpu_s() for _ in range(repeats)), "s", 0.7)


def _rounds(script: Path, seconds: float) -> int:
    """Rounds that take about ``seconds`` of CPU time, from the difference of two runs: start-up is not work. By the
    clock, a busy machine would do less, and what recording costs once would be a larger part of it.
    """
    few, idle_s = 20, spent_by([PYTHON, str(script), "1"]).cpu_s
    while True:
        busy_s = spent_by([PYTHON, str(script), str(few)]).cpu_s
        if busy_s - idle_s > 0.5:
            return max(1, round(few * max(0.1, seconds - idle_s) / (busy_s - idle_s)))
        few *= 4


def _under(name: str, script: Path, rounds: int, folder: Path, most_s: float) -> float:
    _, before, environ = PEERS[name]
    words = [str(script), str(rounds)]
    if name == "psrecord":
        log = str(folder / "psrecord.txt")
        start = "from psrecord.main import main; main()"
        return spent_by([PYTHON, "-c", start, " ".join([PYTHON, *words]), "--log", log], None, most_s).wall_s
    out = str(folder / "peer.out")
    return spent_by([PYTHON, *(word.format(out=out) for word in before), *words], environ, most_s).wall_s
