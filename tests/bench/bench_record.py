"""What recording costs a job, beside the budgets: ``python tests/bench/bench_record.py [--seconds 60] [--json]``.

Each workload does a fixed amount of work, sized once so that it takes about ``--seconds`` bare, and runs bare and
recorded in turn, so that a machine that gets slower in between slows both. The result is the median of the pairs'
ratios, since seconds of different machines compare to nothing. Peers (tracemalloc; memray where installed) run once
beside the objects workload, to show what hooks on allocations cost. Runs under default settings, takes included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leakscope import open_recording

OBJECTS = """
import sys
class Row:
    def __init__(self, i): self.i, self.name, self.tags = i, str(i), [i, i + 1]
def work(rounds):
    for _ in range(rounds):
        rows = [Row(i) for i in range(10_000)]
        index = {row.name: row for row in rows}
work(int(sys.argv[1]))
"""
TORCH = """
import sys, torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 256)
for _ in range(int(sys.argv[1])):
    loss = torch.nn.functional.mse_loss(model(data), data)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
PROCESSES = """
import os, sys, time
shared = bytearray(100_000_000)
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        own = bytearray(2_000_000)
        time.sleep(float(sys.argv[2]))
        os._exit(0)
time.sleep(float(sys.argv[2]))
"""
PASS = "pass"
WORKLOADS = ("start", "torch", "objects", "processes")


class Result(NamedTuple):
    """One line of the table; ``budget`` None is a figure for comparison only."""

    what: str
    value: float
    unit: str
    budget: float | None
    bare: float | None = None

    @property
    def kept(self) -> bool | None:
        return None if self.budget is None else self.value <= self.budget


class Spent(NamedTuple):
    """What one run took; the CPU time is that of all its processes, and hardly depends on what else is running."""

    wall_s: float
    cpu_s: float


class Cost(NamedTuple):
    """What the recorder itself used, from its own recording."""

    rss_bytes: int
    cpu_fraction: float


def bare(program: str, rounds: int) -> list[str]:
    return [sys.executable, "-c", program, str(rounds)]


def recorded(program: str, rounds: int, output: Path) -> list[str]:
    record = [sys.executable, "-m", "leakscope", "record", "--quiet", "--force", "-o", str(output), "--"]
    return record + bare(program, rounds)


