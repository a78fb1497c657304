"""A fleet that never was: ordinary recordings of jobs, a service and nightly runs, with planted faults and their truth.

``leakscope fleet demo`` writes it, to try the other commands on. What is in it lies in ``demo.json.gz``, which the
tests' generator made (``python -m tests.fleet.synthetic``). The samples are drawn by a seed, and a footer says
what a report of the whole run would have said: the rows of the agent are not there. The bytes are the same each time.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engines import map_over
from ..errors import BadInput
from ..storage.columnar import write_recording
from ..units import GiB, MiB

FLEET = Path(__file__).with_name("demo.json.gz")
SEED = 1
_INTERVAL_S = 10.0
_WHOLE_PROCESSES, _FEW_PROCESSES, _FEW_SAMPLES = 10, 3, 20
_BOOT_NS = 40_000_000_000_000
_FIRST_PID = 4000
_WARM_UP = 0.05  # of the run, at most 10 minutes


@dataclass
class Node:
    """A machine of the fleet."""

    name: str
    driver: str
    gpu_name: str
    limit_bytes: int


@dataclass
class Run:
    """One recording to be; ``findings`` are as a footer has them. ``limit_bytes`` None: that of its node."""

    path: str
    command: list[str]
    node: Node
    started_unix_s: float
    duration_s: float
    level_bytes: float
    gpu_peak_bytes: int | None
    belongs: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    growth_bytes_per_hour: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)
    killed: bool = False
    cannot_tell: bool = False
    judged: bool = True
    fate: str = "final"  # or unfinished, torn, lost
    limit_bytes: int | None = None

    def __post_init__(self) -> None:
        self.limit_bytes = self.limit_bytes or self.node.limit_bytes

    @property
    def job(self) -> str:
        return str(self.belongs["job"])

    @property
    def rank(self) -> int | None:
        found: int | None = self.belongs.get("rank")
        return found


def demo(folder: Path, *, is_whole: bool = False) -> tuple[int, int]:
    """Write the fleet below ``folder``: how many recordings it has, and how many faults, which truth.json names.

    ``is_whole``: with every sample of ten processes, not 20 samples of three. **Errors** BadInput for a folder that has
    something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there already: name a folder that is not, or is empty")
    fleet = json.loads(gzip.decompress(FLEET.read_bytes()))
    runs = [Run(**{**run, "node": Node(**fleet["nodes"][run["node"]])}) for run in fleet["runs"]]
    for parent in {(folder / run.path).parent for run in runs}:
        parent.mkdir(parents=True, exist_ok=True)
    one = partial(
        write_one, folder=folder, interval_s=_INTERVAL_S, seed=SEED,
        processes=_WHOLE_PROCESSES if is_whole else _FEW_PROCESSES, most_samples=None if is_whole else _FEW_SAMPLES,
    )  # fmt: skip
    for _ in map_over(one, runs):
        pass
    (folder / "truth.json").write_text(json.dumps(fleet["truth"], indent=1) + "\n", encoding="utf-8")
    return len(runs), len(fleet["truth"]["faults"])


