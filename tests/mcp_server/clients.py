"""A real client: the SDK's own, over stdio, of `leakscope mcp` as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client, StdioServerParameters

LEAKSCOPE = Path(sys.executable).with_name("leakscope")


class Said(NamedTuple):
    text: str
    is_error: bool


class Asked:
    """A session: ``await asked("report", recording="run.parquet")``."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        return Said(content.text, result.is_error)


def session(folder: Path, talk: Callable[[Asked], Awaitable[None]], cwd: Path | None = None) -> None:
    """Start the server over ``folder``, let ``talk`` ask, and end it."""

    async def main() -> None:
        server = StdioServerParameters(command=str(LEAKSCOPE), args=["mcp", "--folder", str(folder)], cwd=cwd)
        async with Client(server, read_timeout_seconds=300) as client:
            await talk(Asked(client))

    anyio.run(main)
