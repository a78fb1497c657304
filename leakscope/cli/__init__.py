"""The command line: parse, call one function, print, exit status. Runs afterwards; ``record`` passes it by.

One file a command, called as it is; ``record`` has those of the recorder. Exit status: 0 ok, 1 findings (only with
``--exit-code``), 2 wrong use, 3 input that cannot be read, 4 unclear, 5 a process that cannot be looked into.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ..errors import LeakscopeError
from ..version import __version__
from . import (
    check,
    compare,
    completion,
    doctor,
    export,
    finalize,
    fix,
    fleet,
    heap,
    import_,
    mcp,
    oom,
    push,
    record,
    redact,
    report,
    schema,
    skill,
    upload,
    view,
    what_if,
)
from ._shared import HELP_NAMES, Group, fail


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; whatever a person can cause ends in one line on stderr."""
    try:
        status = cli.main(args=argv, prog_name="leakscope", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except LeakscopeError as error:
        return fail(str(error), error.exit_status)
    except click.Abort:
        return 130
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("leakscope"):
            raise
        return fail(f"{error.name} is not installed here: pip install {error.name}", 2)
    except OSError as error:
        return fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)


_SETTINGS = {
    "help_option_names": HELP_NAMES,
    "auto_envvar_prefix": "LEAKSCOPE",
    "max_content_width": 110,  # or the terminal's width, if that is less
}
_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Record": (record.demo, record.record, record.attach, record.ps, record.snapshot, record.watch, record.metrics),
    "Import": (import_.import_,),
    "Analyze": (report.report, view.view, heap.heap, what_if.what_if, oom.oom),
    "Compare": (fix.fix, compare.compare, check.check),
    "Many recordings": (fleet.fleet,),
    "Export": (export.export, push.push),
    "For coding agents": (mcp.mcp, skill.skill),
    "Maintain": (
        doctor.doctor,
        finalize.finalize,
        upload.upload,
        redact.redact,
        schema.schema,
        completion.completion,
    ),
}
_ORDER_OF_WORK = (
    ("leakscope demo", "see it once: 15 s of a program that leaks"),
    ("leakscope record train.py", "run it; the verdict is printed when it ends"),
    ("leakscope report", "what grew, who holds it, which line, what to do"),
    ("leakscope fix", "how to edit that line, as a diff"),
    ("leakscope heap --diff", "who holds how much, and what grew"),
    ("leakscope compare before.parquet run.parquet", "did the fix work?"),
    ("leakscope check", "the same question in CI, by its exit status"),
)


class _Commands(Group):
    """The commands, quiet when the reader of their output, such as head, had enough."""

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
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(one.name or "", one.get_short_help_str(limit=200)) for one in commands])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("`leakscope COMMAND --help` explains one; `leakscope demo` takes 15 seconds.")


@click.group(cls=_Commands, context_settings=_SETTINGS, invoke_without_command=True)
@click.version_option(__version__, prog_name="leakscope")
@click.pass_context
def cli(context: click.Context) -> None:
    """A flight recorder for training memory: records a job's processes and names what grows."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _commands in _SECTIONS.values():
    for _one in _commands:
        cli.add_command(_one)
