"""Memory in the logs of a ``transformers.Trainer``, and cleanups with their account.

``Trainer(..., callbacks=[MemoryCallback()])`` shows the figures in the console and in ``trainer.state.log_history``.
Loggers (TensorBoard, Weights & Biases, ...) are called before a trainer's own callbacks: for them ``install()`` once,
before the trainer is made, or ``MemoryCallback().attach(trainer)`` after. Figures are of the process that logs.
"""

from __future__ import annotations

from typing import Any

from ._memory import PREFIX, Cleanup, MemoryFigures, cleanup_figures
from ._memory import MemoryCleanup as _MemoryCleanup

try:
    from transformers.trainer_callback import TrainerCallback  # type: ignore[import-not-found,unused-ignore]
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "transformers":
        raise  # it is there, and something of its own is missing
    raise ImportError("leakscope.integrations.transformers needs transformers: pip install transformers") from None

__all__ = ["MemoryCallback", "MemoryCleanup", "install"]


class _FirstInLine(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """A callback that adds to what is logged, and so has to be called before those who write it down."""

    def attach(self, trainer: Any) -> None:
        """Join a trainer ahead of its loggers, instead of ``callbacks=[...]``."""
        trainer.callback_handler.callbacks.insert(0, self)


class MemoryCallback(_FirstInLine):
    """Adds this process's memory to every ``every_n_logs``-th log of a trainer, under names with ``memory/``."""

    def __init__(self, every_n_logs: int = 1) -> None:
        self._every_n_logs = every_n_logs
        self._figures = MemoryFigures()
        self._logs = 0
        self._last_step = -1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._figures.begin(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        # A step may be logged again, with what an evaluation found: the figures have been said.
        if logs is None or state.global_step == self._last_step or f"{PREFIX}rss_bytes" in logs:
            return
        self._last_step = state.global_step
        self._logs += 1
        if self._logs % self._every_n_logs == 0:
            _add(logs, state, self._figures.at(state.global_step))


class MemoryCleanup(_FirstInLine):
    """``leakscope.integrations.MemoryCleanup`` after each step of a trainer; what it freed is added to the logs."""

    def __init__(self, every_n_steps: int = 100, **options: Any) -> None:
        self.cleanup = _MemoryCleanup(every_n_steps, **options)
        self._unlogged: list[Cleanup] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        done = self.cleanup.step()
        if done is not None:
            self._unlogged.append(done)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs is not None and self._unlogged:
            _add(logs, state, cleanup_figures(self._unlogged))
            self._unlogged.clear()


def install() -> None:
    """Give a ``MemoryCallback`` to every trainer made from now on. Calling it again changes nothing."""
    from transformers import trainer  # type: ignore[import-not-found,unused-ignore]

    if MemoryCallback not in trainer.DEFAULT_CALLBACKS:
        trainer.DEFAULT_CALLBACKS.append(MemoryCallback)


def _add(logs: dict[str, Any], state: Any, figures: dict[str, float]) -> None:
    logs.update(figures)
    if state.log_history:
        state.log_history[-1].update(figures)  # made from a copy of ``logs`` just before
