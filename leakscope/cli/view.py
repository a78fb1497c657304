"""``leakscope view``: the page of a report in a browser."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import click

from ._shared import (
    by_suffix,
    color_of,
    command,
    not_the_recording,
    plugins_of,
    run_argument,
    say,
    write_or_print,
)


def _report_job(
    runs: Sequence[Path],
    format_name: str | None,
    output: Path | None,
    exit_code: bool,
    all_findings: bool,
    color: bool | None,
) -> int:
    """Many recordings told as one."""
    from .. import jobs
    from ..ignoring import Ignores, read_ignores

    formats = {suffix: name for name, suffix in jobs.FORMATS.items()}
    format_name = format_name or by_suffix(output, formats)
    not_the_recording(output, *runs)
    job = jobs.without_ignored(jobs.report_job(runs), Ignores() if all_findings else read_ignores(Path.cwd()))
    text = jobs.render(job, format_name)
    write_or_print(text, output, format_name, color=color_of(color))
    return int(exit_code and any(cluster.severity != "note" for cluster in job.clusters))


def _format_for(output: Path) -> str:
    modules = {name: importlib.import_module(f"leakscope.renderers.{name}") for name in plugins_of("renderers")}
    return by_suffix(output, {module.SUFFIX: name for name, module in modules.items()})


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
