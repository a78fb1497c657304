"""``leakscope mcp``: recordings for a coding agent, by the Model Context Protocol."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ._shared import command, say


@command(
    examples=[
        ("leakscope mcp", "over the recordings below the working folder"),
        ("claude mcp add leakscope -- leakscope mcp --folder runs", "as a client starts it"),
    ]
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    metavar="DIR",
    help="Where the recordings are; nothing outside is read.",
)
def mcp(folder: Path) -> None:
    """Let a coding agent ask recordings, by the Model Context Protocol on stdin and stdout.

    A client starts it. Its tools list recordings, report, explain a finding, show who holds what, query tables and
    compare runs. They read what is below DIR; none writes, runs or fetches anything. It needs
    `pip install mcp duckdb`.
    """
    from ..mcp_server import serve

    if sys.stdin.isatty():
        say("waits for an MCP client on stdin; ^C ends it")
    serve(folder)
