"""The sweep finds every hand-set number, and changes some of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from importlib.util import module_from_spec
from types import ModuleType, SimpleNamespace

import pytest

from . import movable, sweep, thresholds
from .movable import Movable, Numbers
from .thresholds import Threshold

MOST = 241  # numbers: it only becomes smaller
FILE = "facts/growth/trend.py"
SOURCE = """
from units import Ground, MiB
_LEAST, _MOST = 2, 64 * MiB
_BY_WORDS = (Ground("it says so", 0.9),)
_BINS = (0.5, 0.9)
_NAMES = {"a": 3.0, "b": "text"}
_NONE = 0

def judge(rows, *, share=0.5):
    return [row for row in rows
            if row > share * _LEAST]

def other(most=_MOST):
    return most

def used():
    "It has a docstring."
    return _LEAST, _MOST, _BINS

_TWICE = 2 * _LEAST

def twice():
    return _TWICE

class Judge:
    SHARE = 0.25

    def decide(self, rows, share):
        if len(rows) > 2 and share >= 0.75 or min(share, 4) == rows[3]:
            return Ground(f"{share} of it", 0.5 + 0.25 * share)
"""


def numbers_of(monkeypatch, tmp_path) -> dict[str, Threshold]:
    (tmp_path / "facts" / "growth").mkdir(parents=True)
    (tmp_path / "facts" / "growth" / "trend.py").write_text(SOURCE)
    for module in (thresholds, movable):
        monkeypatch.setattr(module, "PACKAGE", tmp_path)
    return {found.name: found for found in thresholds.thresholds()}


def test_constants_and_keywords_are_found_wherever_the_code_lies(monkeypatch, tmp_path):
    found = numbers_of(monkeypatch, tmp_path)
    texts = {name: threshold.text for name, threshold in found.items()}
    assert texts == {
        "_LEAST": "2", "_MOST": "64 * MiB", "_BINS[0]": "0.5", "_BINS[1]": "0.9", "_NAMES['a']": "3.0",
        "judge(share)": "0.5", "_TWICE": "2 * _LEAST", "Ground(it says so)": "0.9", "Judge.SHARE": "0.25",
        "Judge.decide: >= 0.75": "0.75", "Judge.decide: min 4": "4",
        "Judge.decide: Ground(f'{share} of it')": "0.5", "Judge.decide: Ground(f'{share} of it') (2)": "0.25",
    }  # fmt: skip
    assert found["_LEAST"].file == FILE


@pytest.fixture
def trend(monkeypatch, tmp_path) -> tuple[Numbers, ModuleType]:
    """SOURCE, loaded so that its numbers can be changed."""
    numbers_of(monkeypatch, tmp_path)
    monkeypatch.setitem(sys.modules, "units", SimpleNamespace(MiB=1 << 20, Ground=lambda says, alone: alone))
    numbers = Numbers()
    finder = Movable(numbers, thresholds.thresholds(), [tmp_path / FILE])
    spec = finder.find_spec("leakscope.facts.growth.trend")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    numbers.read.clear()
    return numbers, module


def test_one_number_is_changed_and_whole_ones_stay_whole(trend):
    numbers, module = trend

    def value(name: str, factor: float, use: Callable[[], object]) -> object:
        numbers.change([f"{FILE} {name}"], factor)
        return use()

    assert value("_LEAST", 0.8, module.used) == (1, 64 << 20, (0.5, 0.9))
    assert value("_LEAST", 1.25, module.used) == (3, 64 << 20, (0.5, 0.9))
    assert value("_MOST", 1.25, module.used) == (2, 80 << 20, (0.5, 0.9))
    assert value("_BINS[1]", 0.8, module.used) == (2, 64 << 20, (0.5, pytest.approx(0.72)))
    assert value("_LEAST", 0.0, module.used) == (0, 64 << 20, (0.5, 0.9))
    assert value("_LEAST", math.inf, module.used) == (2 * 10**9, 64 << 20, (0.5, 0.9))
    assert value("judge(share)", 1.25, lambda: module.judge([1.1, 1.3])) == [1.3]
    assert value("judge(share)", 1.25, lambda: module.judge([1.1, 1.3], share=0.5)) == [1.1, 1.3]  # it was given
    assert value("judge(share)", math.inf, lambda: module.judge([1e6, 1e12])) == [1e12]


def test_several_are_changed_at_once_and_none_is_as_written(trend):
    numbers, module = trend
    numbers.change([f"{FILE} {name}" for name in ("_LEAST", "_MOST", "_BINS[0]", "judge(share)")], 1.25)
    assert module.used() == (3, 80 << 20, (0.625, 0.9)) and module.judge([1.8, 1.9]) == [1.9]
    numbers.change([], 1.25)
    assert module.used() == (2, 64 << 20, (0.5, 0.9)) and module.judge([1.1]) == [1.1]


def test_a_literal_in_a_body_is_changed_where_it_stands(trend):
    numbers, module = trend
    decide = module.Judge().decide
    assert decide([0] * 4, 0.8) == pytest.approx(0.7)
    numbers.change([f"{FILE} Judge.decide: Ground(f'{{share}} of it')"], 0.8)
    assert decide([0] * 4, 0.8) == pytest.approx(0.6)
    assert module.Judge.SHARE == 0.25


def test_every_number_has_a_line_in_the_list():
    """Which recording or test would notice it, or why it is a fact; so none is added in passing."""
    present = {one.key: one.text for one in thresholds.thresholds()}
    listed = {key: row["text"] for key, row in sweep.results().items()}
    new = sorted(key for key, text in present.items() if listed.get(key) != text)
    assert not new, "numbers without a line: `python -m tests.golden --numbers`, and say of each what notices it"
    assert not sorted(listed.keys() - present.keys()), "`python -m tests.golden --numbers` takes out what is gone"
    assert len(present) <= MOST, "more hand-set numbers than before: can two be one, or one be worked out?"


def test_what_was_looked_at_is_told(trend):
    numbers, module = trend
    module.judge([1])
    assert numbers.read == {f"{FILE} judge(share)", f"{FILE} _LEAST"}
    numbers.read.clear()
    module.judge([1], share=0.5)
    assert numbers.read == {f"{FILE} _LEAST"}


def test_a_number_that_another_is_made_of_changes_that_one_too(trend):
    numbers, module = trend
    numbers.change([f"{FILE} _LEAST"], 1.25)
    assert module.twice() == 6
