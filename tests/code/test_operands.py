"""Names that are only computed with: whatever may put something into their object is told apart."""

from __future__ import annotations

import pytest

from leakscope.facts.code.index import Source
from leakscope.facts.code.operands import is_only_operand

MADE = "DOWN = make()\n"


def only_operand(*texts: str) -> bool:
    sources = [Source(f"part{number}", f"/home/me/part{number}.py", text) for number, text in enumerate(texts)]
    return is_only_operand(sources, "DOWN")


@pytest.mark.parametrize(
    "use", ["speed += DOWN * 2", "x = -DOWN", "x = a < DOWN", "x = part0.DOWN + 1", "from part0 import DOWN\nx = DOWN - 1"]
)
def test_arithmetic_gives_it_nothing(use: str) -> None:
    assert only_operand(MADE, f"{use}\n")


@pytest.mark.parametrize(
    "use",
    [
        "DOWN.add(x)",
        "DOWN[1] = x",
        "keep(DOWN)",
        "other = DOWN",
        "DOWN += x",
        "DOWN << x",
        "DOWN | x",
        "from part0 import DOWN as other\nother.add(1)",
        "",
        "y = DOWN * 2\n)",
    ],
)
def test_what_may_put_something_into_it(use: str) -> None:
    assert not only_operand(MADE, f"{use}\n")
