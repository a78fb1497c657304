"""What snapshots may cost: a share of the time, and some of it in advance."""

from __future__ import annotations

from leakscope.agent.snapshots.budget import CREDIT_FACTOR, CREDIT_S, Budget

FRACTION = 0.01


def test_in_the_long_run_no_credit_makes_it_cost_more_than_its_share() -> None:
    budget = Budget(FRACTION, interval_s=30.0)
    spent_s, hour_s = 0.0, 3600.0
    for at_s in range(1, int(hour_s)):
        if budget.allows(at_s, CREDIT_FACTOR):
            budget.spend(0.3, float(at_s))
            spent_s += 0.3
    assert spent_s <= FRACTION * (hour_s + CREDIT_FACTOR * CREDIT_S)
