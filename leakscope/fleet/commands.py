"""The commands of ``leakscope fleet``: parse, call one function, print. Registered in cli.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..errors import BadInput
from .analyzing import analyze

_index_argument = click.argument("index", type=click.Path(path_type=Path), default="fleet.parquet")
_where = click.option(
    "-w", "--where", multiple=True, metavar="RULE",
    help="Only recordings for which this holds: job=llm, peak_bytes>40GiB, node~gpu-1*, leaking; repeatable.",
)  # fmt: skip
_output = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to a file; its suffix implies the format."
)


def group(command_class: type[click.Command], format_type: type[click.Choice]) -> click.Group:  # type: ignore[type-arg, unused-ignore]
    """``leakscope fleet``, of commands whose help and formats are as those of all others."""

    class Fleet(click.Group):
        def get_help_option_names(self, ctx: click.Context) -> list[str]:
            ctx.help_option_names = ["-h", "--help"]
            return super().get_help_option_names(ctx)

        def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Examples"):
                formatter.write_dl(_EXAMPLES, col_max=52)

    fleet = Fleet("fleet", help=_HELP, short_help=_HELP.partition("\n")[0])

    def add(name: str, function: Any, params: Sequence[Any], examples: Sequence[tuple[str, str]]) -> None:
        for param in reversed(params):
            function = param(function)
        fleet.add_command(click.command(name, cls=command_class, examples=examples)(function))

    def formats(*names: str) -> Any:
        return click.option("-f", "--format", "format_name", type=format_type(list(names)),
                            help="[default: terminal, or by the suffix of -o]")  # fmt: skip

    add(
        "index", _index,
        [
            click.argument("urls", nargs=-1, required=True, metavar="URL..."),
            click.option("-o", "--output", type=click.Path(path_type=Path), default="fleet.parquet", show_default=True,
                         help="The index: made, or brought up to date."),
            click.option("--anew", is_flag=True, help="Read every recording, also those that did not change."),
            click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails."),
        ],
        [
            ("leakscope fleet index runs/", "all recordings below a folder"),
            ("leakscope fleet index 's3://bucket/runs/*/*.parquet'", "of a bucket (needs s3fs)"),
        ],
    )  # fmt: skip
    add(
        "list", _list,
        [
            _index_argument,
            _where,
            click.option("-s", "--sort", default="-growth_bytes_per_hour", show_default=True, metavar="COLUMN",
                         help="Sort by a column of the index; with - in front, the largest first."),
            click.option("-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True,
                         help="Print so many at most in the terminal; 0: all."),
            click.option("-c", "--columns", metavar="NAMES", help="Columns, parted by commas; 'all' for every one."),
            formats("csv", "json", "terminal"),
            _output,
        ],
        [
            ("leakscope fleet list -w leaking", "what leaks, fastest first"),
            ("leakscope fleet list -w 'node~gpu-1*' -s -peak_bytes", "the largest on some nodes"),
            ("leakscope fleet list -w state=unreadable -o bad.csv", "what cannot be read, and why"),
        ],
    )  # fmt: skip
    add(
        "report", _report,
        [_index_argument, _where, formats("html", "json", "terminal"), _output],
        [
            ("leakscope fleet report", "what many have in common, and who differs"),
            ("leakscope fleet report -w job=pretrain-7b -o job.html", "of one job, as a page"),
        ],
    )  # fmt: skip
    add(
        "query", _query,
        [
            click.argument("sql", metavar="SQL"),
            click.option("-i", "--index", "index", type=click.Path(path_type=Path), default="fleet.parquet",
                         show_default=True, help="The index to ask."),
            _where,
            click.option("--memory", metavar="SIZE", default="1GB", show_default=True, help="Most memory it may take."),
            click.option("--engine", type=click.Choice(["duckdb"]), default="duckdb", hidden=True),
            formats("csv", "json", "terminal"),
            _output,
        ],
        [
            ("leakscope fleet query 'SELECT job, max(peak_bytes) FROM recordings GROUP BY job'", "of the index"),
            ("leakscope fleet query -w job=llm 'SELECT * FROM process_growth ORDER BY 5 DESC LIMIT 9'", "of samples"),
        ],
    )  # fmt: skip
    fleet.add_command(analyze)
    return fleet


_HELP = """Say which of many recordings leak, on which ranks and hosts, and since when.

