"""The bill as a table: each row, and below it its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ..findings import Bill, BillRow

_COLUMNS = (
    "moment", "time_s", "account", "name", "part_of", "bytes", "share", "process", "type", "count", "error_bytes",
    "file", "line", "also",
)  # fmt: skip


def bill_frame(bills: Sequence[Bill]) -> pd.DataFrame:
    """**Shape** as ``Recording.bill`` says."""
    told = [one for bill in bills for row in bill.rows for one in _rows(bill, row, None)]
    return pd.DataFrame(told, columns=list(_COLUMNS))


def _rows(bill: Bill, row: BillRow, above: str | None) -> Iterator[dict[str, Any]]:
    own = {name: getattr(row, name) for name in _COLUMNS if hasattr(row, name)}
    of_bill = {"moment": bill.moment, "time_s": bill.time_s, "share": row.bytes / max(bill.total_bytes, 1)}
    yield {**own, **of_bill, "part_of": above}
    for part in row.parts:
        yield from _rows(bill, part, row.name)
