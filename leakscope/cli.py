"""The command line: parse, call one function, print, exit status. Runs afterwards; ``record`` passes it by.

Exit status: 0 ok, 1 findings (only with ``--exit-code``), 2 wrong use, 3 input that cannot be read, 4 nobody can tell,
5 a process that cannot be looked into.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from .errors import BadInput, LeakscopeError
from .options import ATTACH_LACKS, RECORD_OPTIONS, Option
from .version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; whatever a person can cause ends in one line on stderr."""
    try:
        status = cli.main(args=argv, prog_name="leakscope", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except LeakscopeError as error:
        return _fail(str(error), error.exit_status)
    except click.Abort:
        return 130
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__):
            raise
        return _fail(f"{error.name} is not installed here: pip install leakscope-recorder", 2)
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)


def _fail(line: str, status: int) -> int:
    click.echo(f"leakscope: {line}", err=True)
    return status


_HELP_NAMES = ["-h", "--help"]
_SETTINGS = {
    "help_option_names": _HELP_NAMES,
    "auto_envvar_prefix": "LEAKSCOPE",
    "max_content_width": 110,  # or the terminal's width, if that is less
}
_SECTIONS = {
    "Record": ("record", "attach", "ps", "snapshot", "watch", "import"),
    "Understand": ("report", "view", "heap", "oom"),
    "Decide": ("compare", "check"),
    "Keep house": ("doctor", "finalize", "redact", "schema", "completion"),
}
_ORDER_OF_WORK = (
    ("leakscope record train.py", "run it; the verdict is printed when it ends"),
    ("leakscope report", "what grew, who holds it, which line, what to do"),
    ("leakscope heap --diff", "who holds how much, and what grew"),
    ("leakscope compare before.parquet run.parquet", "did the fix work?"),
    ("leakscope check", "the same question in CI, by its exit status"),
)


class _Command(click.Command):
    """A command whose help ends with examples: pairs of what to type and what that does."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Click keeps what it finds first, which for a command that is called by itself would be --help alone."""
        ctx.help_option_names = _HELP_NAMES
        return super().get_help_option_names(ctx)

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(self.examples, col_max=52)


class _Commands(click.Group):
    """The commands, quiet when the reader of their output, such as head, had enough."""

    command_class = _Command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with 1, which here means findings
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains while it flushes at exit
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By what they are for, each with its whole first sentence."""
        with formatter.section("The order of work"):
            formatter.write_dl(_ORDER_OF_WORK, col_max=52)
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in names])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("`leakscope COMMAND --help` explains one. Documentation: docs/index.md of the project.")


class _RecorderCommand(_Command):
    """A command whose words the recorder reads itself, which must stay small: here are its help and completion."""

    def __init__(self, *args: Any, lacks: Collection[str] = (), **settings: Any) -> None:
        super().__init__(*args, add_help_option=False, **settings)
        self._options = [option for option in RECORD_OPTIONS if option.group and option.field not in lacks]
        self.params = [_as_click(option) for option in self._options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params = {"arguments": tuple(args)}
        ctx.args = args
        return args

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", self.options_metavar or ""]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in dict.fromkeys(option.group for option in self._options):
            own = [param for option, param in zip(self._options, self.params) if option.group == group]
            with formatter.section(group):
                formatter.write_dl([record for param in own if (record := param.get_help_record(ctx)) is not None])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-") and not any(self._begins_command(word) for word in ctx.args):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(incomplete, type="file")]

    def _begins_command(self, word: str) -> bool:
        return word == "--"


def _as_click(option: Option) -> click.Option:
    """An option of the recorder as click shows and completes it."""
    settings: dict[str, Any] = {"help": option.help, "is_flag": option.parse is None}
    if option.parse is not None:
        kinds: dict[str, Any] = {"FILE": click.Path(), "auto|off": click.Choice(["auto", "off"])}
        settings |= {"metavar": option.metavar, "type": kinds.get(option.metavar, click.STRING)}
        settings |= {"default": option.default or None, "show_default": bool(option.default)}
    return click.Option([*option.flags], **settings)


_SCHEMAS = ["recording", "report", "markdown", "json"]  # the last two: what it was called by before -f


@click.group(cls=_Commands, context_settings=_SETTINGS, invoke_without_command=True)
@click.version_option(__version__, prog_name="leakscope")
@click.pass_context
def cli(context: click.Context) -> None:
    """A flight recorder for training memory: records a job's processes and names what grows."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class _Format(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """A format by its name, of which all commands have the same; and by one that it had before."""

    _BEFORE: ClassVar = {"text": "terminal"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(self._BEFORE.get(value, value), param, ctx)


def _renderers() -> list[str]:
    """Names of the renderers, by their files, so that a new one is an option without a line here."""
    folder = Path(__file__).with_name("renderers")
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if not m.name.startswith("_"))


