"""Results of SQL over recordings, batch by batch: as tables to show, or into a file that never is in memory whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def named(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Its batches, one at least, each column with a name of its own. **Errors** as the reader's."""
    names = _apart(reader.schema.names)
    is_empty = True
    for batch in reader:
        is_empty = False
        yield pa.RecordBatch.from_arrays(batch.columns, names=names)
    if is_empty:
        columns = [pa.array([], field.type) for field in reader.schema]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def frame_of(batch: pa.RecordBatch) -> pd.DataFrame:
    """Integers stay integers beside nulls; sums of DuckDB's, which are decimals in Arrow, are figures."""
    columns = [_figures(column) for column in batch.columns]
    frame: pd.DataFrame = pa.table(columns, names=batch.schema.names).to_pandas(types_mapper=_NULLABLE.get)
    return frame


def write(batches: Iterable[pa.RecordBatch], output: Path) -> None:
    """As a parquet file. **Errors** as those of the batches; OSError."""
    writer = None
    try:
        for batch in batches:
            writer = writer or pq.ParquetWriter(output, batch.schema, compression="zstd")
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _apart(names: Sequence[str]) -> list[str]:
    """A result may have a name twice: ``n`` and ``n_1``."""
    told: dict[str, None] = {}
    for name in names:
        number, own = 0, name
        while own in told:
            number += 1
            own = f"{name}_{number}"
        told[own] = None
    return list(told)


def _figures(column: pa.Array) -> pa.Array:
    if not pa.types.is_decimal(column.type):
        return column
    if column.type.scale == 0:
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
    return column.cast(pa.float64())


_NULLABLE = {
    pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(), pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
}  # fmt: skip
