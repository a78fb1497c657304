"""``leakscope report``: what grew, who holds it, which line, what to do."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..errors import BadInput
from ._shared import (
    DEFAULT_RUN,
    by_suffix,
    color_of,
    command,
    format_option,
    horizon_option,
    is_job,
    not_the_recording,
    output_option,
    plugins_of,
    write_or_print,
)


@command(
    examples=[
        ("leakscope report", "what grew, who holds it, what to do"),
        ("leakscope report -o report.html", "the same as a page, with charts"),
        ("leakscope report -f brief", "under 2 KB, for a chat or a coding agent"),
        ("leakscope report runs/a.parquet -f json", "for a program"),
        ("leakscope report job/", "the ranks of one job: which leak, which do not"),
    ],
    exits={1: "with --exit-code: there are findings of severity warning or critical"},
)
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@format_option(*plugins_of("renderers"))
@output_option
@click.option("--only", multiple=True, metavar="KIND", help="Look for this kind of finding only; repeatable.")
@click.option("--ranks", is_flag=True, help="Rank by rank, also where one recording has them all.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a finding of severity warning or critical.")
@click.option("--all-findings", is_flag=True, help="Also those that [tool.leakscope] of pyproject.toml ignores.")
@horizon_option
@click.option("--with-timeline", is_flag=True, help="In JSON: also the timeline, the heap and all else to be drawn.")
@click.option("-v", "--verbose", is_flag=True, help="In the terminal: all evidence, and why each kind was ruled out.")
@click.option("--color/--no-color", default=None, help="Colours: by default if the output is a terminal.")
def report(
    runs: tuple[Path, ...],
    format_name: str | None,
    output: Path | None,
    only: tuple[str, ...],
    ranks: bool,
    exit_code: bool,
    all_findings: bool,
    horizon: str | None,
    with_timeline: bool,
    verbose: bool,
    color: bool | None,
) -> int:
    """Say what grew in a recording, who holds it, and what to do.

    RUN is the recording, also one that is still running or was cut off; run.parquet if none is named. What `ignore` of
    [tool.leakscope] in the pyproject.toml of the working folder names is shown as ignored.

    Several, or a folder, are the recordings of the ranks of one job: they are told as one.
    """
    if ranks or len(runs) > 1 or (runs and is_job(runs[0])):
        if only or verbose or horizon is not None:
            raise BadInput("--only, --horizon and --verbose are for one recording, not for the ranks of a job")
        return _report_job(runs or (DEFAULT_RUN,), format_name, output, exit_code, all_findings, color)
    run = runs[0] if runs else DEFAULT_RUN
    from ..ignoring import Ignores, read_ignores, without_ignored
    from ..renderers import render
    from ..reporting import analyze
    from ..settings import horizon_s
    from ..storage import open_recording

    format_name = format_name or (_format_for(output) if output else "terminal")
    not_the_recording(output, run)
    ignores = Ignores() if all_findings else read_ignores(Path.cwd())
    judged = analyze(open_recording(run), only or None, horizon_s=horizon_s(Path.cwd(), horizon))
    result = without_ignored(judged, ignores)
    asked: dict[str, dict[str, Any]] = {
        "terminal": {"verbose": verbose, "color": color_of(color), "height": _height() if output is None else None},
        "json": {"with_timeline": True} if with_timeline else {},
    }
    text = render(result, format_name, **asked.get(format_name, {}))
    write_or_print(text, output, format_name, color=color_of(color))
    return int(exit_code and any(finding.severity != "note" for finding in result.findings))


def _height() -> int | None:
    """Lines of the terminal, where the report goes to one."""
    return shutil.get_terminal_size().lines if sys.stdout.isatty() else None


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
