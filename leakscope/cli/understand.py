"""Understand: what grew, who holds it, who was killed for it."""

from __future__ import annotations

import importlib
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
    is_job,
    not_the_recording,
    output_option,
    plugins_of,
    run_argument,
    say,
    text_or_json,
    write_or_print,
)


@command(
    examples=[
        ("leakscope report", "what grew, who holds it, what to do"),
        ("leakscope report -o report.html", "the same as a page, with charts"),
        ("leakscope report -f brief", "under 2 KB, for a chat or a coding agent"),
        ("leakscope report runs/a.parquet -f json", "for a program"),
        ("leakscope report job/", "the ranks of one job: which leak, which do not"),
    ]
)
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@format_option(*plugins_of("renderers"))
@output_option
@click.option("--only", multiple=True, metavar="KIND", help="Look for this kind of finding only; repeatable.")
@click.option("--ranks", is_flag=True, help="Rank by rank, also where one recording has them all.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a finding of severity warning or critical.")
@click.option("--all-findings", is_flag=True, help="Also those that [tool.leakscope] of pyproject.toml ignores.")
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
        if only or verbose:
            raise BadInput("--only and --verbose are for one recording, not for the ranks of a job")
        return _report_job(runs or (DEFAULT_RUN,), format_name, output, exit_code, all_findings, color)
    run = runs[0] if runs else DEFAULT_RUN
    from ..ignoring import Ignores, read_ignores, without_ignored
    from ..renderers import render
    from ..reporting import analyze
    from ..storage import open_recording

    format_name = format_name or (_format_for(output) if output else "terminal")
    not_the_recording(output, run)
    ignores = Ignores() if all_findings else read_ignores(Path.cwd())
    result = without_ignored(analyze(open_recording(run), only=only or None), ignores)
    asked: dict[str, dict[str, Any]] = {
        "terminal": {"verbose": verbose, "color": color_of(color)},
        "json": {"with_timeline": True} if with_timeline else {},
    }
    text = render(result, format_name, **asked.get(format_name, {}))
    write_or_print(text, output, format_name, color=color_of(color))
    return int(exit_code and any(finding.severity != "note" for finding in result.findings))


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


@command(
    examples=[
        ("leakscope heap", "who holds how much"),
        ("leakscope heap --diff", "what grew"),
        ("leakscope heap --path Tensor", "what keeps objects of that type alive"),
        ("leakscope heap --gpu --diff", "who got ever more memory of a GPU"),
    ]
)
@run_argument
@click.option("-p", "--pid", type=int, metavar="PID", help="Process; the one with the largest heap by default.")
@click.option("--at", "at_s", type=float, metavar="SECONDS", help="The snapshot nearest to this moment, not the last.")
@click.option("--at-end", is_flag=True, help="The snapshot made as it ended, not the last one while it worked.")
@click.option("--since", "since_s", type=float, metavar="SECONDS", help="Growth since the one nearest to this moment.")
@click.option("--diff", "by_growth", is_flag=True, help="Sort by growth, and show what grew only.")
@click.option("--path", "wanted", metavar="TEXT", help="Who holds the objects with this in their type or name.")
@click.option("--gpu", "on_devices", is_flag=True, help="Who holds what tensors have on GPUs, not memory of the host.")
@click.option("--full", is_flag=True, help="With --path: of all objects, small ones too, by type or address.")
@click.option("--depth", type=click.IntRange(0), default=12, show_default=True, help="Levels to show.")
def heap(
    run: Path,
    pid: int | None,
    at_s: float | None,
    at_end: bool,
    since_s: float | None,
    by_growth: bool,
    wanted: str | None,
    on_devices: bool,
    full: bool,
    depth: int,
) -> None:
    """Show the Python heap of a process by who holds it: exact sizes, at any snapshot.

    That is the last one which saw it at work: as a program ends, the variables of its functions are gone.
    """
    from .. import browsing
    from ..storage import open_recording

    if at_end and at_s is not None:
        raise BadInput("--at and --at-end name two snapshots: choose one")
    if full and wanted is None:
        raise BadInput("--full needs --path: an address, or a part of the name of a type")
    if full and on_devices:
        raise BadInput("--full has memory of the host only: leave --gpu out")
    recording = open_recording(run)
    if full and wanted is not None:
        shown = browsing.every_way(recording, wanted, pid=pid, at_s=at_s, at_end=at_end)
    elif wanted is not None:
        shown = browsing.ways(recording, wanted, pid=pid, at_s=at_s, at_end=at_end, on_devices=on_devices)
    else:
        shown = browsing.show(
            recording, pid=pid, at_s=at_s, since_s=since_s, at_end=at_end, by_growth=by_growth, depth=depth,
            on_devices=on_devices,
        )  # fmt: skip
    write_or_print(shown, None, "terminal")


@command(
    examples=[
        ("dmesg | leakscope oom -", "who was killed, and why"),
        ("leakscope oom pod.log -f json", "for a program"),
    ]
)
@click.argument("log", metavar="FILE", type=click.Path(allow_dash=True))
@text_or_json
def oom(log: str, format_name: str) -> None:
    """Say who was killed for memory, by which limit, and who held it.

    FILE is any log with evidence, or - for standard input: dmesg, journalctl, syslog, kubectl, earlyoom, ...
    """
    import json

    from .. import oom as reader

    try:
        data = sys.stdin.buffer.read() if log == "-" else Path(log).read_bytes()
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror or error}") from None
    reading = reader.read(data)
    text = json.dumps(reader.as_json(reading), indent=1) if format_name == "json" else reader.as_text(reading)
    write_or_print(text, None, format_name)


@command(
    "whatif",
    examples=[
        ("leakscope whatif", "would MALLOC_ARENA_MAX=2, malloc_trim or jemalloc help?"),
        ("leakscope whatif run.parquet -p 4242 -f json", "of that process, for a program"),
    ],
)
@run_argument
@click.option("-p", "--pid", type=int, metavar="PID", help="Process; the one of which malloc kept most by default.")
@text_or_json
def what_if(run: Path, pid: int | None, format_name: str) -> int:
    """Say what a process would hold under other allocators and settings of malloc, by a replay.

    What was sampled of its calls of malloc (sizes, threads, lives) is done again here, under glibc's malloc with some
    settings, and under jemalloc, mimalloc and tcmalloc where they are installed. The program itself is not run. It
    takes half a minute, and at most 1 GiB of memory. Exits with 4 if the replay of what was recorded does not come out
    as that was: then nobody can tell.
    """
    import json

    from .. import replaying
    from ..storage import open_recording

    found = replaying.what_if(open_recording(run), pid)
    text = json.dumps(replaying.as_json(found), indent=1) if format_name == "json" else replaying.as_text(found)
    write_or_print(text, None, format_name)
    return 0 if found.is_true else 4
