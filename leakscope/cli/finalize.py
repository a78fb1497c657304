"""``leakscope finalize``: files of journals that were left."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import BadInput, LeakscopeError
from ._shared import command, fail, quiet_option, say


@command(
    examples=[
        ("leakscope finalize run.parquet", "after a kill -9 of the recorder"),
        ("leakscope finalize --judge /scratch/4711.*.parquet", "all ranks of a job, each with its verdict"),
    ]
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--keep-journal", is_flag=True, help="Leave the journal folder next to the finished file.")
@click.option("--checkpoint", is_flag=True, help="Bring the file up to date while the recorder goes on.")
@click.option("--judge", is_flag=True, help="Analyse it, and write the verdict and key figures into its footer.")
@quiet_option
def finalize(runs: tuple[Path, ...], keep_journal: bool, checkpoint: bool, judge: bool, quiet: bool) -> int:
    """Turn the journal of a recorder that was killed into a finished file.

    `report` does it by itself; this is for a journal that was copied from elsewhere, to free its space, or to have
    verdicts in the footers of many.
    """
    from ..recorder import staging
    from ..storage import finalize as storage
    from ..storage.whole_heap import identity_of
    from ..units import format_bytes

    if judge and checkpoint:
        raise BadInput("--judge is for a recording that is over, --checkpoint for one that goes on")
    if not judge:
        storage.run_lightly()
    status = 0
    for run in runs:
        if len(runs) > 1 and identity_of(run) is not None:  # *.parquet: whole heaps are beside their recordings
            continue
        try:
            path = storage.finalize(run, keep_journal, checkpoint)
            if judge:
                from ..uploading import judge_file

                judge_file(path)
        except LeakscopeError as error:  # the others are finished all the same
            status = fail(str(error), error.exit_status)
            continue
        if not quiet:
            say(f"{path} is up to date ({format_bytes(path.stat().st_size)})")
    staging.sweep()
    return status