First `index` reads the footers of all recordings in folders or buckets into one file; the other commands ask that.
"""
_EXAMPLES = (
    ("leakscope fleet index runs/", "one row a recording, into fleet.parquet"),
    ("leakscope fleet report", "what many have in common, and who differs"),
    ("leakscope fleet list -w leaking", "which leak, fastest first"),
    ("leakscope fleet query 'SELECT * FROM findings'", "SQL, by DuckDB"),
)


def _index(urls: tuple[str, ...], output: Path, anew: bool, quiet: bool) -> None:
    """Bring an index of recordings up to date: one row each, read from their footers alone.

    A URL is a folder, a glob in quotes, a file, or an address that fsspec knows, such as s3://bucket/runs. What did not
    change since the last time is not read again. Recordings that cannot be read, and journals that nobody finalised,
    are rows too.
    """
    from . import index

    with _progress(quiet) as said:
        done = index.index(urls, output, anew=anew, progress=said)
    if not quiet:
        click.echo(f"leakscope: {index.as_text(done, output)}", err=True)


class _progress:
    """A line on a terminal's stderr while it goes on."""

    def __init__(self, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Any:
        def say(done: int, of: int) -> None:
            if self._shown:
                click.echo(f"\rleakscope: read {done:,} of {of:,}", nl=False, err=True)

        return say

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\033[K", nl=False, err=True)


def _list(
    index: Path,
    where: tuple[str, ...],
    sort: str,
    limit: int,
    columns: str | None,
    format_name: str | None,
    output: Path | None,
) -> None:
    """List recordings of an index: as a table, CSV or JSON.

    Without -c the table has the columns that matter most; CSV and JSON have all. Every column: docs/fleet.md.
    """
    from . import listing

    format_name = format_name or _by_suffix(output, {".csv": "csv", ".json": "json", ".txt": "terminal"})
    names = columns.split(",") if columns else None
    text = listing.listed(index, where, sort=sort, limit=limit, columns=names, format_name=format_name)
    _print(text, output)


def _report(index: Path, where: tuple[str, ...], format_name: str | None, output: Path | None) -> None:
    """Say what many recordings have in common: the same leak, where and since when; who differs; kills; commits; news.

    Of all recordings of an index, or of those that -w chooses, such as one job. What chance could do is not told.
    """
    from . import rendering, report
    from .index import read_index
    from .rules import matching

    format_name = format_name or _by_suffix(output, {".html": "html", ".json": "json", ".txt": "terminal"})
    found = read_index(index)
    rules = list(where)
    keep = (lambda frame: frame.index.isin(matching(frame, rules).index)) if rules else None
    _print(rendering.render(report.report_of(found, keep), format_name), output)


def _query(
    sql: str,
    index: Path,
    where: tuple[str, ...],
    memory: str,
    engine: str,
    format_name: str | None,
    output: Path | None,
) -> None:
    """Ask an index and the samples of its recordings by SQL (DuckDB).

    Views: recordings, findings, process_growth (slope and peak of each process), and every table of a recording, such
    as process_samples, with the column recording in front. -w limits which recordings are read. Nothing is written, and
    no other file of this host can be read. All views: docs/fleet.md.
    """
    from ..units import parse_bytes
    from . import asking

    format_name = format_name or _by_suffix(output, {".csv": "csv", ".json": "json", ".txt": "terminal"})
    _print(asking.answer(index, sql, where, most_bytes=int(parse_bytes(memory)), format_name=format_name), output)


def _by_suffix(output: Path | None, formats: dict[str, str]) -> str:
    if output is None:
        return "terminal"
    if output.suffix not in formats:
        raise BadInput(f"{output}: no format is known by {output.suffix!r} (there are {', '.join(sorted(formats))})")
    return formats[output.suffix]


def _print(text: str, output: Path | None) -> None:
    if output is not None:
        output.write_text(click.unstyle(text), encoding="utf-8")
    else:
        click.echo(text, nl=False)