def write_one(
    run: Run, folder: Path, interval_s: float, processes: int, seed: int, most_samples: int | None = None
) -> None:
    """``most_samples``: of each process, evenly chosen."""
    path = folder / run.path
    rng = np.random.default_rng([seed, 3, zlib.crc32(run.path.encode())])
    if run.fate == "unfinished":
        _write_journal(path, run)
        return
    count = max(3, int(run.duration_s / interval_s))
    count = min(count, most_samples) if most_samples else count
    at_s = np.linspace(0.5, run.duration_s - 0.5, count)
    sizes = held(run, at_s, processes, rng)
    tables = {
        "process_samples": _samples(run, at_s, sizes, rng),
        "processes": _processes(run, processes),
        "cgroup_samples": _cgroup(run, at_s, sizes.sum(axis=0)),
        "events": _events(run),
    }
    write_recording(path, tables, footer(run, sizes.sum(axis=0), interval_s, processes))
    if run.fate == "torn":
        with open(path, "r+b") as stream:
            stream.truncate(os.path.getsize(path) // 2)


def held(run: Run, at_s: Any, processes: int, rng: np.random.Generator) -> Any:
    """Bytes of each process at each moment: a warm-up, a level, what leaks, and noise. The first is the trainer."""
    share = np.concatenate([[1.0], np.full(processes - 1, 0.06)])
    share /= share.sum()
    warm = min(600.0, _WARM_UP * run.duration_s) / 3
    shape = 1 - 0.6 * np.exp(-at_s / warm)
    found = run.level_bytes * share[:, None] * shape * (1 + rng.normal(0, 0.0015, (processes, len(at_s))))
    found[0] += run.growth_bytes_per_hour * at_s / 3600
    found = np.maximum(found, 4 * MiB)
    if run.killed and run.limit_bytes:  # by what the limit is: the samples stay below it
        found *= np.minimum(1.0, run.limit_bytes / found.sum(axis=0))
    return found.astype(np.int64)


def _clocks(run: Run, at_s: Any) -> dict[str, Any]:
    offset = (np.asarray(at_s) * 1e9).astype(np.int64)
    boot = _BOOT_NS + (zlib.crc32(run.node.name.encode()) << 12)  # each node was started at another time
    return {
        "time_unix_ns": int(run.started_unix_s * 1e9) + offset,
        "time_mono_ns": boot + offset,
        "time_boot_ns": boot + offset,
    }


def _start_mono_ns(run: Run) -> int:
    return int(_clocks(run, [0.0])["time_mono_ns"][0])


def _samples(run: Run, at_s: Any, held: Any, rng: np.random.Generator) -> dict[str, Any]:
    processes, count = held.shape
    clocks = {name: np.tile(values, processes) for name, values in _clocks(run, at_s).items()}
    pids = np.repeat(np.arange(_FIRST_PID, _FIRST_PID + processes), count)
    anon = held.reshape(-1)
    file = np.full(anon.shape, 180 * MiB)
    busy = np.repeat(np.concatenate([[0.97], np.full(processes - 1, 0.3)]), count)
    return {
        **clocks,
        "pid": pids,
        "start_ticks": pids * 100,
        "rss_bytes": anon + file,
        "anon_bytes": anon,
        "file_bytes": file,
        "shmem_bytes": np.zeros(anon.shape, np.int64),
        "swap_bytes": np.zeros(anon.shape, np.int64),
        "virtual_bytes": anon + 9 * GiB,
        "thread_count": np.full(anon.shape, 12),
        "cpu_s": np.round(busy * np.tile(at_s, processes), 2),
        "state": np.where(rng.random(anon.shape) < 0.8, "R", "S"),
    }


def _processes(run: Run, processes: int) -> dict[str, Any]:
    pids = np.arange(_FIRST_PID, _FIRST_PID + processes)
    command = " ".join(run.command)
    ended = run.fate != "lost"
    died = _start_mono_ns(run) + int(run.duration_s * 1e9)
    return {
        **_clocks(run, np.full(processes, 0.1)),
        "pid": pids,
        "start_ticks": pids * 100,
        "ppid": [_FIRST_PID - 1] + [_FIRST_PID] * (processes - 1),
        "comm": ["python"] * processes,
        "cmdline": [command] * processes,
        "role": ["trainer"] + ["dataloader-worker"] * (processes - 1),
        "rank": [run.rank] * processes,
        "cgroup": ["/job"] * processes,
        "born_mono_ns": [_start_mono_ns(run)] * processes,
        "died_mono_ns": [died if ended else None] * processes,
        "exit_code": [None if run.killed or not ended else 0] * processes,
        "exit_signal": [9 if run.killed else None] + [None] * (processes - 1),
        "is_root": [True] + [False] * (processes - 1),
    }


def _cgroup(run: Run, at_s: Any, total: Any) -> dict[str, Any]:
    few = np.unique(np.linspace(0, len(at_s) - 1, min(len(at_s), 60)).astype(int))
    kills = np.zeros(len(few), np.int64)
    kills[-1] = int(run.killed)
    return {
        **_clocks(run, at_s[few]),
        "cgroup": ["/job"] * len(few),
        "current_bytes": total[few] + 300 * MiB,
        "limit_bytes": [run.limit_bytes] * len(few),
        "oom_kill_count": kills,
    }


def _events(run: Run) -> dict[str, Any]:
    last = [] if run.fate == "lost" else [run.duration_s]
    events = ["start", *["end" for _ in last]]
    return {
        **_clocks(run, [0.0, *last]),
        "event": events,
        "pid": [_FIRST_PID] * len(events),
        "start_ticks": [_FIRST_PID * 100] * len(events),
        "text": ["recording began", "the command ended"][: len(events)],
        "value": [None, -9.0 if run.killed else 0.0][: len(events)],
    }


def meta(run: Run) -> dict[str, Any]:
    """What is known of it from the beginning."""
    started = datetime.fromtimestamp(int(run.started_unix_s), timezone.utc)
    return {
        "command": run.command,
        "cwd": "/srv/train",
        "host": run.node.name,
        "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "start_unix_ns": int(run.started_unix_s * 1e9),
        "start_mono_ns": _start_mono_ns(run),
        "leakscope_version": "0.1.0",
        "labels": run.labels,
        "belongs": run.belongs,
    }


def footer(run: Run, total: Any, interval_s: float, processes: int) -> dict[str, Any]:
    """What is known of it: ``total`` bytes of all processes at each moment."""
    lost = run.fate == "lost"
    ended = ["lost", None, None] if lost else ["signal", None, 9] if run.killed else ["exit", 0, None]
    said = {
        **meta(run),
        "complete": not lost,
        "notes": ["the recorder did not end in order: the last seconds before its end may be missing"] if lost else [],
        "ended": ended,
        "last_mono_ns": _start_mono_ns(run) + int(run.duration_s * 1e9),
        "options": {"interval_s": interval_s},
        "figures": _figures(run, total, ended, processes),
    }
    return {**said, "verdict": _verdict(run)} if run.judged else said


def _figures(run: Run, total: Any, ended: list[Any], processes: int) -> dict[str, Any]:
    figures = {
        "duration_s": round(run.duration_s, 1),
        "ended": "oom-killed" if run.killed else ended[0],
        "exit_code": ended[1],
        "signal": ended[2],
        "peak_bytes": int(total.max()),
        "end_bytes": int(total[-1]),
        "limit_bytes": run.limit_bytes,
        "steps": int(run.duration_s / 0.8),
        "process_count": processes,
    }
    if run.gpu_peak_bytes is None:
        return figures
    gpu = {"gpu_name": run.node.gpu_name, "gpu_driver": run.node.driver, "gpu_peak_bytes": run.gpu_peak_bytes}
    return {**figures, "gpu_count": 1, **gpu}


def _verdict(run: Run) -> dict[str, Any]:
    rate = run.growth_bytes_per_hour
    leaks = rate > 0
    leaking = True if leaks else None if run.cannot_tell else False
    drift = 0.0 if leaks else float(zlib.crc32(run.path.encode()) % 2000 - 1000) * 1024
    words = {True: "Memory leaks", False: "No leak", None: "Cannot tell whether memory leaks"}
    per_hour = rate or drift
    left = (run.limit_bytes or 0) - run.level_bytes - rate * run.duration_s / 3600
    return {
        "leaking": leaking,
        "killed": run.killed,
        "headline": f"{words[leaking]}: {run.findings[0]['title']}" if run.findings else words[leaking],
        "growth_bytes": int(per_hour * run.duration_s / 3600),
        "growth_bytes_per_hour": per_hour,
        "growth_bytes_per_step": per_hour * 0.8 / 3600,
        "limit": "cgroup" if run.limit_bytes else None,
        "seconds_to_limit": max(0.0, left / rate * 3600) if leaks else None,
        "findings": run.findings,
    }


def _write_journal(path: Path, run: Run) -> None:
    """What is left of a recorder whose node went away."""
    journal = path.with_name(path.name + ".journal")
    journal.mkdir(exist_ok=True)
    (journal / "meta.json").write_text(json.dumps({"format_version": 2, **meta(run)}), encoding="utf-8")
