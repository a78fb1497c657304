"""`leakscope mcp`: what a coding agent may ask of recordings: read-only, confined to a folder, each answer bounded.

The process that speaks the protocol opens no recording. A reader beside it does (``__main__``), which may take 2 GiB,
write no file, and be stopped: what a damaged recording or a query does to it ends in one line for who asked.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import BadInput, to_install

__all__ = ["serve"]


def serve(folder: Path) -> None:
    """Speak MCP on stdin and stdout until stdin ends. **Errors** BadInput: no such folder, no SDK installed."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder: name the one that your recordings are in")
    try:
        import mcp_types  # noqa: F401  # came with version 2 of the SDK
    except ModuleNotFoundError:
        raise BadInput(
            f"the SDK of MCP, version 2, is not installed here: {to_install('mcp')} (it needs Python 3.10 or later)"
        ) from None
    from ._server import run

    run(folder.resolve())
