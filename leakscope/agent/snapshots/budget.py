"""What snapshots may cost, and how often that lets one come. Runs in the job."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_TAKE_S = 1.5
EARLY_S = 60.0  # short runs are common: in the first minute snapshots are denser than later
EARLY_INTERVAL_S = 2.0
CREDIT_S = 120.0  # the share of this time may be spent in advance (1.2 s at 1 %): a run of 20 seconds gets some too
LATE_FACTOR = 2.0  # of its usual interval: a snapshot that costs put off by more than that is worth a word
EARLY_STRETCH = 0.35  # of the time since the first: 1.5, 3.5, 5.5, … 10, 14, 18, 25, 34, 45 s for a cheap snapshot
# The first snapshots may spend twice that: with fewer than four nothing can be told of a run that ends in a minute.
CREDITED_TAKES, CREDIT_FACTOR = 4, 2.0
# Of the time since the last, times the share that is allowed in the long run: what one may cost that shows what nobody
# has seen. So no stretch of a job is held up by more, and how often that is can be told beforehand (Schedule).
UNSEEN_FACTOR = 10.0
FIRST_TAKES = 3  # as often as any: what is wasted from the start is told from weights at several moments
FLAT_FACTOR = 8.0  # of the usual interval: the next snapshot where memory stands still, which then finds the same


class Budget:
    """What snapshots may cost: ``fraction`` of the time elapsed, and of ``CREDIT_S`` in advance.

    Costs are CPU time: on a crowded machine a snapshot lasts longer, but so does everything else.
    """

    def __init__(self, fraction: float, interval_s: float) -> None:
        self._fraction = fraction
        self._interval_s = interval_s
        self.spent_s = 0.0
        self.last_cost_s = 0.03
        self._first_s: float | None = None
        self.last_s = 0.0
        self._count = 0
        self._next_s = self._flat_s = self._late_s = FIRST_TAKE_S

    def allows(self, elapsed_s: float, factor: float = 1.0) -> bool:
        return self.last_cost_s <= self.left_s(elapsed_s, factor)

    def left_s(self, elapsed_s: float, factor: float = 1.0) -> float:
        """What may still be spent. ``factor``: of the credit; the first, and the last, which nothing can follow, have
        ``CREDIT_FACTOR``.
        """
        credit_s = CREDIT_S * (CREDIT_FACTOR if self._count < CREDITED_TAKES else factor)
        return self._fraction * (elapsed_s + credit_s) - self.spent_s

    def allows_unseen(self, elapsed_s: float) -> bool:
        """Whether one that shows what nobody has seen may come, whatever was spent before."""
        return self.last_cost_s <= UNSEEN_FACTOR * self._fraction * (elapsed_s - self.last_s)

    def is_due(self, elapsed_s: float, is_flat: Callable[[], bool] = bool) -> bool:
        """``is_flat()`` tells whether memory stands where it stood after the last snapshot."""
        if elapsed_s < self._next_s or not self.allows(elapsed_s):
            return False
        return not self.had_first or elapsed_s >= self._flat_s or not is_flat()

    def charge(self, cost_s: float) -> None:
        """Pay for what is no snapshot of its own."""
        self.spent_s += cost_s

    def spend(self, cost_s: float, elapsed_s: float) -> None:
        self.charge(cost_s)
        self._count += 1
        self.last_cost_s, self.last_s = cost_s, elapsed_s
        if self._first_s is None:
            self._first_s = elapsed_s
        # The early snapshots are as dense for a job that imported for ten seconds before the first.
        early_s = elapsed_s - self._first_s + FIRST_TAKE_S
        usual_s = self._interval_s if elapsed_s > EARLY_S else max(EARLY_INTERVAL_S, EARLY_STRETCH * early_s)
        # So long that the snapshot is paid for; less in the first minute, so that a run of 20 seconds gets three.
        fair_s = cost_s / self._fraction
        fair_s = fair_s if elapsed_s > EARLY_S else min(fair_s, 1.0 + 0.75 * early_s)
        self._next_s = elapsed_s + max(usual_s, fair_s)
        self._flat_s = elapsed_s + FLAT_FACTOR * usual_s
        self._late_s = elapsed_s + LATE_FACTOR * usual_s

    @property
    def had_first(self) -> bool:
        """Whether there were the snapshots that come whatever memory does."""
        return self._count >= FIRST_TAKES

    def holds_back(self, elapsed_s: float) -> str | None:
        """Why a snapshot that would be due long since has to wait for its money; said once for each, else None."""
        if elapsed_s < self._late_s or self.is_due(elapsed_s):
            return None
        self._late_s = float("inf")
        return self.why()

    def why(self) -> str:
        """What speaks against a snapshot now."""
        costs = f"a snapshot costs {self.last_cost_s:.2g} s of CPU, {self.spent_s:.2g} s are spent"
        return f"{costs}, and {100.0 * self._fraction:.3g}% of the time is allowed"


class Stress(Budget):
    """For tests of ours (``LEAKSCOPE_STRESS``): a snapshot every ``interval_s``, whatever it costs and finds."""

    def __init__(self, interval_s: float) -> None:
        super().__init__(1.0, interval_s)
        self._next_s = 0.0

    def allows(self, elapsed_s: float, factor: float = 1.0) -> bool:
        return True

    def is_due(self, elapsed_s: float, is_flat: Callable[[], bool] = bool) -> bool:
        return elapsed_s >= self._next_s

    def spend(self, cost_s: float, elapsed_s: float) -> None:
        self._next_s = elapsed_s + self._interval_s

    def holds_back(self, elapsed_s: float) -> str | None:
        return None
