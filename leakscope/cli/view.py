"""``leakscope view``: the page of a report in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import command, run_argument, say


@command(
    examples=[
        ("leakscope view", "the page of run.parquet, also while it is recorded"),
        ("leakscope view --no-browser", "print its address: from afar, ssh -L leads there"),
    ]
)
@run_argument
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def view(run: Path, no_browser: bool) -> int:
    """Show the report as a page in the browser; while the run is still recorded the page renews itself.

    RUN is the recording; run.parquet if none is named. The page comes from a server that only this computer reaches, at
    an address that nobody can guess. ^C ends it, and the exit status is 0. For a page to keep: `leakscope report -o
    report.html`.
    """
    from .. import viewing

    return viewing.view(run, browser=not no_browser, say=say)
