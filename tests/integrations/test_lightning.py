"""The callbacks in a real Lightning ``Trainer``."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

pl = pytest.importorskip("lightning.pytorch")
torch = pytest.importorskip("torch")

from leakscope.integrations import _discovery  # noqa: E402
from leakscope.integrations import lightning as integration  # noqa: E402

pytestmark = pytest.mark.torch
LEAK_BYTES = 1_000_000  # per batch


class Leaking(pl.LightningModule):  # type: ignore[misc]
    """A model that keeps a tensor of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(8, 1)
        self.kept: list[Any] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.kept.append(torch.zeros(LEAK_BYTES // 4))
        return self.line(batch).pow(2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-3)


class Logger(pl.loggers.Logger):  # type: ignore[misc]
    """Keeps what it is given."""

    name = version = "kept"

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        if any(name.startswith("memory/") for name in metrics):
            assert step is not None
            self.logged.append((step, metrics))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass


def fit(folder: Path, callbacks: list[Any], **options: Any) -> list[tuple[int, dict[str, float]]]:
    logger = Logger()
    job = pl.Trainer(
        max_steps=40, log_every_n_steps=5, logger=logger, callbacks=callbacks, accelerator="cpu",
        default_root_dir=str(folder), enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False, **options,
    )  # fmt: skip
    job.fit(Leaking(), torch.utils.data.DataLoader(torch.randn(200, 8), batch_size=2))
    return logger.logged


def test_loggers_get_the_figures_when_the_trainer_logs(tmp_path: Path) -> None:
    logged = fit(tmp_path, [integration.MemoryCallback()])
    assert [step for step, _ in logged] == [5, 10, 15, 20, 25, 30, 35, 40]
    last = logged[-1][1]
    assert last["memory/growth_bytes"] == pytest.approx(39 * LEAK_BYTES, rel=0.3)
    assert last["memory/growth_bytes_per_step"] == pytest.approx(LEAK_BYTES, rel=0.3)


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    logged = fit(tmp_path, [integration.MemoryCallback(every_n_logs=2)], accumulate_grad_batches=2)
    assert [step for step, _ in logged] == [10, 20, 30, 40]
    assert logged[-1][1]["memory/growth_bytes_per_step"] == pytest.approx(2 * LEAK_BYTES, rel=0.3)


def test_the_entry_point_adds_the_callback_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint(
        "leakscope", "leakscope.integrations._discovery:lightning_callbacks", "lightning.pytorch.callbacks_factory"
    )
    monkeypatch.setattr("lightning.fabric.utilities.registry.entry_points", lambda group: [entry])
    assert fit(tmp_path, []) == []
    monkeypatch.setenv(_discovery.VARIABLE, "1")
    assert len(fit(tmp_path, [])) == 8
    assert len(fit(tmp_path, [integration.MemoryCallback()])) == 8, "one's own and the discovered one both logged"


def test_without_loggers_it_is_silent(tmp_path: Path) -> None:
    job = pl.Trainer(
        max_steps=3, logger=False, callbacks=[integration.MemoryCallback()], accelerator="cpu",
        enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    job.fit(Leaking(), torch.utils.data.DataLoader(torch.randn(20, 8), batch_size=2))


def test_a_useless_cleanup_is_logged_and_said_to_be_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logged = fit(tmp_path, [integration.MemoryCleanup(every_n_steps=5, verdict_after=6)])
    assert [step for step, figures in logged if figures["memory/cleanup_s"] > 0] == [5, 10, 15, 20, 25, 30, 35, 40]
    said = [r.getMessage() for r in caplog.records if r.name == "leakscope" and r.levelno == logging.WARNING]
    assert len(said) == 1 and said[0].startswith("6 cleanups after the first freed ") and "does not help" in said[0]
