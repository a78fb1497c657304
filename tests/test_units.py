"""Figures as a person reads them."""

from __future__ import annotations

import pytest

from leakscope.units import format_about


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.34, "about 2.3 s"),
        (75, "about 75 s"),
        (600, "about 10 min"),
        (65 * 60, "about 65 min"),
        (5 * 3600 + 52 * 60, "about 5.9 h"),
        (28_000 * 60, "about 19 days"),
    ],
)
def test_a_forecast_is_no_more_exact_than_it_can_be(seconds: float, text: str) -> None:
    assert format_about(seconds) == text
