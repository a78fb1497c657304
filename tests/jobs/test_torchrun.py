"""A torchrun of four real ranks, of which one leaks: recorded rank by rank, and as one; merged, and named right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.torch]
TRAIN = Path(__file__).with_name("train.py")
LEAKSCOPE = [sys.executable, "-m", "leakscope"]
SECONDS = "60"
RUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]


def train(folder: Path, command: list[str]) -> None:
    """Ends as a training does that nobody recorded."""
    environ = {**os.environ, "LEAKY_RANK": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def reported(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [*LEAKSCOPE, "report", *words, "-f", "json"], cwd=folder, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_recording_of_each_rank(tmp_path: Path):
    (tmp_path / "job").mkdir()
    record = [*LEAKSCOPE, "record", "-q", "-o", "job/run.rank{rank}.parquet", "--"]
    train(tmp_path, [*RUN, "--no-python", *record, sys.executable, str(TRAIN), SECONDS])
    assert sorted(file.name for file in (tmp_path / "job").iterdir()) == [f"run.rank{n}.parquet" for n in range(4)]
    found = reported(tmp_path, "job")
    assert found["verdict"]["leaking_ranks"] == [2]
    assert [row["rank"] for row in found["ranks"]] == [0, 1, 2, 3]
    first = found["clusters"][0]
    assert (first["ranks"], first["finding"]["subject"]["holder"]) == ([2], "Trainer.history (list)")


def test_one_recording_of_all_ranks(tmp_path: Path):
    train(tmp_path, [*LEAKSCOPE, "record", "-q", "--", *RUN, str(TRAIN), SECONDS])
    found = reported(tmp_path, "--ranks", "run.parquet")
    assert found["verdict"]["leaking_ranks"] == [2]
    assert [row["rank"] for row in found["ranks"]] == [0, 1, 2, 3]
    assert "Rank 2 leaks" in reported(tmp_path)["verdict"]["headline"]
