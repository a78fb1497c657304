"""The callbacks in a real ``transformers.Trainer``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from leakscope.integrations import _discovery  # noqa: E402
from leakscope.integrations import transformers as integration  # noqa: E402

pytestmark = pytest.mark.torch
LEAK_BYTES = 1_000_000  # per forward


class Leaking(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A model that keeps a tensor of each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(8, 1)
        self.kept: list[Any] = []

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        self.kept.append(torch.zeros(LEAK_BYTES // 4))
        return {"loss": (self.line(x) - labels).pow(2).mean()}


class Logger(transformers.TrainerCallback):  # type: ignore[misc]
    """Writes down what it is given, as TensorBoard's callback does."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.logged.append(dict(logs))


def trainer(folder: Path, callbacks: list[Any], **options: Any) -> Any:
    settings = {"max_steps": 40, "logging_steps": 5, "report_to": [], "disable_tqdm": True, "save_strategy": "no"}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), use_cpu=True, per_device_train_batch_size=2, **{**settings, **options}
    )
    data = [{"x": torch.randn(8), "labels": torch.randn(1)} for _ in range(80)]
    return transformers.Trainer(
        model=Leaking(), args=arguments, train_dataset=data, eval_dataset=data[:4], callbacks=callbacks
    )


def test_figures_are_in_the_history_of_the_trainer(tmp_path: Path) -> None:
    job = trainer(tmp_path, [integration.MemoryCallback()])
    job.train()
    history = [entry for entry in job.state.log_history if "memory/rss_bytes" in entry]
    assert [entry["step"] for entry in history] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert history[-1]["memory/growth_bytes"] == pytest.approx(39 * LEAK_BYTES, rel=0.3)
    assert history[-1]["memory/growth_bytes_per_step"] == pytest.approx(LEAK_BYTES, rel=0.3)
    assert history[-1]["loss"] > 0


def test_every_other_log(tmp_path: Path) -> None:
    job = trainer(tmp_path, [integration.MemoryCallback(every_n_logs=2)])
    job.train()
    assert [e["step"] for e in job.state.log_history if "memory/rss_bytes" in e] == [10, 20, 30, 40]


def test_a_step_that_is_evaluated_too_is_logged_once(tmp_path: Path) -> None:
    job = trainer(tmp_path, [integration.MemoryCallback()], eval_strategy="steps", eval_steps=5)
    job.train()
    steps = [entry["step"] for entry in job.state.log_history if "memory/rss_bytes" in entry]
    assert steps == sorted(set(steps))


def test_loggers_see_the_figures_of_an_attached_callback(tmp_path: Path) -> None:
    logger = Logger()
    job = trainer(tmp_path, [logger])
    integration.MemoryCallback().attach(job)
    job.train()
    assert sum("memory/rss_bytes" in logs for logs in logger.logged) == 8


def test_installed_it_is_in_every_trainer_once_and_beside_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import trainer as module

    monkeypatch.setattr(module, "DEFAULT_CALLBACKS", list(module.DEFAULT_CALLBACKS))
    monkeypatch.setenv(_discovery.VARIABLE, "1")
    _discovery.transformers_imported(module)
    _discovery.transformers_imported(module)
    assert module.DEFAULT_CALLBACKS.count(integration.MemoryCallback) == 1
    logger = Logger()
    job = trainer(tmp_path, [logger])
    job.train()
    assert sum("memory/rss_bytes" in logs for logs in logger.logged) == 8


def test_a_useless_cleanup_is_logged_and_said_to_be_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = trainer(tmp_path, [integration.MemoryCleanup(every_n_steps=5, verdict_after=6)])
    job.train()
    history = [entry for entry in job.state.log_history if "memory/cleanup_s" in entry]
    assert len(history) == 8
    assert all(entry["memory/cleanup_s"] > 0 for entry in history)
    said = [r.getMessage() for r in caplog.records if r.name == "leakscope" and r.levelno == logging.WARNING]
    assert len(said) == 1 and said[0].startswith("6 cleanups after the first freed ") and "does not help" in said[0]
