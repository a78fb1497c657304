"""``leakscope fleet analyze``: a whole report of each of many recordings, as rows; here or on a cluster."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..engines import ENGINES, map_over
from ..errors import BadInput, UnreadableRecording
from ..units import format_bytes, format_duration
from ..words import printable
from .report_rows import COLUMNS, FAILED, LEAKING, UNREADABLE, filesystems, is_remote, row_of, table_of

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".parquet", ".csv", ".jsonl")
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
    try:
        system, path = filesystems().core.url_to_fs(address)
        is_one = path.endswith(".parquet") and not glob.has_magic(path)
        names = [path] if is_one else system.glob(path) if glob.has_magic(path) else system.find(path)
    except (OSError, ImportError, ValueError) as error:
        raise BadInput(f"{address} cannot be listed: {' '.join(str(error).split())}") from None
    found = [system.unstrip_protocol(name) for name in sorted(names) if name.endswith(".parquet")]
    if not found:
        raise BadInput(f"{address} has no recording in it: name a folder with files such as run.parquet")
    return found


@click.command()
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--engine", default="local", show_default=True, metavar="NAME", help=f"One of {', '.join(ENGINES)}.")
@click.option("--workers", type=int, metavar="COUNT", help="Processes to use here; as many as there are cores.")
@click.option("--address", metavar="URL", help="Of a Dask scheduler, Ray cluster or Spark master that runs.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help=f"Write all rows to a file: {', '.join(SUFFIXES)}."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
def analyze(
    urls: tuple[str, ...], engine: str, workers: int | None, address: str | None, output: Path | None, quiet: bool
) -> None:
    """Report on each of many recordings, as one row a recording.

    URL is a recording, a folder, a pattern such as 'runs/*.parquet', or an address that fsspec opens, such as
    s3://bucket/runs. Each is analysed by itself, on this computer or on a cluster of Dask, Ray or Spark; the rows are
    the same. A recording that cannot be read is a row that says why. Exits with 3 if none can be read.

    \b
    Examples:
      leakscope fleet analyze runs/
      leakscope fleet analyze runs/ -o rows.parquet
      leakscope fleet analyze s3://bucket/runs --engine dask --address tcp://head:8786
    """
    if output is not None and output.suffix not in SUFFIXES:
        raise BadInput(f"{output}: rows are written as {', '.join(SUFFIXES)}")
    began = time.monotonic()
    rows = analyze_all(urls, engine, address=address, workers=workers)
    if output is not None:
        write(rows, output)
    if not quiet:
        click.echo(summary(rows, time.monotonic() - began, engine))
    if len(rows) and (rows["verdict"] == UNREADABLE).all():
        raise UnreadableRecording(f"none of {len(rows)} recordings can be read: {rows['error'].iloc[0]}")


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


__all__ = ["COLUMNS", "addresses_in", "analyze", "analyze_all", "summary", "write"]
