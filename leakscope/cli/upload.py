"""``leakscope upload``: recordings that were left in the spool."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import command, say


@command(
    examples=[
        ("leakscope upload", "what recorders that were killed left here"),
        ("leakscope upload run.parquet --to s3://bucket/runs/run.parquet", "any recording"),
    ],
    exits={2: "one could not be uploaded"},
)
@click.argument("runs", nargs=-1, metavar="[RUN]...", type=click.Path(path_type=Path))
@click.option("--to", "url", metavar="URL", help="Where to; ends with / for a folder. By default where each was to go.")
@click.option("--spool", type=click.Path(path_type=Path), metavar="FOLDER", help="Where recordings wait.")
@click.option("--dry-run", is_flag=True, help="List what waits, and upload nothing.")
@click.option("-f", "--force", is_flag=True, help="Replace an earlier recording there instead of renaming it.")
def upload(runs: tuple[Path, ...], url: str | None, spool: Path | None, dry_run: bool, force: bool) -> int:
    """Upload recordings: those that wait for it, or RUN.

    A recording made with `record -o s3://...` waits in a folder of this machine until it is uploaded; it stays there
    when its recorder is killed or the store cannot be reached. One that is over is finished, gets its verdict, is
    uploaded and taken away; one that goes on is uploaded as far as it is. RUN itself stays where it is.
    """
    from .. import uploading

    return uploading.upload_all(runs, url, spool, say, dry_run=dry_run, force=force)
