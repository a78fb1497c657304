"""``leakscope fleet analyze``: a whole report of each of many recordings, as rows; here or on a cluster."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..addresses import is_remote, without_credentials
from ..engines import map_over
from ..errors import BadInput
from ..units import format_bytes, format_duration
from ..words import printable
from .places import Source
from .report_rows import FAILED, LEAKING, UNREADABLE, row_of, table_of

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 30
_LINE = 110


def analyze_all(
    addresses: Sequence[str],
    engine: str = "local",
    *,
    address: str | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """A row for each recording, in the order of ``addresses_in``, whatever the engine. **Shape** ``COLUMNS``.

    ``address``: of a Dask scheduler, a Ray cluster or a Spark master; None: a cluster of ``workers`` processes is
    started here. **Errors** BadInput for an engine that is not there, an address with nothing behind it.
    """
    found = addresses_in(addresses)
    return table_of(list(map_over(row_of, found, engine, address=address, workers=workers)))


def addresses_in(addresses: Sequence[str]) -> list[str]:
    """Recordings by their absolute paths, or what fsspec opens: files, all in a folder, and what a pattern matches."""
    found: dict[str, None] = {}
    for one in addresses:
        found.update(dict.fromkeys(_remote(one) if is_remote(one) else _local(one.removeprefix("file://"))))
    return list(found)


def _local(pattern: str) -> Iterator[str]:
    from ..jobs import recordings_in

    paths = [Path(pattern)]
    if not paths[0].exists() and glob.has_magic(pattern):
        paths = [Path(one) for one in sorted(glob.glob(pattern, recursive=True))]
        if not paths:
            raise BadInput(f"{pattern} matches nothing")
    for path in recordings_in(paths):
        yield str(path.absolute())  # the workers of a cluster are in another folder


def _remote(address: str) -> list[str]:
    if address.endswith(".parquet") and not glob.has_magic(address):
        return [address]
    found = [place.url for place in Source(address).places() if place.size_bytes is not None]
    if not found:
        raise BadInput(
            f"{without_credentials(address)} has no recording in it: name a folder with files such as run.parquet"
        )
    return found


def why_none_is_readable(rows: pd.DataFrame) -> str | None:
    """In a line, with the first one's reason; None if there are no rows, or one was read."""
    if not len(rows) or (rows["verdict"] != UNREADABLE).any():
        return None
    return f"none of {len(rows)} recordings can be read: {rows['error'].iloc[0]}"


def write(rows: pd.DataFrame, output: Path) -> None:
    """By its suffix: parquet, CSV without the whole reports, or a JSON object a line."""
    if output.suffix == ".parquet":
        rows.to_parquet(output, index=False)
    elif output.suffix == ".csv":
        rows.drop(columns="report_json").to_csv(output, index=False)
    else:
        rows.to_json(output, orient="records", lines=True)


def summary(rows: pd.DataFrame, seconds: float, engine: str) -> str:
    """What leaks before all else, then what could not be read, and how many of each verdict there are."""
    order = {LEAKING: 0, FAILED: 1, UNREADABLE: 1}
    told = sorted(rows.to_dict("records"), key=lambda row: (order.get(row["verdict"], 2), -_whole(row["growth_bytes"])))
    cells = [_cells(row) for row in told[:_SHOWN]]
    widths = [max(map(len, column)) for column in zip(*cells)] if cells else []
    lines = []
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        lines.append(line if len(line) <= _LINE else line[: _LINE - 1] + "…")
    counts = rows["verdict"].value_counts()
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    more = [f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    closing = f"{len(rows)} recordings: {said} ({engine}, {format_duration(seconds)})"
    return "\n".join([*lines, *more, closing])


def _cells(row: Mapping[Any, Any]) -> tuple[str, ...]:
    rank = f"rank {row['rank']}" if _is_there(row["rank"]) else ""
    growth = format_bytes(row["growth_bytes"], signed=True) if _is_there(row["growth_bytes"]) else ""
    said = next((str(row[name]) for name in ("error", "first_title") if _is_there(row[name])), "")
    return tuple(map(printable, (str(row["verdict"]), growth, Path(row["path"]).name, rank, said)))


def _whole(value: Any) -> int:
    return int(value) if _is_there(value) else 0


def _is_there(value: Any) -> bool:
    import pandas as pd

    return not pd.isna(value)
