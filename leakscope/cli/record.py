"""Record: run a job or join one, and look at it while it goes on. ``record`` itself is the recorder's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ..errors import BadInput
from ..options import ATTACH_LACKS
from ._shared import DEFAULT_RUN, RecorderCommand, command, quiet_option, run_argument, say


@command(
    cls=RecorderCommand,
    options_metavar="[--] COMMAND...",
    examples=[
        ("leakscope record train.py", "run a script, by leakscope's Python"),
        ("leakscope record -- torchrun --nproc-per-node 8 train.py", "any command, with all its processes"),
        ("leakscope record -o runs/{time}.parquet -- python train.py", "a file of its own for each run"),
        ("leakscope record --alert 'oom_eta<30min' -- python train.py", "a word before memory is full"),
    ],
)
def record(arguments: tuple[str, ...]) -> None:
    """Run a command and record the memory of all its processes.

    From outside and, for Python processes, from inside. A script such as train.py is run by leakscope's own Python.
    Exits exactly as the command does; 125 if leakscope itself could not begin, 126 and 127 as a shell. With -p or
    --system: until the process ends, -d is over or ^C; exits with 0.

    Every option can be set in the environment, such as LEAKSCOPE_RECORD_INTERVAL=1s.
    """
    _to_recorder("record", arguments)


@command(examples=[("leakscope demo", "15 seconds, then the page")])
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("leakscope-demo"))
@click.option("--no-browser", is_flag=True, help="Write the page and open no browser.")
def demo(folder: Path, no_browser: bool) -> int:
    """Record a small program that leaks, and show its verdict and its page.

    Takes 15 seconds and needs nothing else. The program, the recording and the page are written to FOLDER.
    """
    from ..demo import demo as show

    return show(folder, browser=not no_browser)


@command(
    cls=RecorderCommand,
    options_metavar="PID...",
    lacks=ATTACH_LACKS,
    examples=[
        ("leakscope attach 4242", "until it ends, or ^C"),
        ("leakscope attach -d 5min 4242", "for five minutes"),
    ],
)
def attach(arguments: tuple[str, ...]) -> None:
    """Record a process that runs already, and its children.

    From outside: objects have no names, except where leakscope and the job both run on Python 3.14, whose interpreter
    lets the agent in. Nothing happens to the job. Until the process ends, -d is over or ^C; exits with 0.
    """
    _to_recorder("attach", arguments)


def _to_recorder(command: str, arguments: Sequence[str]) -> None:
    """For who comes by ``main``: ``__main__`` goes there at once, so that the recorder stays free of click."""
    from ..recorder import main as start

    context = click.get_current_context()
    status = start(arguments, command)
    if status is None:
        click.echo(context.get_help())
    context.exit(status or 0)


@command(examples=[("leakscope ps", "then: leakscope attach PID")], exits={1: "there is none"})
def ps() -> int:
    """List the Python processes that run, the likeliest first, and how fast they grow.

    Looks twice, two seconds apart.
    """
    from ..recorder.ps import main as list_processes

    return list_processes()


@command(
    examples=[("leakscope snapshot -p 4242", "then: leakscope heap heap.parquet")],
    exits={5: "the process cannot be looked into"},
)
@click.option("-p", "--pid", type=int, metavar="PID", required=True, help="A running Python process.")
@click.option("-o", "--output", default="heap.parquet", show_default=True, metavar="FILE", help="File to write.")
@click.option("--full-heap", is_flag=True, help="Keep every object and reference too, in a file next to FILE.")
@quiet_option
def snapshot(pid: int, output: str, full_heap: bool, quiet: bool) -> None:
    """Take one snapshot of a running Python process: who holds its memory now.

    Of a process that `leakscope record` started, and from Python 3.14 on of any other of the same version. FILE is a
    recording with nothing else in it: see it by `leakscope heap FILE`.
    """
    from .. import requesting
    from ..recorder.naming import shown
    from ..units import format_bytes

    taken = requesting.take_one(pid, output, full_heap=full_heap)
    if taken.without_graph is not None:
        say(f"the snapshot has no heap graph: {taken.without_graph}")
    if taken.without_whole is not None:
        say(f"the snapshot has no file with the whole heap: {taken.without_whole}")
    if not quiet:
        size, see = format_bytes(os.stat(taken.path).st_size), "report" if taken.without_graph else "heap"
        path = shown(taken.path)
        say(f"snapshot of process {pid} in {path} ({size}): leakscope {see} {path}")
        if taken.whole is not None:
            size = format_bytes(os.stat(taken.whole).st_size)
            say(f"every object is in {shown(taken.whole)} ({size})")


@command(
    examples=[
        ("leakscope watch", "run.parquet, while it is being recorded"),
        ("leakscope watch -p 4242", "without a recording"),
        ("leakscope watch run.parquet --speed 10", "how it went"),
    ]
)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("-p", "--pid", "pids", type=int, multiple=True, metavar="PID", help="A running process; repeatable.")
@click.option(
    "-i", "--interval", metavar="TIME", help="Time between frames; without a terminal: print one line per interval."
)
@click.option("--replay", is_flag=True, help="Show how an ended recording went.")
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), help="Playback speed, e.g. 10; implies --replay.")
@click.option("--plain", is_flag=True, help="Lines as in a pipe, also in a terminal: one look, or one line per -i.")
def watch(
    run: Path | None, pids: tuple[int, ...], interval: str | None, replay: bool, speed: float | None, plain: bool
) -> int:
    """Watch a run in the terminal while it goes on; ? lists the keys, q quits, the run goes on.

    RUN is the recording; if none is named, run.parquet, or else the one that is being recorded here. Of one that has
    ended the end is shown. With -p, a process and its children are looked at without a recording.
    """
    from .. import watching
    from ..units import parse_duration

    if run is not None and pids:
        raise BadInput("say what to watch: either a recording or -p PID")
    if not pids:
        run = run or _running_here()
    interval_s = parse_duration(interval) if interval is not None else None
    if interval_s is not None and interval_s < watching.LEAST_INTERVAL_S:
        raise BadInput(f"--interval {interval} is too short: {watching.LEAST_INTERVAL_S} s is the least")
    if run is None:
        if replay or speed is not None:
            raise BadInput("--replay and --speed are for a recording, not for -p PID")
        return watching.watch_processes(pids, interval_s=interval_s, plain=plain)
    speed = speed or (1.0 if replay else None)
    return watching.watch_recording(run, interval_s=interval_s, speed=speed, plain=plain)


def _running_here() -> Path:
    """The default; in its absence the only recording of the folder that has not ended."""
    running = [Path(path.stem) for path in Path().glob("*.parquet.journal")]
    return running[0] if not DEFAULT_RUN.exists() and len(running) == 1 else DEFAULT_RUN


@command(
    examples=[
        ("leakscope metrics run.parquet", "print them once"),
        ("leakscope metrics run.parquet --listen :9464", "serve a run that is being recorded"),
        ("leakscope metrics run.parquet --otlp http://localhost:4318", "push them"),
    ]
)
@run_argument
@click.option("--listen", metavar="ADDRESS", help="Serve them for Prometheus, at :9464 for this computer alone.")
@click.option("--otlp", metavar="URL", help="Push them by OTLP over HTTP each 15 s (needs the extra otlp).")
@click.option("--openmetrics", is_flag=True, help="Print OpenMetrics instead of the Prometheus text format.")
def metrics(run: Path, listen: str | None, otlp: str | None, openmetrics: bool) -> int:
    """Export the figures of a recording as metrics (Prometheus, OTLP): printed once, or served until the run ends.

    RUN is the recording; run.parquet if none is named. `leakscope record --metrics` and `--otlp` do the same from the
    beginning of a run.
    """
    from .. import metering

    if listen is not None and otlp is not None:
        raise BadInput("--listen and --otlp: one of them, please; run the command twice for both")
    if listen is not None:
        return metering.serve(run, listen, say=say)
    if otlp is not None:
        return metering.push(run, otlp)
    click.echo(metering.text_of(run, openmetrics=openmetrics), nl=False)
    return 0
