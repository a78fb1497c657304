"""Pairs of runs: a trainer that leaks so much a step, faster or slower, with or without counted steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.builders import RecordingBuilder

MiB = 1024**2
PID = 4242
_LOADED = 12 * MiB
_AT_END_S = 2.0
KEPT = {
    "path": "main() trainer.history",
    "root_kind": "frame",
    "edge_kind": "attribute",
    "variable": "history",
    "owner": "Trainer",
    "owner_module": "__main__",
    "is_user": True,
    "type_name": "list",
}

TRAIN = "class Trainer:\n    def step(self, x):\n        self.history.append(x)\n"


def run(
    folder: Path,
    name: str = "run.parquet",
    *,
    leak_per_step: float = 0.0,
    steps_per_s: float = 10.0,
    duration_s: float = 30.0,
    level: float = 200 * MiB,
    noise: float = 0.0,
    seed: int = 0,
    counts_steps: bool = True,
    file: str = "/home/me/train.py",
    line: int = 10,
    workers: int = 0,
    first_step: int = 1,
    signal: int | None = None,
    exit_code: int = 0,
    source: str | None = TRAIN,
    loads_s: float = 0.0,
    at_end: float = 0.0,
    cpu_share: float | None = None,
    **meta: Any,
) -> RecordingBuilder:
    """A run; ``folder`` is made. Its list ``Trainer.history`` holds what it leaks. ``source``: of its program.

    ``loads_s``: so long it loads, 12 MiB a second; ``at_end``: bytes more in its last two seconds, without a step;
    ``cpu_share``: of the time it computes.
    """
    folder.mkdir(exist_ok=True)
    builder = RecordingBuilder(folder, name, **meta).process(PID, cmdline=f"python3 {file}")
    seconds = np.arange(0, duration_s, 0.25)
    shake = np.random.default_rng(seed).normal(0, noise, seconds.size)
    held = level + leak_per_step * steps_per_s * seconds + shake
    held += _LOADED * (np.minimum(seconds, loads_s) - loads_s)
    held[seconds >= duration_s - _AT_END_S] += at_end
    computed = {} if cpu_share is None else {"cpu_s": (seconds * cpu_share).tolist()}
    builder.samples(PID, [round(value) for value in held], every_s=0.25, **computed)
    for number in range(workers):
        pid = 5000 + number
        builder.process(pid, role="dataloader-worker")
        builder.samples(pid, [50 * MiB] * seconds.size, every_s=0.25)
    whole = range(int(duration_s))
    columns: dict[str, Any] = {"malloc_in_use_bytes": [round(held[4 * s]) for s in whole], "malloc_free_bytes": MiB}
    if counts_steps:
        last = duration_s - _AT_END_S if at_end else duration_s
        columns["step"] = [first_step + round(min(s, last) * steps_per_s) for s in whole]
    builder.sentinels(PID, **columns)
    for take, at_s in enumerate((5.0, duration_s / 2, duration_s - 1), start=1):
        kept = round(leak_per_step * steps_per_s * at_s)
        members = {**KEPT, "path": KEPT["path"] + "[*]", "parent_path": KEPT["path"], "edge_kind": "item"}
        place = {"owner_file": file, "owner_line": line}
        count = round(at_s * steps_per_s)
        holders = [
            {**KEPT, **place, "object_count": 1, "length": count, "deep_bytes": kept},
            {**members, **place, "type_name": "bytearray", "object_count": count, "deep_bytes": kept},
        ]
        rss = round(level + leak_per_step * steps_per_s * at_s)
        builder.take(PID, take, at_s, holders=holders if kept else None, rss_bytes=rss)
    if source is not None:
        builder.source(PID, file, "\n" * (line - 1) + source)
    return builder.ends(at_s=duration_s, signal=signal, exit_code=exit_code)
