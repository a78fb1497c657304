"""Decide: did the fix work, are the rules kept? Their exit status is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..errors import BadInput
from ._shared import (
    by_suffix,
    command,
    format_option,
    is_job,
    not_the_recording,
    output_option,
    run_argument,
    say,
    text_or_json,
    write_or_print,
)


@command(
    examples=[
        ("leakscope compare before.parquet run.parquet", "did the fix work?"),
        ("leakscope compare nightly-*.parquet -o trend.html", "since which run is it worse?"),
        ("leakscope compare job-before/ job-after/", "two jobs, rank by rank"),
    ]
)
@click.argument("runs", nargs=-1, required=True, metavar="BEFORE [BETWEEN]... AFTER", type=click.Path(path_type=Path))
@format_option("html", "json", "markdown", "terminal")
@output_option
def compare(runs: tuple[Path, ...], format_name: str | None, output: Path | None) -> int:
    """Say whether a fix worked, from a recording made before it and one made after.

    Of more recordings, the oldest first, the last is compared with the first, and it is said since which run it is so.
    Two folders are two jobs: they are compared rank by rank.
    Exits with 0 if it is better or the same, 1 if it is worse, 4 if unclear: of another program, or of a run
    that failed, neither is said.
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


@command(
    examples=[
        ("leakscope fix", "print the edit as a diff; nothing is changed"),
        ("leakscope fix | git apply", "make it"),
        ("leakscope fix --prove", "record a copy of the program with it, and compare"),
    ]
)
@run_argument
@click.option("--finding", "number", type=int, metavar="NUMBER", help="[default: the first that has an edit]")
@click.option("--prove", is_flag=True, help="Record the program with the edit, in a copy of its sources, and compare.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="fixed.parquet", show_default=True,
    help="With --prove: where to write the recording.",
)  # fmt: skip
def fix(run: Path, number: int | None, prove: bool, output: Path) -> int:
    """Print the smallest edit that follows the advice of a report, as a diff. Nothing of yours is changed.

    The advice and what to look at are told on standard error. With --prove the program is run again, with the edit, as
    long as it takes to end: what it prints goes to standard error, and what it writes is written.
    Exits with 0 if there is an edit, 4 if none is certain enough: then it says why. With --prove as compare does.
    """
    from .. import comparing, fixing
    from ..storage import open_recording

    recording = open_recording(run)
    if prove:
        not_the_recording(output, run)
    found = fixing.fix_of(recording, number)
    say(f"finding {found.number}: {found.finding.title}")
    for advice in found.finding.remedy[:1]:
        say(f"do: {advice}")
    if found.diff is None:
        say(f"no edit is certain enough: {found.note}")
        return fixing.NO_EDIT
    if found.note:
        say(f"look at this: {found.note}")
    write_or_print(found.diff, None, "terminal")
    if not prove:
        return 0
    result = fixing.prove(found, recording, output)
    write_or_print(comparing.render(result, "terminal"), None, "terminal")
    say(fixing.told(result, found))
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


@command(
    examples=[
        ("leakscope check", "it must not leak"),
        ("leakscope check --max-growth 5MB/1000steps --no-oom", "rules of your own"),
    ]
)
@run_argument
@click.option("--max-growth", metavar="RATE", help="5MB/1000steps, 20KB/step or 50MB/hour.")
@click.option("--max-rss", metavar="SIZE", help="Most memory of all processes together, shared pages counted once.")
@click.option("--max-workers", metavar="COUNT", help="Most data loader workers at once.")
@click.option("--no-duplicates", is_flag=True, help="No model may be in memory twice.")
@click.option("--no-oom", is_flag=True, help="No process may have been killed for memory.")
@click.option("--no-findings", multiple=True, metavar="KIND", help="No finding of this kind; repeatable.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="RUN", help="Must not be worse than this recording."
)
@click.option(
    "--inconclusive", metavar="[pass|fail]", help="Result of a rule that cannot be decided.  [default: exit 4]"
)
@text_or_json
def check(run: Path, format_name: str, **options: Any) -> int:
    """Hold a recording to rules: a gate for CI. Without any rule it must not leak.

    Rules not given here come from [tool.leakscope.check] in the pyproject.toml of the working folder. Findings that
    `ignore` of [tool.leakscope] names break no rule, and are counted. Exits with 0 if all are kept, 1 if one is broken,
    4 if the recording cannot tell, as of a run that failed.
    """
    from .. import checking
    from ..ignoring import read_ignores
    from ..storage import open_recording

    rules = checking.read_rules({name.replace("_", "-"): value for name, value in options.items()}, Path.cwd())
    baseline = open_recording(rules.baseline) if rules.baseline is not None else None
    ignores = read_ignores(Path.cwd())
    for note in ignores.notes:
        say(note)
    result = checking.check(open_recording(run), rules, baseline, ignores)
    write_or_print(checking.render(result, format_name), None, format_name)
    return result.exit_status
