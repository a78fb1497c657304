"""``leakscope export``: a recording for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import BadInput
from ._shared import Format, command, not_the_recording, plugins_of, quiet_option, run_argument, say

_EXPORTS = plugins_of("exporting")


@command(
    examples=[
        ("leakscope export", "a trace for ui.perfetto.dev: run.trace.json.gz"),
        ("leakscope export --with torch.json", "in one file with a trace of torch.profiler"),
        ("leakscope export -f speedscope", "who asked for what is alive, as flame graphs"),
        ("leakscope export -f csv --to tables", "each table as a file"),
    ]
)
@run_argument
@click.option(
    "-f",
    "--format",
    "format_name",
    type=Format(_EXPORTS),
    metavar="FORMAT",
    help=f"{', '.join(plugins_of('exporting'))}.  [default: perfetto, or by the name of -o]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file, - for stdout; a name in .gz is packed.  [default: RUN's name with the format's ending]",
)
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Folder for csv and parquet.")
@click.option(
    "--with",
    "beside",
    type=click.Path(path_type=Path),
    metavar="TRACE",
    help="For perfetto: a trace of torch.profiler to put into the same file, on one clock.",
)
@quiet_option
def export(
    run: Path, format_name: str | None, output: Path | None, folder: Path | None, beside: Path | None, quiet: bool
) -> None:
    """Write a recording for other tools: a trace, flame graphs of allocations, tables, metrics.

    RUN is the recording, also one that is still running; run.parquet if none is named. perfetto: counters, phases,
    steps, snapshots, kills and findings on a time line. speedscope, collapsed and pprof: live allocations by stack.
    openmetrics: all samples for Prometheus. csv and parquet: a file for each table.
    """
    from .. import exporting
    from ..storage import open_recording
    from ..units import format_bytes

    format_name = format_name or (exporting.format_of(output) if output else exporting.TRACE)
    by_table = exporting.is_by_table(format_name)
    if by_table and (output is not None or folder is None):
        raise BadInput(f"{format_name} makes a file for each table: name a folder for them, --to DIR")
    if folder is not None and not by_table:
        raise BadInput(f"--to is for csv and parquet: name the file of {format_name} by -o")
    not_the_recording(output, run)
    recording = open_recording(run)
    if folder is not None:
        written = exporting.export_tables(recording, format_name, folder)
        told = f"{len(written)} tables, {sum(written.values()):,} rows in {folder}"
    else:
        output = output or exporting.default_output(recording, format_name)
        exporting.export(recording, format_name, output, beside=beside)
        told = f"{output} ({format_bytes(output.stat().st_size)})" if output != exporting.STDOUT else ""
    if told and not quiet:
        say(f"{told}")
