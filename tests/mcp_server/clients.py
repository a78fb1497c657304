"""A real client: the SDK's own, over stdio, of `leakscope mcp` as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client
    from mcp_types import Tool

LEAKSCOPE = Path(sys.executable).with_name("leakscope")
# Asked without an import: the SDK takes 1.5 s to load, in each worker that collects these tests.
needs_mcp = pytest.mark.skipif(find_spec("mcp_types") is None, reason="needs the extra mcp")


class Said(NamedTuple):
    text: str
    is_error: bool


class Asked:
    """A session: ``asked("report", recording="run.parquet")``."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self.client = client

    def __call__(self, tool: str, **arguments: Any) -> Said:
        result = self._portal.call(self.client.call_tool, tool, arguments)
        (content,) = result.content
        return Said(content.text, result.is_error)

    def tools(self) -> list[Tool]:
        return self._portal.call(self.client.list_tools).tools


@contextmanager
def session(folder: Path) -> Iterator[Asked]:
    """The server over ``folder``, started in it, until the end."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=str(LEAKSCOPE), args=["mcp", "--folder", str(folder)], cwd=folder)
    client = Client(server, read_timeout_seconds=300)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as client:
        yield Asked(portal, client)
