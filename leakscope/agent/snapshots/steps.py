"""Which step a job is at: the nearest there is to a clock of its own. Runs in the job."""

from __future__ import annotations

import sys
from time import monotonic

from ..interpreter import doors, names, pending, quiet, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.hooks import Hooks


class Steps:
    """Optimizer steps, counted by torch's global post-step hook. Installed when torch.optim is imported, never by us.

    With several optimizers (GAN) the step is that of the one that steps most often. A service has requests instead.
    """

    def __init__(self, on_step: Callable[[], None]) -> None:
        self.count: int | None = None
        self.said: int | None = None  # the user's own number of the step
        self._units: set[str] = set()  # what was counted: requests or tasks
        # A function of C: no profiler sees it, nothing is raised in it, and no request is lost among threads.
        self.count_one, self._counts_of_units = doors.counted(self._units.add)
        self._units_before = 0  # in the parent of a fork
        self.last_at = 0.0
        self._counts: dict[int, int] = {}
        self._on_step = on_step
        self.installed = False

    def current(self) -> int | None:
        if self._units:
            return self._counted_units()
        return self.said if self.said is not None else self.count

    def unit(self) -> str | None:
        """What this process itself counts beside its optimizer's steps."""
        return min(self._units) if self._counted_units() > self._units_before else None

    def forked(self) -> None:
        """In a forked child: what was counted before it was its parent's."""
        self._units_before = self._counted_units()

    def _counted_units(self) -> int:
        return int(next(iter(self._counts_of_units)))

    def hooks(self) -> dict[str, Callable[[Hooks, Any], None]]:
        """{module: callback} for ``hooks.Hooks``."""
        return {"torch.optim.optimizer": self._install}

    def _install(self, hooks: Hooks, module: Any) -> None:
        register = names.getattr_plain(module, "register_optimizer_step_post_hook")
        if register is not None and not self.installed:  # torch >= 2.0
            self.installed = True
            quiet.skip_code(pending.PendingCall._run, self._after_step)
            register(doors.hook(self._after_step))

    def _after_step(self) -> bool:
        hidden = quiet.hide()
        try:
            self._stepped(_optimizer_of(sys._getframe().f_back))
        except Exception as error:
            if names.is_foreign(error):
                raise
        finally:
            quiet.show(hidden)
        return True

    quiet.keep_out(_after_step)

    def _stepped(self, key: int) -> None:
        counts = self._counts
        if key not in counts and len(counts) >= 64:
            counts.clear()
            counts[key] = self.count or 0
        count = counts[key] = counts.get(key, 0) + 1
        if self.count is None or count > self.count:
            self.count = count
        self.last_at = monotonic()
        self._on_step()


def _optimizer_of(frame: Any) -> int:
    """The id of the optimizer whose step calls its hooks from this frame, torch's; 0 where it is not to be found.

    It is their first argument, but none gets through a door.
    """
    for name, value in reading.frame_locals(frame):
        if name == "self":
            return id(value)
    return 0
