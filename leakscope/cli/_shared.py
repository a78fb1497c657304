"""What commands share: how their help looks, options that mean the same in all of them, and how they speak."""

from __future__ import annotations

import os
import pkgutil
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from ..errors import BadInput
from ..options import RECORD_OPTIONS, Option
from ..words import folded, plain, plain_json, printable

HELP_NAMES = ["-h", "--help"]
FORMAT_HELP = "[default: terminal, or by the suffix of -o]"
DEFAULT_RUN = Path("run.parquet")  # as record's -o
PACKAGE = Path(__file__).parents[1]


class Command(click.Command):
    """A command whose help ends with examples, pairs of what to type and what that does, and with what its exit status
    means beyond what that of every command does.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        exits: Mapping[int, str] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.examples, self.exits = examples, exits

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Click keeps what it finds first, which for a command that is called by itself would be --help alone."""
        ctx.help_option_names = HELP_NAMES
        return super().get_help_option_names(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.exits:
            with formatter.section("Exit status"):
                formatter.write_dl([(str(status), means) for status, means in self.exits.items()])
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(self.examples, col_max=52)


class Group(Command, click.Group):
    """A command with commands behind it."""

    command_class = Command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """A folder or a file in place of a command: whoever types that means the first of them."""
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and os.path.exists(name) and self.list_commands(ctx):
            reads = "report" if ctx.parent is None else next(iter(self.commands))
            raise BadInput(f"{name} is no command: `{ctx.command_path} {reads} {name}` reads it")
        return super().resolve_command(ctx, args)


class RecorderCommand(Command):
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
        if incomplete.startswith("-") and "--" not in ctx.args:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(incomplete, type="file")]


def _as_click(option: Option) -> click.Option:
    """An option of the recorder as click shows and completes it."""
    settings: dict[str, Any] = {"help": option.help, "is_flag": option.parse is None}
    if option.parse is not None:
        kinds: dict[str, Any] = {"FILE": click.Path(), "auto|off": click.Choice(["auto", "off"])}
        settings |= {"metavar": option.metavar, "type": kinds.get(option.metavar, click.STRING)}
        settings |= {"default": option.default or None, "show_default": bool(option.default)}
    return click.Option([*option.flags], **settings)


class Format(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """A format by its name, of which all commands have the same; and by one that it had before."""

    _BEFORE: ClassVar = {"text": "terminal"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(self._BEFORE.get(value, value), param, ctx)


def command(name: str | None = None, *, cls: type[Command] = Command, **settings: Any) -> Callable[..., Any]:
    return click.command(name, cls=cls, **settings)


def format_option(*names: str) -> Callable[..., Any]:
    """``-f`` where -o may imply it."""
    return click.option("-f", "--format", "format_name", type=Format(list(names)), help=FORMAT_HELP)


horizon_option = click.option(
    "--horizon", metavar="TIME", help="How far ahead growth has to matter to be a leak: 12h, 7d.  [default: 1d]"
)
run_argument = click.argument("run", type=click.Path(path_type=Path), default=DEFAULT_RUN)
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path),
    callback=lambda context, option, path: None if path == Path("-") else path,  # as other commands have it: stdout
    help="Write to a file; its suffix implies the format.",
)  # fmt: skip
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing unless it fails.")
text_or_json = click.option(
    "-f", "--format", "format_name", type=Format(["json", "terminal"]), default="terminal", show_default=True,
    help="As text or as JSON.",
)  # fmt: skip


def plugins_of(room: str) -> list[str]:
    """What a room has a file for each of, without importing it: a new file is an option without a line here."""
    return sorted(m.name for m in pkgutil.iter_modules([str(PACKAGE / room)]) if not m.name.startswith("_"))


def by_suffix(output: Path | None, formats: Mapping[str, str]) -> str:
    """The format of ``formats``, by suffix, that a file's name implies; no file: the terminal. **Errors** BadInput."""
    if output is None:
        return "terminal"
    if output.suffix not in formats:
        raise BadInput(f"{output}: no format is known by {output.suffix!r} (there are {', '.join(sorted(formats))})")
    return formats[output.suffix]


def not_the_recording(output: Path | None, *recordings: Path) -> None:
    if output and output.exists() and any(run.exists() and output.samefile(run) for run in recordings):
        raise BadInput(f"{output} is the recording itself: choose another file")


def is_job(run: Path) -> bool:
    """Whether it is a folder of the recordings of one job; a recording's own journal is a folder too."""
    return run.is_dir() and not run.name.endswith(".journal")


def color_of(asked: bool | None) -> bool | None:
    """What the option says, else what NO_COLOR and FORCE_COLOR say; None lets the terminal decide."""
    if asked is None and os.environ.get("NO_COLOR"):
        return False
    if asked is None and os.environ.get("FORCE_COLOR"):
        return True
    return asked


def write_or_print(
    text: str, output: Path | None, format_name: str, *, color: bool | None = None, ends: bool = True
) -> None:
    """Into the file, without colours, or on stdout. Whatever a job called things, it steers no terminal and no log.

    ``ends``: with its line, if it is none yet.
    """
    if output is None or format_name != "csv":  # a file of figures has texts as they are
        text = _HARMLESS.get(format_name, str)(text)
    if output is None and format_name == "terminal" and sys.stdout.isatty():
        text = folded(text, shutil.get_terminal_size().columns)
    if output is not None:
        output.write_text(click.unstyle(text), encoding="utf-8")
    else:
        click.echo(text, nl=ends and not text.endswith("\n"), color=color)


# The others are no text for a terminal, and are escaped as their formats ask for.
_HARMLESS: dict[str, Callable[[str], str]] = {"terminal": plain, "csv": plain, "json": plain_json}


def say(line: str) -> None:
    """A line on stderr, by its sender."""
    text = f"leakscope: {printable(line)}"
    click.echo(folded(text, shutil.get_terminal_size().columns) if sys.stderr.isatty() else text, err=True)


def fail(line: str, status: int) -> int:
    say(line)
    return status
