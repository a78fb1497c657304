"""Columns and rows, beside what pandas says of the same."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakscope.storage import Column, Rows, joined

from ..golden import RECORDINGS

CELLS: dict[str, list[Any]] = {
    "pid": [7, 7, 8, None, 8, 7],
    "take": [2, 1, 2, 1, None, 2],
    "bytes": [2**60 + 1, 5, None, 4, 5, 0],
    "share": [0.5, None, 0.1, 2.0, 0.5, 0.0],
    "is_named": [True, None, False, True, None, False],
    "name": ["b", "a", None, "b", "é\n", ""],
}
ROWS = Rows.of({name: Column.of(cells) for name, cells in CELLS.items()})
FRAME = ROWS.to_pandas()


def told(rows: Rows | pd.DataFrame) -> list[list[Any]]:
    """Its cells, None for any null."""
    if isinstance(rows, Rows):
        columns = [rows[name].tolist() for name in rows]
    else:
        columns = [[None if pd.isna(cell) else cell for cell in rows[name]] for name in rows]
    return [[None if cell != cell else cell for cell in row] for row in zip(*columns)]


def test_a_frame_has_what_the_columns_have() -> None:
    assert told(FRAME) == told(ROWS) == [list(row) for row in zip(*CELLS.values())]
    assert FRAME.dtypes.astype(str).tolist() == ["Int64", "Int64", "Int64", "float64", "boolean", "string"]


CHOICES: list[Callable[[Any], Any]] = [
    lambda rows: rows["pid"] == 7,
    lambda rows: ~(rows["pid"] == 7),  # not known is neither
    lambda rows: (rows["pid"] == 7) & ~rows["is_named"].fillna(False),
    lambda rows: (rows["pid"] == 7) | (rows["bytes"] > 4),
    lambda rows: ~((rows["pid"] == 7) & (rows["bytes"] > 4)),
    lambda rows: rows["share"] >= 0.5,
    lambda rows: ~(rows["share"] >= 0.5),
    lambda rows: rows["share"].between(0.1, 0.5),
    lambda rows: rows["name"] != "b",
    lambda rows: rows["name"].isin(["b", ""]),
    lambda rows: rows["take"].isin([2]) & rows["bytes"].notna(),
    lambda rows: rows["bytes"] - rows["take"] > 3,
    lambda rows: np.array([1, 2, 3, 4, 5, 6]) > rows["take"],
    lambda rows: rows["bytes"] / 2 > rows["share"],
]


@pytest.mark.parametrize("choice", CHOICES)
def test_the_same_rows_are_chosen(choice: Callable[[Any], Any]) -> None:
    assert told(ROWS[choice(ROWS)]) == told(FRAME[choice(FRAME).fillna(False).astype(bool)])


@pytest.mark.parametrize("by", ["bytes", "share", "name", ["pid", "take"]])
@pytest.mark.parametrize("ascending", [True, False])
def test_rows_are_in_the_same_order(by: Any, ascending: bool) -> None:
    assert told(ROWS.sort_values(by, ascending)) == told(FRAME.sort_values(by, ascending=ascending, kind="stable"))


@pytest.mark.parametrize("by", ["pid", "name", ["pid", "take"]])
@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}])
def test_rows_are_in_the_same_groups(by: Any, options: dict[str, bool]) -> None:
    expected = [told(own) for _, own in FRAME.groupby(by, **options)]
    assert [told(own) for _, own in ROWS.groupby(by, **options)] == expected
    assert ROWS.sums("pid", "bytes") == FRAME.groupby("pid")["bytes"].sum().to_dict()


@pytest.mark.parametrize("keep", ["first", "last"])
def test_the_same_rows_are_repeated(keep: Any) -> None:
    for subset in (["pid"], ["pid", "take"], ["name"]):
        assert told(ROWS.drop_duplicates(subset, keep)) == told(FRAME.drop_duplicates(subset, keep=keep))


@pytest.mark.parametrize("name", list(CELLS))
def test_the_same_is_known_of_a_column(name: str) -> None:
    for what in ("count", "nunique"):
        assert getattr(ROWS[name], what)() == getattr(FRAME[name], what)()
    for what in ("sum", "max", "min") if name != "name" else ():
        assert getattr(ROWS[name], what)() == getattr(FRAME[name], what)()
    assert ROWS[name].dropna().tolist() == FRAME[name].dropna().tolist()


def test_rows_of_parts_follow_one_another() -> None:
    parts = [ROWS[["pid", "share"]], ROWS.take([1, 0])[["pid", "name"]]]
    frames = [FRAME[["pid", "share"]], FRAME.iloc[[1, 0]][["pid", "name"]]]
    assert told(joined(parts)) == told(pd.concat(frames))


def test_a_whole_number_stays_one() -> None:
    """Beyond 2**53 a float has not each of them."""
    assert (ROWS["bytes"] - 1).tolist()[0] == 2**60
    assert ROWS["bytes"].fillna(0).tolist()[:3] == [2**60 + 1, 5, 0]
    assert operator.eq(ROWS["bytes"], 2**60).tolist()[0] is False


@pytest.mark.live
def test_judging_a_recording_loads_no_pandas() -> None:
    code = (
        "import sys; from leakscope.storage import open_recording; from leakscope.answering import told; "
        f"told(open_recording({str(next(RECORDINGS.glob('*.parquet')))!r}, read_only=True)); "
        "sys.exit('pandas was loaded' if 'pandas' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stderr == ""
