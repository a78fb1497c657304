"""The protocol: MCP on stdin and stdout, by its SDK. Each call goes to the reader and comes back as text."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import jsonschema
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as ListedTool

from ..version import __version__
from ._reader import Answer, Reader
from ._tools import INSTRUCTIONS, TOOLS

_LISTED = [
    ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )
    for tool in TOOLS
]
_CHECKS = {tool.name: jsonschema.Draft202012Validator(tool.schema) for tool in TOOLS}


def run(folder: Path) -> None:
    """Until stdin ends, or the client is gone."""
    try:
        anyio.run(_serve, folder)
    except Exception as error:
        if not _is_of_gone_client(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered for it


def _is_of_gone_client(error: BaseException) -> bool:
    """Also of a group of errors, as a group of tasks raises them."""
    inner = getattr(error, "exceptions", ())
    return all(map(_is_of_gone_client, inner)) if inner else isinstance(error, (BrokenPipeError, ConnectionResetError))


async def _serve(folder: Path) -> None:
    turn = anyio.Lock()

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=_LISTED)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        wrong = _complaint(params.name, arguments)
        if wrong:
            return _result(Answer(wrong, is_error=True))
        async with turn:
            return _result(await _ask(reader, params.name, arguments))

    server: Server[Any] = Server(
        "leakscope",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    with Reader(folder) as reader:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def _ask(reader: Reader, name: str, arguments: dict[str, Any]) -> Answer:
    """In a thread, so that the client is answered meanwhile; who no longer wants to know need not wait."""
    try:
        answer: Answer
        answer = await anyio.to_thread.run_sync(partial(reader.ask, name, arguments), abandon_on_cancel=True)
        return answer
    except anyio.get_cancelled_exc_class():
        reader.stop()
        raise


def _complaint(name: str, arguments: dict[str, Any]) -> str:
    if name not in _CHECKS:
        return f"there is no tool {name[:40]!r}: there are {', '.join(_CHECKS)}"
    error = next(iter(_CHECKS[name].iter_errors(arguments)), None)
    if error is None:
        return ""
    where = f"{error.absolute_path[0]}: " if error.absolute_path else ""
    said = " ".join(error.message.split())
    return where + (said if len(said) <= 200 else f"{said[:80]} … {said[-80:]}")


def _result(answer: Answer) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=answer.text)], is_error=answer.is_error)
