"""Keep house: what a host can tell, and what is done with files."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ..errors import BadInput, LeakscopeError
from ._shared import PACKAGE, Format, command, fail, quiet_option, say, text_or_json, write_or_print

_JSON_SCHEMAS = ("report", "job", "fleet")
_SCHEMAS = ["recording", *_JSON_SCHEMAS, "markdown", "json"]  # the last two: what it was called by before -f


@command(examples=[("leakscope doctor", "before the first recording on a host")])
@text_or_json
def doctor(format_name: str) -> None:
    """Say which evidence this host and this user can give, and what to do about the gaps."""
    from .. import doctor as examination

    groups = examination.examine()
    text = examination.as_json(groups) if format_name == "json" else examination.as_text(groups)
    write_or_print(text, None, format_name)


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


@command(
    examples=[
        ("leakscope upload", "what recorders that were killed left here"),
        ("leakscope upload run.parquet --to s3://bucket/runs/run.parquet", "any recording"),
    ]
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
    uploaded and taken away; one that goes on is uploaded as far as it is. RUN itself stays where it is. Exits with 2 if
    one could not be uploaded.
    """
    from .. import uploading

    return uploading.upload_all(runs, url, spool, say, dry_run=dry_run, force=force)


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


@command(
    examples=[
        ("leakscope schema", "tables and columns"),
        ("leakscope schema -f json", "the same for a program"),
        ("leakscope schema report", "the JSON Schema of `leakscope report -f json`"),
        ("leakscope schema fleet", "that of `leakscope fleet report -f json`"),
    ]
)
@click.argument("what", metavar="[recording|report|job|fleet]", type=click.Choice(_SCHEMAS), default="recording")
@click.option(
    "-f", "--format", "format_name", type=Format(["json", "markdown"]), default="markdown", show_default=True,
    help="Of the tables; a schema of a report is always JSON.",
)  # fmt: skip
def schema(what: str, format_name: str) -> None:
    """Print what a recording consists of, or the report of a run, a job or a fleet: names, types, units, meaning."""
    if what in _JSON_SCHEMAS:
        click.echo((PACKAGE / f"{what}-schema.json").read_text(encoding="utf-8"), nl=False)
        return
    from ..storage import describe

    is_json = "json" in (what, format_name)
    click.echo(describe.as_json() if is_json else describe.as_markdown(), nl=False)


@command(
    examples=[
        ('eval "$(leakscope completion bash)"', "in ~/.bashrc"),
        ('eval "$(leakscope completion zsh)"', "in ~/.zshrc"),
        ("leakscope completion fish | source", "in ~/.config/fish/config.fish"),
    ]
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and files."""
    completer = get_completion_class(shell)
    if completer is None:
        raise BadInput(f"no completion is known for {shell}")
    every_command = click.get_current_context().find_root().command
    click.echo(completer(every_command, {}, "leakscope", "_LEAKSCOPE_COMPLETE").source())
