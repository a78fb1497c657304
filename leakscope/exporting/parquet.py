"""A parquet file for each table, with the columns in which anything was written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..storage import write_table

SUFFIX = ".parquet"


def write(frame: pd.DataFrame, path: Path) -> None:
    """Types as in the recording, each column's unit in its metadata. **Errors** OSError."""
    write_table(frame, path)
