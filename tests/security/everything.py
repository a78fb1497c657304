"""All that can be read of a recording's files: what a search for somebody's secret has to go through."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from leakscope.agent.journal import read_blocks


def texts_of_file(path: Path) -> str:
    """Every cell, the footer, and the bytes as they lie there (statistics are not compressed)."""
    file = pq.ParquetFile(path)
    cells = {str(cell) for column in file.read().columns for cell in column.unique().to_pylist()}
    return "\n".join([*cells, repr(file.metadata.metadata), path.read_bytes().decode("latin-1")])


def texts_of_journal(folder: Path) -> str:
    """Every block of every journal file, and all other files as they are."""
    parts = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            parts.append(file.read_bytes().decode("latin-1"))
            if file.suffix == ".jnl":
                parts += [repr(block) for block in read_blocks(file)]
    return "\n".join(parts)
