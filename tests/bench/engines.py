"""``python -m tests.bench.engines``: the same reports by every engine that is installed, side by side, as a table.

A seeded fleet of small recordings is made first. Each engine runs in a process of its own, with two workers here.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil

from leakscope.engines import ENGINES, EXTRAS
from tests.comparing.runs import MiB, run

_DISTINCT = 20  # recordings that are made; the others are copies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="recordings")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--engines", nargs="*", default=[e for e in ENGINES if _is_here(e)])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet"
        _make(fleet, given.count, given.seed)
        size = sum(file.stat().st_size for file in fleet.iterdir()) / MiB
        print(f"{given.count} recordings, {size:.1f} MiB, {given.workers} workers, {datetime.date.today()}, "
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")  # fmt: skip
        print("| engine | start to end | CPU in all | of that, for the first | for each more | same rows |")
        print("|---|---|---|---|---|---|")
        first: pd.DataFrame | None = None
        for engine in given.engines:
            _, start_s = _timed(engine, min(fleet.iterdir()), given.workers, Path(folder) / "one.parquet")
            wall_s, cpu_s = _timed(engine, fleet, given.workers, Path(folder) / f"{engine}.parquet")
            rows = pd.read_parquet(Path(folder) / f"{engine}.parquet")
            first = rows if first is None else first
            each_ms = 1000 * (cpu_s - start_s) / (given.count - 1)
            cells = f"{wall_s:.0f} s | {cpu_s:.1f} s | {start_s:.1f} s | {each_ms:.0f} ms"
            print(f"| {engine} | {cells} | {'yes' if rows.equals(first) else 'NO'} |", flush=True)


def _is_here(engine: str) -> bool:
    return engine not in EXTRAS or importlib.util.find_spec(EXTRAS[engine]) is not None


def _make(folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(min(_DISTINCT, count)):
        leak = dice.choice([0.0, 0.0, 0.0, 0.5 * MiB])
        run(folder, f"run.rank{number}.parquet", leak_per_step=leak, seed=number, noise=dice.random() * MiB).write()
    for number in range(_DISTINCT, count):
        shutil.copy(folder / f"run.rank{number % _DISTINCT}.parquet", folder / f"run.rank{number}.parquet")


def _timed(engine: str, what: Path, workers: int, output: Path) -> tuple[float, float]:
    """Seconds from start to end, and CPU seconds of all the processes that there were."""
    command = [sys.executable, "-m", "leakscope", "fleet", "analyze", str(what), "-q", "-o", str(output)]
    began = time.monotonic()
    with subprocess.Popen([*command, "--engine", engine, "--workers", str(workers)]) as child:
        cpu_s = cpu_of_all(child.pid)
        if child.wait():
            raise SystemExit(f"{engine} failed")
    return time.monotonic() - began, cpu_s


def cpu_of_all(pid: int) -> float:
    """CPU seconds of a process and all below it, by a look every half second until it ends."""
    spent: dict[int, float] = {}
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    spent[process.pid] = times.user + times.system
            time.sleep(0.5)
    except psutil.NoSuchProcess:
        pass
    return sum(spent.values())


if __name__ == "__main__":
    main()
