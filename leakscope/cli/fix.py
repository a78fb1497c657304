"""``leakscope fix``: the edit that a report asks for, as a diff, and whether it works."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import (
    command,
    not_the_recording,
    run_argument,
    say,
    write_or_print,
)


@command(
    examples=[
        ("leakscope fix", "print the edit as a diff; nothing is changed"),
        ("leakscope fix | git apply", "make it"),
        ("leakscope fix --prove", "record a copy of the program with it, and compare"),
    ],
    exits={
        1: "with --prove: it got worse",
        4: "there is no finding, or no edit is certain enough: it says why; with --prove: cannot tell",
    },
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

    The advice and what to look at go to standard error. With --prove the program is run again, with the edit, as
    long as it takes to end: what it prints goes to standard error, and what it writes is written.
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
