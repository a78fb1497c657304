"""Memory in the loggers of a Lightning ``Trainer``, and cleanups with their account.

For ``lightning.pytorch`` and for ``pytorch_lightning``: whichever the program has imported. Figures go to the trainer's
loggers directly, as exact numbers; they are of the process that logs (rank 0).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from ._memory import MemoryCleanup as _MemoryCleanup
from ._memory import MemoryFigures, cleanup_figures

__all__ = ["MemoryCallback", "MemoryCleanup"]
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _callback_class() -> Any:
    for package in sorted(_PACKAGES, key=lambda name: name not in sys.modules):
        with suppress(ModuleNotFoundError):
            return import_module(package).Callback
    raise ImportError("leakscope.integrations.lightning needs Lightning: pip install lightning")


_Callback = _callback_class()


class MemoryCallback(_Callback):  # type: ignore[misc,valid-type]
    """Logs this process's memory, under names with ``memory/``, each ``every_n_logs``-th time that the trainer logs."""

    def __init__(self, every_n_logs: int = 1) -> None:
        self._every_n_logs = every_n_logs
        self._figures = MemoryFigures()
        self._last_step = 0
        self._speaks = True

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Of two (one was found by itself, one is the program's own) the first speaks."""
        self._speaks = next(c for c in trainer.callbacks if isinstance(c, MemoryCallback)) is self

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if step == self._last_step:  # gradients are accumulated, no step was made
            return
        self._last_step = step
        self._figures.begin(step)
        interval_steps = trainer.log_every_n_steps * self._every_n_logs
        if self._speaks and trainer.loggers and interval_steps and step % interval_steps == 0:
            _write(trainer, self._figures.at(step))


class MemoryCleanup(_Callback):  # type: ignore[misc,valid-type]
    """``leakscope.integrations.MemoryCleanup`` after each step of a trainer; what it freed goes to the loggers."""

    def __init__(self, every_n_steps: int = 100, **options: Any) -> None:
        self.cleanup = _MemoryCleanup(every_n_steps, **options)
        self._last_step = 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self._last_step:
            return
        self._last_step = trainer.global_step
        done = self.cleanup.step()
        if done is not None:
            _write(trainer, cleanup_figures([done]))


def _write(trainer: Any, figures: dict[str, float]) -> None:
    for logger in trainer.loggers:
        logger.log_metrics(figures, step=trainer.global_step)
