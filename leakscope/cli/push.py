"""``leakscope push``: a recording for an experiment tracker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ._shared import command, quiet_option, run_argument, say


@command(
    examples=[
        ("leakscope push --to wandb:my-project", "curves, verdict and page of run.parquet"),
        ("leakscope push runs/a.parquet --to tensorboard:runs", "next to the job's own curves"),
    ]
)
@run_argument
@click.option(
    "--to",
    "targets",
    multiple=True,
    required=True,
    metavar="TRACKER[:WHERE]",
    help="wandb[:PROJECT], mlflow[:EXPERIMENT], tensorboard[:FOLDER] or comet[:PROJECT]; repeatable.",
)
@quiet_option
def push(run: Path, targets: tuple[str, ...], quiet: bool) -> None:
    """Log a recording to an experiment tracker: memory over time, the verdict, the first finding, the page.

    RUN is the recording; one that still runs is followed until it ends. `record --log-to` does the same from the
    start. Servers and logins are those of each tracker's own environment variables.
    """
    from .. import pushing

    for target in targets:
        try:
            where = pushing.push(run, target)
        except pushing.TookTooLong as error:
            say(str(error))
            sys.stderr.flush()
            os._exit(error.exit_status)
        if not quiet:
            say(f"{target.partition(':')[0]}: {where}")
