"""The sweep finds every hand-set number, and changes some of them."""

from __future__ import annotations

import ast
import math

from . import thresholds
from .thresholds import Threshold, changed

SOURCE = """
from units import MiB
_LEAST, _MOST = 2, 64 * MiB
_BINS = (0.5, 0.9)
_NAMES = {"a": 3.0, "b": "text"}
_NONE = 0

def judge(rows, *, share=0.5):
    return [row for row in rows
            if row > share * _LEAST]

def other(most=_MOST):
    return most
"""


def numbers(monkeypatch, tmp_path) -> dict[str, Threshold]:
    (tmp_path / "facts" / "growth").mkdir(parents=True)
    (tmp_path / "facts" / "growth" / "trend.py").write_text(SOURCE)
    monkeypatch.setattr(thresholds, "PACKAGE", tmp_path)
    return {found.name: found for found in thresholds.thresholds()}


def test_constants_and_keywords_are_found_wherever_the_code_lies(monkeypatch, tmp_path):
    found = numbers(monkeypatch, tmp_path)
    texts = {name: threshold.text for name, threshold in found.items()}
    assert texts == {
        "_LEAST": "2", "_MOST": "64 * MiB", "_BINS[0]": "0.5", "_BINS[1]": "0.9", "_NAMES['a']": "3.0",
        "judge(share)": "0.5",
    }  # fmt: skip
    assert found["_LEAST"].file == "facts/growth/trend.py"


def test_one_number_is_changed_and_whole_ones_stay_whole(monkeypatch, tmp_path):
    found = numbers(monkeypatch, tmp_path)

    def value(name: str, factor: float, read: str) -> object:
        source = changed(SOURCE, [found[name]], factor).replace("from units import MiB", "MiB = 1 << 20")
        ast.parse(source)
        scope: dict[str, object] = {}
        exec(source + f"\nresult = {read}", scope)
        return scope["result"]

    assert value("_LEAST", 0.8, "_LEAST, _MOST") == (1, 64 << 20)
    assert value("_LEAST", 1.25, "_LEAST") == 3
    assert value("_MOST", 1.25, "_MOST, _LEAST") == (80 << 20, 2)
    assert value("_BINS[1]", 0.8, "_BINS[0], round(_BINS[1], 6)") == (0.5, 0.72)
    assert value("judge(share)", 1.25, "judge([1.1, 1.3])") == [1.3]
    assert value("_LEAST", 0.0, "_LEAST, _MOST") == (0, 64 << 20)
    assert value("_BINS[1]", 0.0, "_BINS") == (0.5, 0.0)
    assert value("_LEAST", math.inf, "_LEAST, type(_LEAST)") == (2 * 10**9, int)
    assert value("judge(share)", math.inf, "judge([1e6, 1e12])") == [1e12]


def test_several_are_changed_at_once(monkeypatch, tmp_path):
    found = numbers(monkeypatch, tmp_path)
    source = changed(SOURCE, [found["_LEAST"], found["_MOST"], found["_BINS[0]"], found["judge(share)"]], 1.25)
    scope: dict[str, object] = {}
    exec(source.replace("from units import MiB", "MiB = 1 << 20") + "\nresult = _LEAST, _MOST, _BINS", scope)
    assert scope["result"] == (3, 80 << 20, (0.625, 0.9))
    assert changed(SOURCE, [], 0.8) == SOURCE
