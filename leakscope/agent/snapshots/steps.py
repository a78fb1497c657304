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


MOST_OPTIMIZERS = 64  # that are told apart at a time: a job may make one for each of its trials
FIRST, BURST = 64, 16  # steps that are looked at as training begins, and each time that the agent's thread asks for it


class Steps:
    """Optimizer steps, counted by torch's global post-step hook. Installed when torch.optim is imported, never by us.

    Each step is counted by a function of C. To look at one takes 40 us, a sixth of the shortest: so a few are looked at
    twice a second, and all while a snapshot waits for one. Of several optimizers at a time (GAN) those count of the one
    that steps most often, by its part of the steps looked at last; one that follows on another goes on from there. A
    service has requests instead.
    """

    def __init__(self, on_step: Callable[[], bool]) -> None:
        """``on_step()``: after a step that is looked at; whether the next is wanted, too."""
        self.said: int | None = None  # the user's own number of the step
        self._units: set[str] = set()  # what was counted: requests or tasks
        # A function of C: no profiler sees it, nothing is raised in it, and no request is lost among threads.
        self.count_one, self._counts_of_units = doors.counted(self._units.add)
        self._units_before = 0  # in the parent of a fork
        self.last_at = 0.0
        self._count_step, self._counts_of_steps = doors.counted(int)
        self._way_in = doors.door(self._after_step)
        self._ways_in = [self._way_in]  # none while no step is to be looked at
        self._looked_at: dict[int, int] = {}  # by optimizer, since more were asked for
        self._before = self._begun_at = 0  # counted by the last look at what comes next, and all steps by then
        self._left = FIRST
        self._is_asked = False  # somebody will ask for more
        self._on_step = on_step
        self.installed = False

    @property
    def count(self) -> int | None:
        """None before the first."""
        steps = self._steps()
        return self._before + self._of_leader(steps - self._begun_at) if steps else None

    def _steps(self) -> int:
        return int(next(iter(self._counts_of_steps)))

    def _of_leader(self, steps: int) -> int:
        looked_at = self._looked_at
        return steps * max(looked_at.values()) // sum(looked_at.values()) if len(looked_at) > 1 else steps

    def look(self) -> None:
        """At the next steps. On the agent's thread, now and then."""
        self._is_asked = True
        self._look(BURST)

    def look_at_next(self) -> None:
        """At the next one alone: it may be the first of training."""
        self._look(1)

    def _look(self, steps: int) -> None:
        if not self._ways_in:
            self._before, self._begun_at = self.count or 0, self._steps()
            if steps == BURST:
                self._looked_at = {}
            self._left = steps
            self._ways_in.append(self._way_in)

    def current(self) -> int | None:
        if self._units:
            return self._counted_units()
        return self.said if self.said is not None else self.count

    def unit(self) -> str | None:
        """What this process itself counts beside its optimizer's steps."""
        return min(self._units) if self._counted_units() > self._units_before else None

    def forked(self) -> None:
        """In a forked child: what was counted before it was its parent's. Its thread may never begin."""
        self._units_before = self._counted_units()
        self.look()
        self._is_asked = False

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
            register(doors.counting_hook(self._count_step, self._ways_in))

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
        looked_at = self._looked_at
        if key not in looked_at and len(looked_at) >= MOST_OPTIMIZERS:
            self._before, self._begun_at = self.count or 0, self._steps()
            looked_at = self._looked_at = {}
        looked_at[key] = looked_at.get(key, 0) + 1
        self.last_at = monotonic()
        self._left -= 1
        is_wanted = self._on_step()
        if self._left <= 0 and self._is_asked and not is_wanted:
            self._ways_in.clear()


def _optimizer_of(frame: Any) -> int:
    """The id of the optimizer whose step calls its hooks from this frame, torch's; 0 where it is not to be found.

    It is their first argument, but none gets through a door.
    """
    for name, value in reading.frame_locals(frame):
        if name == "self":
            return id(value)
    return 0
