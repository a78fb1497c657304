"""How sure a finding is, from what it rests on."""

from __future__ import annotations

import pytest

from leakscope.confidence import Ground, how_sure

FOR, STRONG, AGAINST = Ground("seen", 0.65), Ground("counted", 0.9), Ground("an estimate", 0.3)


def test_one_ground_alone_makes_as_sure_as_it_says() -> None:
    assert how_sure([STRONG]) == 0.9
    assert how_sure([]) == 0.5


def test_each_further_ground_counts_in_its_direction() -> None:
    assert how_sure([STRONG]) < how_sure([STRONG, FOR]) < how_sure([STRONG, FOR, FOR])
    assert how_sure([STRONG, FOR, AGAINST]) < how_sure([STRONG, FOR])
    assert how_sure([FOR, Ground("not", 0.35)]) == 0.5


@pytest.mark.parametrize(("grounds", "sure"), [([STRONG] * 9, 0.99), ([AGAINST] * 9, 0.05)])
def test_nothing_is_certain(grounds: list[Ground], sure: float) -> None:
    assert how_sure(grounds) == sure
