"""``leakscope redact``: a recording to send away."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import command, quiet_option, say


@command(examples=[("leakscope redact run.parquet -o to-send.parquet", "a copy for others")])
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Write to this file, a new one.")
@quiet_option
def redact(run: Path, output: Path, quiet: bool) -> None:
    """Copy a recording without the texts that are yours, to send it away.

    Command lines, folders, keys of dicts, messages of exceptions, sources and the names of host and user become
    placeholders, the same for the same text. Figures, names of variables, functions and types, and what `report` finds
    stay.
    """
    from ..redacting import redact as without_texts
    from ..units import format_bytes

    count = without_texts(run, output)
    if not quiet:
        size = format_bytes(output.stat().st_size)
        say(f"{count:,} texts of {run} are placeholders in {output} ({size})")
