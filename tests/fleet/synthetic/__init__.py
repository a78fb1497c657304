"""Fleets that never were, drawn by a seed: ordinary runs, with planted faults and what a report should say of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.engines import map_over
from leakscope.fleet import demo
from leakscope.fleet.demo import Run

from .faults import Fault


def truth(faults: Sequence[Fault], seed: int) -> dict[str, Any]:
    return {"schema": "leakscope.fleet-truth/1", "seed": seed, "faults": [asdict(fault) for fault in faults]}


def write(
    runs: Sequence[Run], faults: Sequence[Fault], folder: Path, *, processes: int, seed: int,
    most_samples: int | None = None,
) -> None:  # fmt: skip
    """Write all recordings below ``folder`` and ``truth.json``. ``most_samples``: of each process, evenly chosen."""
    for run in runs:
        (folder / run.path).parent.mkdir(parents=True, exist_ok=True)
    one = partial(
        demo.write_one, folder=folder, interval_s=10, processes=processes, seed=seed, most_samples=most_samples
    )
    for _ in map_over(one, runs, workers=1):
        pass
    (folder / "truth.json").write_text(json.dumps(truth(faults, seed), indent=1) + "\n", encoding="utf-8")


def footer_of(run: Run, *, interval_s: float, processes: int, seed: int) -> dict[str, Any] | None:
    """What its footer will say, as far as an index reads it, without writing it; None for a file that is cut off."""
    if run.fate == "torn":
        return None
    if run.fate == "unfinished":
        return {**demo.meta(run), "state": "unfinished"}
    rng = np.random.default_rng([seed, 3, zlib.crc32(run.path.encode())])
    held = demo.held(run, np.linspace(0.5, run.duration_s - 0.5, 8), processes, rng)
    return {**demo.footer(run, held.sum(axis=0), interval_s, processes), "state": "final"}
