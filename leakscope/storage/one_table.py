"""One table of a recording as a parquet file of its own, for tools that want a file for each."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .tables import units


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """``frame``: one of ``Recording.tables``; each column's unit goes into its metadata. **Errors** OSError."""
    rows = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    fields = [f.with_metadata({"unit": units[f.name]}) if f.name in units else f for f in rows.schema]
    pq.write_table(rows.cast(pa.schema(fields)), path, compression="zstd", write_page_checksum=True)
