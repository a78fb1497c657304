"""``leakscope compare``: did the fix work?."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..errors import BadInput
from ._shared import by_suffix, command, format_option, is_job, not_the_recording, output_option, write_or_print


@command(
    examples=[
        ("leakscope compare before.parquet run.parquet", "did the fix work?"),
        ("leakscope compare nightly-*.parquet -o trend.html", "since which run is it worse?"),
        ("leakscope compare job-before/ job-after/", "two jobs, rank by rank"),
    ],
    exits={
        1: "it got worse",
        4: "cannot tell: too short, another program ran, or the run after failed and the one before did not",
    },
)
@click.argument("runs", nargs=-1, required=True, metavar="BEFORE [BETWEEN]... AFTER", type=click.Path(path_type=Path))
@format_option("html", "json", "markdown", "terminal")
@output_option
def compare(runs: tuple[Path, ...], format_name: str | None, output: Path | None) -> int:
    """Say whether a fix worked, from a recording made before it and one made after.

    Of more recordings, the oldest first, the last is compared with the first, and it is said since which run it is so.
    Two folders are two jobs: they are compared rank by rank.
    """
    from .. import comparing
    from ..storage import open_recording

    formats = {suffix: name for name, suffix in comparing.FORMATS.items()}
    format_name = format_name or by_suffix(output, formats)
    if len(runs) < 2:
        raise click.UsageError("compare needs two recordings or more: one from before, one from after")
    not_the_recording(output, *runs)
    if all(map(is_job, runs)):
        return _compare_jobs(runs, format_name, output)
    opened = [open_recording(run) for run in runs]
    several = len(opened) > 2
    result = comparing.compare_in_order(opened) if several else comparing.compare(opened[0], opened[1])
    text = comparing.render(result, format_name)
    write_or_print(text, output, format_name)
    return comparing.EXIT_STATUS[result.verdict]


def _compare_jobs(runs: Sequence[Path], format_name: str, output: Path | None) -> int:
    """Two folders."""
    from .. import comparing, jobs

    if len(runs) > 2:
        raise BadInput(f"{len(runs)} folders: compare two jobs, the one from before and the one after")
    result = jobs.compare_jobs(runs[0], runs[1])
    text = jobs.render(result, format_name)
    write_or_print(text, output, format_name)
    return comparing.EXIT_STATUS[result.verdict]
