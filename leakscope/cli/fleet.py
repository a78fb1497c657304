"""Many recordings: the commands of ``leakscope fleet``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..engines import ENGINES
from ..errors import BadInput, UnreadableRecording
from ._shared import Group, by_suffix, format_option, output_option, quiet_option, say, write_or_print

_TABLES = {".csv": "csv", ".json": "json", ".txt": "terminal"}
_RESULTS = {**_TABLES, ".parquet": "parquet"}
_PAGES = {".html": "html", ".json": "json", ".txt": "terminal"}
_ROW_SUFFIXES = (".parquet", ".csv", ".jsonl")

_index_argument = click.argument("index", type=click.Path(path_type=Path), default="fleet.parquet")
_where = click.option(
    "-w", "--where", multiple=True, metavar="RULE",
    help="Only recordings for which this holds: job=llm, peak_bytes>40GiB, node~gpu-1*, leaking; repeatable.",
)  # fmt: skip


@click.group(
    cls=Group,
    examples=[
        ("leakscope fleet index runs/", "one row a recording, into fleet.parquet"),
        ("leakscope fleet report", "what many have in common, and who differs"),
        ("leakscope fleet list -w leaking", "which leak, fastest first"),
        ("leakscope fleet query 'SELECT max(peak_bytes) FROM recordings'", "SQL, by DuckDB"),
        ("leakscope fleet demo runs/", "recordings to try it on"),
    ],
)
def fleet() -> None:
    """Say which of many recordings leak, on which ranks and hosts, and since when.

    First `index` reads the footers of all recordings in folders or buckets into one file; the other commands ask that.
    """


@fleet.command(
    examples=[
        ("leakscope fleet index runs/", "all recordings below a folder"),
        ("leakscope fleet index 's3://bucket/runs/*/*.parquet'", "of a bucket (needs s3fs)"),
    ]
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="fleet.parquet", show_default=True,
    help="The index: made, or brought up to date.",
)  # fmt: skip
@click.option("--anew", is_flag=True, help="Read every recording, also those that did not change.")
@click.option(
    "--judge", "judge_s", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="SECONDS",
    help="Judge recordings without a final verdict, for so long; 0: none.",
)  # fmt: skip
@quiet_option
def index(urls: tuple[str, ...], output: Path, anew: bool, judge_s: float, quiet: bool) -> None:
    """Bring an index of recordings up to date: one row each, read from their footers.

    A recording has its verdict in its footer. One that nobody could judge when it ended, or has a verdict of an earlier
    moment only, is judged now; what the time does not suffice for, the next run judges.

    A URL is a folder, a glob in quotes, a file, or an address that fsspec knows, such as s3://bucket/runs. What did not
    change since the last time is not read again. Recordings that cannot be read, and journals that nobody finalised,
    are rows too.
    """
    from ..fleet import index as indexing

    with _progress(quiet) as told:
        done = indexing.index(urls, output, anew=anew, judge_s=judge_s, progress=told)
    if not quiet:
        say(indexing.as_text(done, output))


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A line on a terminal's stderr while it goes on."""
    shown = not quiet and sys.stderr.isatty()

    def tell(done: int, of: int) -> None:
        if shown:
            click.echo(f"\rleakscope: read {done:,} of {of:,}", nl=False, err=True)

    try:
        yield tell
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)


