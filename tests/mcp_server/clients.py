"""A real client: the SDK's own, over stdio, of `leakscope mcp` as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from mcp import Client

LEAKSCOPE = Path(sys.executable).with_name("leakscope")
# Asked without an import: the SDK takes 1.5 s to load, in each worker that collects these tests.
needs_mcp = pytest.mark.skipif(find_spec("mcp_types") is None, reason="needs the extra mcp")


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
    import anyio
    from mcp import Client, StdioServerParameters

    async def main() -> None:
        server = StdioServerParameters(command=str(LEAKSCOPE), args=["mcp", "--folder", str(folder)], cwd=cwd)
        async with Client(server, read_timeout_seconds=300) as client:
            await talk(Asked(client))

    anyio.run(main)
