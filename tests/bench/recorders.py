"""What the recorder itself takes, by the number of processes it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leakscope import open_recording

from .figures import Figure
from .runs import PYTHON, recorded, spent_by

COUNTS = (1, 10, 100, 300, 1000)
FORKS = """
import os, sys, time
ends = time.monotonic() + float(sys.argv[2])
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        time.sleep(max(0.0, ends - time.monotonic()))
        os._exit(0)
time.sleep(max(0.0, ends - time.monotonic()))
"""


class Cost(NamedTuple):
    """What the recorder used, from its own recording: memory at most, CPU per second once it had started."""

    rss_bytes: int
    cpu_fraction: float


def cost_of(output: Path) -> Cost:
    samples = open_recording(output).tables.recorder_samples
    elapsed_s = (samples.time_mono_ns.iloc[-1] - samples.time_mono_ns.iloc[0]) / 1e9
    used_s = samples.cpu_s.iloc[-1] - samples.cpu_s.iloc[0]
    return Cost(int(samples.rss_bytes.max()), float(used_s / elapsed_s) if elapsed_s > 0 else 0.0)


def measure(folder: Path, seconds: float) -> Iterator[Figure]:
    """One sample a second, whatever it costs. The processes sleep; without agents, so that only the recorder works."""
    output = folder / "forks.parquet"
    memory, cpu = [], []
    for count in COUNTS:
        command = [PYTHON, "-c", FORKS, str(count), str(seconds)]
        spent_by(recorded(command, output, "--interval", "1s", "--agent", "off"))
        cost = cost_of(output)
        memory.append(Figure("recorder's memory", cost.rss_bytes / 1e6, "MB", 20.0, count, "processes"))
        budget = max(1.0, count / 20)  # 1 % for 20, linear from there
        cpu.append(Figure("recorder's CPU at 1 Hz", cost.cpu_fraction * 100, "% of a core", budget, count, "processes"))
    yield from memory + cpu
