"""What snapshots may cost: a share of the time, some of it in advance, and most of that where memory grows or ends."""

from __future__ import annotations

from leakscope.agent.snapshots.budget import CREDIT_FACTOR, CREDIT_S, CREDITED_TAKES, GROWTH_FACTOR, Budget

FRACTION = 0.01


def spent_on_imports() -> Budget:
    """Of a job on a busy machine, whose first snapshots have used up what all may use."""
    budget = Budget(FRACTION, interval_s=30.0)
    for number in range(CREDITED_TAKES):
        budget.spend(FRACTION * CREDIT_S / CREDITED_TAKES * 1.2, 5.0 * number)
    return budget


def test_one_that_large_growth_asks_for_is_paid_where_others_have_to_wait() -> None:
    budget = spent_on_imports()
    at_s = 40.0
    assert not budget.allows(at_s)
    assert budget.allows(at_s, GROWTH_FACTOR)


def test_what_growth_asks_for_has_an_end_too() -> None:
    budget = spent_on_imports()
    at_s, before_s = 40.0, budget.spent_s
    while budget.allows(at_s, GROWTH_FACTOR):
        budget.spend(0.5, at_s)
    assert before_s < budget.spent_s <= FRACTION * (GROWTH_FACTOR * CREDIT_S + at_s)
    assert budget.allows(at_s + 0.6 / FRACTION, GROWTH_FACTOR)  # it is earned by time


def test_in_the_long_run_no_credit_makes_it_cost_more_than_its_share() -> None:
    budget = Budget(FRACTION, interval_s=30.0)
    spent_s, hour_s = 0.0, 3600.0
    for at_s in range(1, int(hour_s)):
        if budget.allows(at_s, CREDIT_FACTOR):
            budget.spend(0.3, float(at_s))
            spent_s += 0.3
    assert spent_s <= FRACTION * (hour_s + CREDIT_FACTOR * CREDIT_S)
