"""What a program does, known without a word from it, and what each phase leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import staging

pytestmark = [pytest.mark.live, pytest.mark.torch]

MiB = 1024 * 1024

TRAINING = """
import io, time, torch
from torch import nn
model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.randn(64, 32), batch_size=8)
kept = []
for epoch in range(4):
    model.train()
    for batch in loader:
        optimizer.zero_grad(); model(batch).sum().backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        kept.append(bytearray(b"x" * (8 * 1024 * 1024)))
    torch.save(model.state_dict(), io.BytesIO())
"""


def phases(tmp_path: Path, script: str) -> dict[str, dict[str, Any]]:
    journal = staging.stage(tmp_path)
    done = staging.run(journal, "-W", "error", "-c", script)
    assert done.returncode == 0, done.stderr
    return {row["phase"]: row for row in staging.rows(journal).get("phases", [])}  # the last row of each counts


def test_training_evaluation_and_saving_are_told_apart(tmp_path: Path) -> None:
    found = phases(tmp_path, TRAINING)
    # Back in evaluation after each save: two passages an epoch.
    assert {phase: found[phase]["entry_count"] for phase in ("train", "eval", "save")} == {
        "train": 4,
        "eval": 8,
        "save": 4,
    }
    assert 28 * MiB < found["eval"]["gained_bytes"] < 40 * MiB  # of the 32 MiB kept, less what the last step held
    assert found["train"]["gained_bytes"] < 10 * MiB
    assert found["start-up"]["gained_bytes"] > 50 * MiB


@pytest.mark.slow
def test_freezing_part_of_a_model_is_no_evaluation(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[nn.Linear(8, 8) for _ in range(9)]); self.norm = nn.BatchNorm1d(8)
    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    model.train()
    model.norm(model.body(torch.randn(4, 8))).sum().backward(); optimizer.step()
model.eval()
"""
    assert "eval" in phases(tmp_path, script)
    assert phases(tmp_path / "again", script)["eval"]["entry_count"] == 1


@pytest.mark.slow
def test_what_the_user_says_is_not_corrected(tmp_path: Path) -> None:
    script = """
import sys
mark = sys.modules["_leakscope_agent"].mark
for _ in range(3):
    mark(phase="collect"); mark(phase="fit")
""" + TRAINING.replace("for epoch", "mark(phase='collect')\nfor epoch")
    found = phases(tmp_path, script)
    assert set(found) == {"start-up", "collect", "fit"}
    assert found["collect"]["entry_count"] == 4


@pytest.mark.slow
def test_wrapped_functions_look_and_behave_as_before(tmp_path: Path) -> None:
    journal = staging.stage(tmp_path)
    script = """
import inspect, pickle, torch
from torch import nn
assert list(inspect.signature(nn.Module.train).parameters) == ["self", "mode"]
assert pickle.loads(pickle.dumps(torch.save)) is torch.save is torch.serialization.save
model = nn.Linear(2, 2)
assert model.train(False) is model and not model.training
assert model.eval() is model and model.train() is model and model.training
try:
    model.train("yes")
except ValueError as error:
    assert "boolean" in str(error)
else:
    raise SystemExit("no error")
loader = iter(torch.utils.data.DataLoader([1, 2]))
assert [int(next(loader)), int(next(loader))] == [1, 2]
try:
    next(loader)
except StopIteration:
    print("as before")
"""
    done = staging.run(journal, "-W", "error", "-c", script)
    assert (done.stdout, done.stderr) == ("as before\n", "")