@fleet.command(
    examples=[("leakscope fleet demo runs/", "700 recordings, with seven faults that truth.json names")],
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--whole", is_flag=True, help="With every sample of every process.")
@quiet_option
def demo(folder: Path, whole: bool, quiet: bool) -> None:
    """Write recordings of a fleet that never was, with planted faults, to try the other commands on."""
    from ..fleet.demo import demo

    count, planted = demo(folder, is_whole=whole)
    if not quiet:
        say(f"{folder}: {count:,} recordings, {planted} faults, which {folder / 'truth.json'} names")


@fleet.command(
    "list",
    examples=[
        ("leakscope fleet list -w leaking", "what leaks, fastest first"),
        ("leakscope fleet list -w 'node~gpu-1*' -s -peak_bytes", "the largest on some nodes"),
        ("leakscope fleet list -w state=unreadable -o bad.csv", "what cannot be read, and why"),
    ],
)
@_index_argument
@_where
@click.option(
    "-s", "--sort", default="-growth_bytes_per_hour", show_default=True, metavar="COLUMN",
    help="Sort by a column of the index; with - in front, the largest first.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True,
    help="Print so many at most in the terminal; 0: all.",
)  # fmt: skip
@click.option("-c", "--columns", metavar="NAMES", help="Columns, separated by commas; 'all' for every one.")
@format_option("csv", "json", "terminal")
@output_option
def list_(
    index: Path,
    where: tuple[str, ...],
    sort: str,
    limit: int,
    columns: str | None,
    format_name: str | None,
    output: Path | None,
) -> None:
    """List recordings of an index: as a table, CSV or JSON.

    Without -c the table has the columns that matter most; CSV and JSON have all. Every column: docs/reference/fleet.md.
    """
    from ..fleet import listing

    format_name = format_name or by_suffix(output, _TABLES)
    names = columns.split(",") if columns else None
    text = listing.listed(index, where, sort=sort, limit=limit, columns=names, format_name=format_name)
    write_or_print(text, output, format_name)


@fleet.command(
    examples=[
        ("leakscope fleet report", "what many have in common, and who differs"),
        ("leakscope fleet report -w job=pretrain-7b -o job.html", "of one job, as a page"),
    ]
)
@_index_argument
@_where
@format_option("html", "json", "terminal")
@output_option
def report(index: Path, where: tuple[str, ...], format_name: str | None, output: Path | None) -> None:
    """Say what many recordings have in common: the same leak, where and since when; who differs; kills; commits; news.

    Of all recordings of an index, or of those that -w chooses, such as one job. What chance could do is not told.
    """
    from ..fleet import rendering
    from ..fleet.index import read_index
    from ..fleet.report import report_of
    from ..fleet.rules import matching

    format_name = format_name or by_suffix(output, _PAGES)
    found = read_index(index)
    rules = list(where)
    keep = (lambda frame: frame.index.isin(matching(frame, rules).index)) if rules else None
    write_or_print(rendering.render(report_of(found, keep), format_name), output, format_name)


@contextmanager
def _whole(output: Path) -> Iterator[Path]:
    """A file to write to, which takes the name of another once it is whole."""
    part = output.with_name(f".{output.name}.tmp-{os.getpid()}")
    try:
        yield part
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


@fleet.command(
    examples=[
        ("leakscope fleet query 'SELECT * FROM findings'", "of the index"),
        ("leakscope fleet query -w job=llm 'SELECT * FROM process_growth ORDER BY 5 DESC LIMIT 9'", "of samples"),
    ]
)
@click.argument("sql", metavar="SQL")
@click.option(
    "-i", "--index", type=click.Path(path_type=Path), default="fleet.parquet", show_default=True,
    help="The index to ask.",
)  # fmt: skip
@_where
@click.option("--memory", metavar="SIZE", default="1GiB", show_default=True, help="Most memory it may take.")
@click.option("--engine", type=click.Choice(["duckdb"]), default="duckdb", hidden=True, expose_value=False)
@format_option("csv", "json", "parquet", "terminal")
@output_option
def query(
    sql: str, index: Path, where: tuple[str, ...], memory: str, format_name: str | None, output: Path | None
) -> None:
    """Ask an index and the samples of its recordings by SQL (DuckDB).

    Views: recordings, findings, process_growth (slope and peak of each process), and every table of a recording, such
    as process_samples, with the column recording in front. -w limits which recordings are read. Nothing is written but
    -o, and no other file of this host can be read. CSV, JSON and parquet may be of any length; a table in the terminal
    has to fit into memory. All views: docs/reference/fleet.md.
    """
    from ..fleet import asking
    from ..units import parse_bytes

    format_name = format_name or by_suffix(output, _RESULTS)
    most_bytes = int(parse_bytes(memory))
    if format_name == "parquet":
        if output is None:
            raise BadInput("parquet is no text: name a file with -o")
        with _whole(output) as part:
            asking.write_parquet(index, sql, part, where, most_bytes=most_bytes)
        return
    pieces = asking.chunks(index, sql, where, most_bytes=most_bytes, format_name=format_name)
    if output is None:
        for piece in pieces:
            write_or_print(piece, None, format_name, ends=False)
    else:
        with _whole(output) as part, part.open("w", encoding="utf-8") as file:
            file.writelines(pieces)


@fleet.command(
    examples=[
        ("leakscope fleet analyze runs/", "by the processes of this computer"),
        ("leakscope fleet analyze runs/ -o fleet.parquet", "an index, for `fleet report` and the others"),
        ("leakscope fleet analyze s3://bucket/runs --engine dask --address tcp://head:8786", "by a cluster"),
    ],
    exits={3: "none of them can be read"},
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--engine", default="local", show_default=True, metavar="NAME", help=f"One of {', '.join(ENGINES)}.")
@click.option("--workers", type=int, metavar="COUNT", help="Processes to use here; as many as there are cores.")
@click.option("--address", metavar="URL", help="Of a Dask scheduler, Ray cluster or Spark master that runs.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path),
    help=f"Write all rows to a file: {', '.join(_ROW_SUFFIXES)}. The first is an index.",
)  # fmt: skip
@quiet_option
def analyze(
    urls: tuple[str, ...], engine: str, workers: int | None, address: str | None, output: Path | None, quiet: bool
) -> None:
    """Report on each of many recordings: rows as `index` writes them, judged anew, with the whole reports.

    A URL is what `index` takes. Each recording is analysed by itself, on this computer or on a cluster of Dask, Ray or
    Spark; the rows are the same. It is for recordings without a verdict in their footers, or with one of an older
    version. One that cannot be read is a row that says why.
    """
    from ..fleet import analyzing

    if output is not None and output.suffix not in _ROW_SUFFIXES:
        raise BadInput(f"{output}: rows are written as {', '.join(_ROW_SUFFIXES)}")
    began = time.monotonic()
    found = analyzing.analyze_all(urls, engine, address=address, workers=workers)
    if output is not None:
        analyzing.write(found, output)
    if not quiet:
        write_or_print(analyzing.summary(found, time.monotonic() - began, engine), None, "terminal")
    if (reason := analyzing.why_none_is_readable(found)) is not None:
        raise UnreadableRecording(reason)
