"""Call stacks of C code that kept memory while memray watched (``record --native``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..facts.growth.processes import ProcessGrowth
from ..facts.tables import int_of, text_of
from ..findings import Evidence
from ..units import format_bytes, format_duration

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

_MOST = 3
_LEAST_SHARE = 0.2  # of what was kept in the window: below, it is not what grows


@dataclass(frozen=True)
class NativeStack:
    """``share`` of what C code kept, 0 to 1. ``file``, ``line`` and ``function`` of the user's call that led there."""

    native_function: str
    function: str | None
    file: str | None
    line: int | None
    share: float
    evidence: Evidence


def native_stacks(case: Case, process: ProcessGrowth) -> list[NativeStack]:
    """The largest first; empty where no window was opened, or nothing but Python itself kept memory."""
    rows = process.rows("native_stacks")
    rows = rows[rows["native_function"].notna()]
    if not len(rows):
        return []
    total = float(rows["grown_bytes"].sum())
    found = []
    for _, alike in rows.groupby(["native_function", "owner_file", "owner_line"], dropna=False, sort=False):
        kept = int(alike["grown_bytes"].sum())
        if kept >= _LEAST_SHARE * total:
            found.append(_stack(alike, kept, kept / total))
    return sorted(found, key=lambda stack: -stack.share)[:_MOST]


def _stack(alike: pd.DataFrame, kept: int, share: float) -> NativeStack:
    row = alike.iloc[0]
    count = int(alike["allocation_count"].sum())
    native, function, file, line = (
        str(row["native_function"]), text_of(row, "function"), text_of(row, "owner_file"), int_of(row, "owner_line")
    )  # fmt: skip
    text = (
        f"in {format_duration(float(row['window_s']))} under memray, {native}() kept {format_bytes(kept)} in "
        f"{count:,} allocations"
    )
    if file is not None:
        text += f", called from {file}:{line} in {function}"
    figures = {"kept_bytes": kept, "allocation_count": count, "window_s": float(row["window_s"])}
    return NativeStack(native, function, file, line, share, Evidence(text, {**figures, "stack": str(row["stack"])}))
