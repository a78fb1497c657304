"""``leakscope import``: files of other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import command, quiet_option, say


@command(
    "import",
    examples=[
        ("leakscope import mprofile_1.dat", "then: leakscope report"),
        ("leakscope import gpu.csv top.log kern.log -o run.parquet", "several files, one recording"),
        ("leakscope import smi.csv --tz Europe/Berlin", "its clock is local time"),
        ("leakscope import psrecord.txt top.log --offset psrecord.txt=90s", "it began 90 s later"),
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default="run.parquet", show_default=True)
@click.option(
    "--from", "form", metavar="FORMAT", help="Of all FILEs, where it cannot be recognised from their contents."
)
@click.option(
    "--tz", metavar="ZONE", help="Zone of clocks that name none: Europe/Berlin, +02:00, local.  [default: UTC]"
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    metavar="[FILE=]TIME",
    help="Move a file's clock: by -30s or 2h; to a date, where it counts from 0 (of boot, of its start). Repeatable.",
)
@click.option("--force", is_flag=True, help="Replace the output if it is there.")
@quiet_option
def import_(
    files: tuple[Path, ...],
    output: Path,
    form: str | None,
    tz: str | None,
    offsets: tuple[str, ...],
    force: bool,
    quiet: bool,
) -> None:
    """Make a recording of files that other tools left: logs, series, snapshots.

    FILEs of one run become one recording on one clock; of a folder, all that are known. Everything else works on it:
    report, view, compare, check. What a source cannot say is not checked, and the report says so. The formats are
    listed in docs/reference/import.md.
    """
    from .. import importing

    done = importing.import_files(files, output, form=form, placing=importing.placing(tz, offsets), force=force)
    if not quiet:
        for line in done.lines:
            say(line)
        say(f"{done.row_count:,} rows in {output}: leakscope report {output}")