def _format_for(output: Path) -> str:
    return _by_suffix(
        output, {importlib.import_module(f"leakscope.renderers.{name}").SUFFIX: name for name in _renderers()}
    )


def _by_suffix(output: Path, by_suffix: Mapping[str, str]) -> str:
    if output.suffix not in by_suffix:
        raise BadInput(f"{output}: no format is known by {output.suffix!r} (there are {', '.join(sorted(by_suffix))})")
    return by_suffix[output.suffix]


def _not_the_recording(output: Path | None, *recordings: Path) -> None:
    if output and output.exists() and any(run.exists() and output.samefile(run) for run in recordings):
        raise BadInput(f"{output} is the recording itself: choose another file")


_FORMAT_HELP = "[default: terminal, or by the suffix of -o]"
_run_argument = click.argument("run", type=click.Path(path_type=Path), default="run.parquet")  # as record's -o


@cli.command(
    examples=[
        ("leakscope report", "what grew, who holds it, what to do"),
        ("leakscope report -o report.html", "the same as a page, with charts"),
        ("leakscope report runs/a.parquet -f json", "for a program"),
    ]
)
@_run_argument
@click.option("-f", "--format", "format_name", type=_Format(_renderers()), help=_FORMAT_HELP)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file; its suffix implies the format.")
@click.option("--only", multiple=True, metavar="KIND", help="Look for this kind of finding only; repeatable.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a finding of severity warning or critical.")
@click.option("--all-findings", is_flag=True, help="Also those that [tool.leakscope] of pyproject.toml ignores.")
@click.option("-v", "--verbose", is_flag=True, help="In the terminal: all evidence, and why each kind was ruled out.")
@click.option("--color/--no-color", default=None, help="Colours: by default if the output is a terminal.")
def report(
    run: Path,
    format_name: str | None,
    output: Path | None,
    only: tuple[str, ...],
    exit_code: bool,
    all_findings: bool,
    verbose: bool,
    color: bool | None,
) -> int:
    """Say what grew in a recording, who holds it, and what to do.

    RUN is the recording, also one that is still running or was cut off; run.parquet if none is named. What `ignore` of
    [tool.leakscope] in the pyproject.toml of the working folder names is shown as ignored.
    """
    from .ignoring import Ignores, read_ignores, without_ignored
    from .renderers import render
    from .reporting import analyze
    from .storage import open_recording

    format_name = format_name or (_format_for(output) if output else "terminal")
    _not_the_recording(output, run)
    ignores = Ignores() if all_findings else read_ignores(Path.cwd())
    result = without_ignored(analyze(open_recording(run), only=only or None), ignores)
    text = render(result, format_name, **({"verbose": True} if verbose and format_name == "terminal" else {}))
    if output:
        output.write_text(click.unstyle(text), encoding="utf-8")
    else:
        click.echo(text, nl=not text.endswith("\n"), color=_color(color))
    return int(exit_code and any(finding.severity != "note" for finding in result.findings))


@cli.command(
    examples=[
        ("leakscope view", "the page of run.parquet, also while it is recorded"),
        ("leakscope view --no-browser", "print its address: from afar, ssh -L leads there"),
    ]
)
@_run_argument
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def view(run: Path, no_browser: bool) -> int:
    """Show the report as a page in the browser; while the run is still recorded the page renews itself.

    RUN is the recording; run.parquet if none is named. The page comes from a server that only this computer reaches, at
    an address that nobody can guess. ^C ends it, and the exit status is 0. For a page to keep: `leakscope report -o
    report.html`.
    """
    from . import viewing

    return viewing.view(run, browser=not no_browser, say=lambda line: click.echo(f"leakscope: {line}", err=True))


def _color(asked: bool | None) -> bool | None:
    """What the option says, else what NO_COLOR and FORCE_COLOR say; None lets the terminal decide."""
    if asked is None and os.environ.get("NO_COLOR"):
        return False
    if asked is None and os.environ.get("FORCE_COLOR"):
        return True
    return asked


