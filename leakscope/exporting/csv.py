"""A CSV file for each table, with the columns in which anything was written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SUFFIX = ".csv"


def write(frame: pd.DataFrame, path: Path) -> None:
    """Empty cells are nulls; texts with commas or newlines are in quotes. **Errors** OSError."""
    frame.to_csv(path, index=False, lineterminator="\n")