def spent_by(command: Sequence[str], environ: dict[str, str] | None = None) -> Spent:
    """One run of a command. **Errors** SystemExit if it fails: a benchmark of failures measures nothing."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    child = subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    elapsed_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        raise SystemExit(f"{command[:3]} failed:\n{child.stderr.decode(errors='replace')}")
    return Spent(elapsed_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def seconds_of(command: Sequence[str], environ: dict[str, str] | None = None) -> float:
    """Wall time of one run."""
    return spent_by(command, environ).wall_s


def rounds_for(program: str, seconds: float) -> int:
    """Rounds that take about ``seconds``, from the difference of two runs: start-up is not work."""
    few = 20
    while True:
        idle_s, busy_s = seconds_of(bare(program, 1)), seconds_of(bare(program, few))
        if busy_s - idle_s > 0.5:
            return max(1, round(few * max(0.1, seconds - idle_s) / (busy_s - idle_s)))
        few *= 4


def in_pairs(bare_run: Sequence[str], recorded_run: Sequence[str], repeats: int) -> list[tuple[Spent, Spent]]:
    """Cost of both, one right after the other; every other pair in reverse, so that neither always goes first."""
    pairs = []
    for repeat in range(repeats):
        if repeat % 2 == 0:
            plain = spent_by(bare_run)
            pairs.append((plain, spent_by(recorded_run)))
        else:
            watched = spent_by(recorded_run)
            pairs.append((spent_by(bare_run), watched))
    return pairs


def start_up(folder: Path, repeats: int) -> list[Result]:
    pairs = in_pairs(bare(PASS, 1), recorded(PASS, 1, folder / "pass.parquet"), repeats)
    added_s = statistics.median(watched.wall_s - plain.wall_s for plain, watched in pairs)
    return [
        Result("until python -c pass begins to run", _begins_later_ms(folder), "ms added", None),
        Result("start-up: python -c pass", added_s * 1e3, "ms added", 150.0, _bare_s(pairs)),
    ]


def _begins_later_ms(folder: Path, repeats: int = 7) -> float:
    """The part of it that comes before the program's first statement: the rest is finishing the file."""

    def begins_s(*before: str) -> float:
        program = "import time; print(time.monotonic())"
        asked_s = time.monotonic()
        done = subprocess.run([*before, sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(done.stdout) - asked_s

    wrapper = [sys.executable, "-m", "leakscope", "record", "-f", "-q", "-o", str(folder / "begin.parquet"), "--"]
    return statistics.median(begins_s(*wrapper) - begins_s() for _ in range(repeats)) * 1e3


def workload(name: str, program: str, budget: float, folder: Path, options: argparse.Namespace) -> list[Result]:
    output = folder / f"{name}.parquet"
    rounds = rounds_for(program, options.seconds)
    pairs = in_pairs(bare(program, rounds), recorded(program, rounds, output), options.repeats)
    wall_ratio = statistics.median(watched.wall_s / plain.wall_s for plain, watched in pairs)
    cpu_ratio = statistics.median(watched.cpu_s / plain.cpu_s for plain, watched in pairs)
    cost = cost_of(output)
    results = [
        Result(f"{name}: wall time under record", wall_ratio, "x bare", budget, _bare_s(pairs)),
        Result(f"{name}: CPU time, recorder included", cpu_ratio, "x bare", None),
        Result(f"{name}: recorder's memory", cost.rss_bytes / 1e6, "MB", 20.0),
        Result(f"{name}: recorder's CPU", cost.cpu_fraction * 100, "% of a core", 1.0),
    ]
    return results + (peers(name, program, rounds, folder) if options.peers and name == "objects" else [])


def many_processes(folder: Path, count: int, seconds: float) -> list[Result]:
    """What the recorder itself takes for ``count`` processes at one sample a second, their start left out."""
    output = folder / "processes.parquet"
    record = [sys.executable, "-m", "leakscope", "record", "--quiet", "--interval", "1s", "-o", str(output), "--"]
    spent_by([*record, sys.executable, "-c", PROCESSES, str(count), str(seconds)])
    cost = cost_of(output)
    return [
        Result(f"{count} processes: recorder's memory", cost.rss_bytes / 1e6, "MB", 20.0),
        Result(f"{count} processes: recorder's CPU", cost.cpu_fraction * 100, "% of a core", 5.0),
    ]


def _bare_s(pairs: Sequence[tuple[Spent, Spent]]) -> float:
    return statistics.median(plain.wall_s for plain, _ in pairs)


def cost_of(output: Path) -> Cost:
    """The recorder's largest memory and its CPU per second of recording."""
    samples = open_recording(output).tables.recorder_samples
    elapsed_s = (samples.time_mono_ns.iloc[-1] - samples.time_mono_ns.iloc[0]) / 1e9
    used_s = samples.cpu_s.iloc[-1] - samples.cpu_s.iloc[0]
    return Cost(int(samples.rss_bytes.max()), float(used_s / elapsed_s) if elapsed_s > 0 else 0.0)


def peers(name: str, program: str, rounds: int, folder: Path) -> list[Result]:
    """The same work under the usual tools; a quarter of it, since some of them are several times slower."""
    part = max(1, rounds // 4)
    (script := folder / f"{name}.py").write_text(program)
    tracing = {**os.environ, "PYTHONTRACEMALLOC": "1"}
    ratios = {"tracemalloc, 1 frame": seconds_of(bare(program, part), tracing)}
    if importlib.util.find_spec("memray"):
        memray = [sys.executable, "-m", "memray", "run", "-q", "-f", "-o", str(folder / "memray.bin"), str(script)]
        ratios["memray"] = seconds_of([*memray, str(part)])
        ratios["memray, Python allocators too"] = seconds_of(
            [*memray[:4], "--trace-python-allocators", *memray[4:], str(part)]
        )
    part_s = seconds_of(bare(program, part))
    return [Result(f"{name}: under {peer}", s / part_s, "x bare", None, part_s) for peer, s in ratios.items()]


def as_table(results: Sequence[Result]) -> str:
    lines = [f"{'what':44} {'value':>9} {'':12} {'budget':>9}  kept", "-" * 84]
    for r in results:
        digits = 3 if r.unit == "x bare" else 1
        budget = "" if r.budget is None else f"<= {r.budget:g}"
        kept = {None: "", True: "yes", False: "NO"}[r.kept]
        lines.append(f"{r.what:44} {r.value:9.{digits}f} {r.unit:12} {budget:>9}  {kept}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="bare length of a workload (default 60)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each workload, bare and recorded (default 3)")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="repeatable")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave out tracemalloc and memray")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    wanted = options.only or WORKLOADS
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        if "start" in wanted:
            results += start_up(Path(folder), max(15, options.repeats))
        if "torch" in wanted and importlib.util.find_spec("torch"):
            results += workload("torch", TORCH, 1.01, Path(folder), options)
        if "objects" in wanted:
            results += workload("objects", OBJECTS, 1.03, Path(folder), options)
        if "processes" in wanted:
            results += many_processes(Path(folder), 200, options.seconds)
    document: list[dict[str, Any]] = [{**r._asdict(), "kept": r.kept} for r in results]
    print(json.dumps(document, indent=1) if options.json else as_table(results))


if __name__ == "__main__":
    main()