@cli.command(
    "import",
    examples=[
        ("leakscope import snapshot.pickle", "then: leakscope report"),
        ("leakscope import snapshots/ -o ranks.parquet", "all ranks of a job"),
    ],
)
@click.argument("files", metavar="FILE...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="run.parquet", show_default=True, help="The recording."
)
@click.option("-f", "--force", is_flag=True, help="Replace a recording of that name.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
def import_(files: tuple[Path, ...], output: Path, force: bool, quiet: bool) -> None:
    """Make a recording of memory snapshots that torch wrote (`torch.cuda.memory._dump_snapshot`).

    FILE is a snapshot as pickle or JSON, also compressed by gzip, or a folder of them, such as one of each rank.
    Nothing in a file is executed.
    """
    from .importing import import_files
    from .units import format_bytes

    path = import_files(files, output, force=force)
    if not quiet:
        size = format_bytes(path.stat().st_size)
        click.echo(f"leakscope: {path} ({size}) holds it: leakscope report {path}", err=True)


@cli.command(examples=[("leakscope finalize run.parquet", "after a kill -9 of the recorder")])
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--keep-journal", is_flag=True, help="Leave the journal folder beside the finished file.")
@click.option("--checkpoint", is_flag=True, help="Bring the file up to date while the recorder goes on.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
def finalize(run: Path, keep_journal: bool, checkpoint: bool, quiet: bool) -> None:
    """Turn the journal of a recorder that was killed into a finished file.

    `report` does it by itself; this is for a journal that was copied from elsewhere, or to free its space.
    """
    from .recorder import staging
    from .storage import finalize as storage
    from .units import format_bytes

    storage.run_lightly()
    path = storage.finalize(run, keep_journal, checkpoint)
    staging.sweep()
    if not quiet:
        click.echo(f"leakscope: {path} is up to date ({format_bytes(path.stat().st_size)})", err=True)


@cli.command(examples=[("leakscope redact run.parquet -o to-send.parquet", "a copy for others")])
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Write to this file, a new one.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
def redact(run: Path, output: Path, quiet: bool) -> None:
    """Copy a recording without the texts that are yours, to send it away.

    Command lines, folders, keys of dicts, messages of exceptions, sources and the names of host and user become
    placeholders, the same for the same text. Figures, names of variables, functions and types, and what `report` finds
    stay.
    """
    from .redacting import redact as without_texts
    from .units import format_bytes

    count = without_texts(run, output)
    if not quiet:
        size = format_bytes(output.stat().st_size)
        click.echo(f"leakscope: {count:,} texts of {run} are placeholders in {output} ({size})", err=True)


@cli.command(
    examples=[
        ("leakscope schema", "tables and columns"),
        ("leakscope schema -f json", "the same for a program"),
        ("leakscope schema report", "the JSON Schema of `leakscope report -f json`"),
    ]
)
@click.argument("what", metavar="[recording|report]", type=click.Choice(_SCHEMAS), default="recording")
@click.option(
    "-f", "--format", "format_name", type=_Format(["json", "markdown"]), default="markdown", show_default=True,
    help="Of the tables; a report's schema is always JSON.",
)  # fmt: skip
def schema(what: str, format_name: str) -> None:
    """Print what a recording or a report consists of: names, types, units, meaning."""
    if what == "report":
        click.echo(Path(__file__).with_name("report-schema.json").read_text(encoding="utf-8"), nl=False)
        return
    from .storage import describe

    is_json = "json" in (what, format_name)
    click.echo(describe.as_json() if is_json else describe.as_markdown(), nl=False)


@cli.command(
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
    click.echo(completer(cli, {}, "leakscope", "_LEAKSCOPE_COMPLETE").source())


@cli.command(
    cls=_RecorderCommand,
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


@cli.command(
    cls=_RecorderCommand,
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
    from .recorder import main as start

    context = click.get_current_context()
    status = start(arguments, command)
    if status is None:
        click.echo(context.get_help())
    context.exit(status or 0)


@cli.command(examples=[("leakscope ps", "then: leakscope attach PID")])
def ps() -> int:
    """List running processes that look like training, or grow.

    Looks twice, two seconds apart. Exits with 1 if there is none.
    """
    from .recorder.candidates import main as list_processes

    return list_processes()


@cli.command(examples=[("leakscope doctor", "before the first recording on a host")])
@click.option(
    "-f",
    "--format",
    "format_name",
    type=_Format(["json", "terminal"]),
    default="terminal",
    show_default=True,
    help="As text or as JSON.",
)
def doctor(format_name: str) -> None:
    """Say which evidence this host and this user can give, and what to do about the gaps."""
    from . import doctor as examination

    groups = examination.examine()
    click.echo(examination.as_json(groups) if format_name == "json" else examination.as_text(groups), nl=False)


@cli.command(
    examples=[
        ("dmesg | leakscope oom -", "who was killed, and why"),
        ("leakscope oom pod.log -f json", "for a program"),
    ]
)
@click.argument("log", metavar="FILE", type=click.Path(allow_dash=True))
@click.option(
    "-f",
    "--format",
    "format_name",
    type=_Format(["json", "terminal"]),
    default="terminal",
    show_default=True,
    help="As text or as JSON.",
)
def oom(log: str, format_name: str) -> None:
    """Say who was killed for memory, by which limit, and who held it.

    FILE is any log with evidence, or - for standard input: dmesg, journalctl, syslog, kubectl, earlyoom, ...
    """
    import json

    from . import oom as reader
    from .words import printable

    try:
        data = sys.stdin.buffer.read() if log == "-" else Path(log).read_bytes()
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror or error}") from None
    reading = reader.read(data)
    if format_name == "json":
        click.echo(json.dumps(reader.as_json(reading), indent=1))
    else:
        # Many can write to a log: what moves a terminal's cursor, or reads backwards, is shown as what it is.
        click.echo("\n".join(map(printable, reader.as_text(reading).split("\n"))), nl=False)


@cli.command(
    examples=[
        ("leakscope heap", "who holds how much"),
        ("leakscope heap --diff", "what grew"),
        ("leakscope heap --path Tensor", "what keeps objects of that type alive"),
    ]
)
@_run_argument
@click.option("-p", "--pid", type=int, metavar="PID", help="Process; the one with the largest heap by default.")
@click.option("--at", "at_s", type=float, metavar="SECONDS", help="The snapshot nearest to this moment, not the last.")
@click.option("--at-end", is_flag=True, help="The snapshot made as it ended, not the last one at work.")
@click.option("--since", "since_s", type=float, metavar="SECONDS", help="Growth since the one nearest to this moment.")
@click.option("--diff", "by_growth", is_flag=True, help="Sort by growth, and show what grew only.")
@click.option("--path", "wanted", metavar="TEXT", help="Who holds the objects with this in their type or name.")
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
    full: bool,
    depth: int,
) -> None:
    """Show the Python heap of a process by who holds it: exact sizes, at any snapshot.

    That is the last one which saw it at work: as a program ends, the variables of its functions are gone.
    """
    from . import browsing
    from .storage import open_recording

    if at_end and at_s is not None:
        raise BadInput("--at and --at-end name two snapshots: choose one")
    if full and wanted is None:
        raise BadInput("--full needs --path: an address, or a part of the name of a type")
    recording = open_recording(run)
    if full and wanted is not None:
        shown = browsing.every_way(recording, wanted, pid=pid, at_s=at_s, at_end=at_end)
    elif wanted is not None:
        shown = browsing.ways(recording, wanted, pid=pid, at_s=at_s, at_end=at_end)
    else:
        shown = browsing.show(
            recording, pid=pid, at_s=at_s, since_s=since_s, at_end=at_end, by_growth=by_growth, depth=depth
        )
    click.echo(shown, nl=False)


@cli.command(examples=[("leakscope snapshot -p 4242", "then: leakscope heap heap.parquet")])
@click.option("-p", "--pid", type=int, metavar="PID", required=True, help="A running Python process.")
@click.option("-o", "--output", default="heap.parquet", show_default=True, metavar="FILE", help="File to write.")
@click.option("--full-heap", is_flag=True, help="Keep every object and reference too, in a file beside FILE.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
def snapshot(pid: int, output: str, full_heap: bool, quiet: bool) -> None:
    """Take one snapshot of a running Python process: who holds its memory now.

    Of a process that `leakscope record` started, and from Python 3.14 on of any other of the same version. FILE is a
    recording with nothing else in it: see it by `leakscope heap FILE`. Exits with 5 if the process cannot be looked
    into.
    """
    from . import requesting
    from .recorder.naming import shown
    from .units import format_bytes

    taken = requesting.take_one(pid, output, full_heap=full_heap)
    if taken.without_graph is not None:
        click.echo(f"leakscope: the snapshot has no heap graph: {taken.without_graph}", err=True)
    if taken.without_whole is not None:
        click.echo(f"leakscope: the snapshot has no file with the whole heap: {taken.without_whole}", err=True)
    if not quiet:
        size, see = format_bytes(os.stat(taken.path).st_size), "report" if taken.without_graph else "heap"
        path = shown(taken.path)
        click.echo(f"leakscope: snapshot of process {pid} in {path} ({size}): leakscope {see} {path}", err=True)
        if taken.whole is not None:
            size = format_bytes(os.stat(taken.whole).st_size)
            click.echo(f"leakscope: every object is in {shown(taken.whole)} ({size})", err=True)


@cli.command(
    examples=[
        ("leakscope compare before.parquet run.parquet", "did the fix work?"),
        ("leakscope compare nightly-*.parquet -o trend.html", "since which run is it worse?"),
    ]
)
@click.argument("runs", nargs=-1, required=True, metavar="BEFORE [BETWEEN]... AFTER", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "format_name",
    type=_Format(["html", "json", "markdown", "terminal"]),
    help=_FORMAT_HELP,
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file; its suffix implies the format.")
def compare(runs: tuple[Path, ...], format_name: str | None, output: Path | None) -> int:
    """Say whether a fix worked, from a recording made before it and one made after.

    Of more recordings, the oldest first, the last is compared with the first, and it is said since which run it is so.
    Exits with 0 if it is better or the same, 1 if it is worse, 4 if nobody can tell.
    """
    from . import comparing
    from .storage import open_recording

    formats = {suffix: name for name, suffix in comparing.FORMATS.items()}
    format_name = format_name or (_by_suffix(output, formats) if output else "terminal")
    if len(runs) < 2:
        raise click.UsageError("compare needs two recordings or more: one from before, one from after")
    _not_the_recording(output, *runs)
    opened = [open_recording(run) for run in runs]
    several = len(opened) > 2
    result = comparing.compare_in_order(opened) if several else comparing.compare(opened[0], opened[1])
    text = comparing.render(result, format_name)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)
    return comparing.EXIT_STATUS[result.verdict]


@cli.command(
    examples=[
        ("leakscope check", "it must not leak"),
        ("leakscope check --max-growth 5MB/1000steps --no-oom", "rules of your own"),
    ]
)
@_run_argument
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
@click.option(
    "-f",
    "--format",
    "format_name",
    type=_Format(["json", "terminal"]),
    default="terminal",
    show_default=True,
    help="As text or as JSON.",
)
def check(run: Path, format_name: str, **options: Any) -> int:
    """Hold a recording to rules: a gate for CI. Without any rule it must not leak.

    Rules not given here come from [tool.leakscope.check] in the pyproject.toml of the working folder. Findings that
    `ignore` of [tool.leakscope] names break no rule, and are counted. Exits with 0 if all are kept, 1 if one is broken,
    4 if the recording cannot tell.
    """
    from . import checking
    from .ignoring import read_ignores
    from .storage import open_recording

    rules = checking.read_rules({name.replace("_", "-"): value for name, value in options.items()}, Path.cwd())
    baseline = open_recording(rules.baseline) if rules.baseline is not None else None
    ignores = read_ignores(Path.cwd())
    for note in ignores.notes:
        click.echo(f"leakscope: {note}", err=True)
    result = checking.check(open_recording(run), rules, baseline, ignores)
    click.echo(checking.render(result, format_name), nl=False)
    return result.exit_status


@cli.command(
    examples=[
        ("leakscope watch run.parquet", "while it is being recorded"),
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

    RUN is a recording. Of one that has ended the end is shown. With -p, a process and its children are looked at
    without a recording.
    """
    from . import watching
    from .units import parse_duration

    if (run is None) == (not pids):
        raise BadInput("say what to watch: either a recording or -p PID")
    interval_s = parse_duration(interval) if interval is not None else None
    if interval_s is not None and interval_s < watching.LEAST_INTERVAL_S:
        raise BadInput(f"--interval {interval} is too short: {watching.LEAST_INTERVAL_S} s is the least")
    if run is None:
        if replay or speed is not None:
            raise BadInput("--replay and --speed are for a recording, not for -p PID")
        return watching.watch_processes(pids, interval_s=interval_s, plain=plain)
    speed = speed or (1.0 if replay else None)
    return watching.watch_recording(run, interval_s=interval_s, speed=speed, plain=plain)
