"""The only room that opens parquet: journal to ``run.parquet``, and ``run.parquet`` to tables.

The names are loaded on first use, since the process that finalises must not pay for pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording import Recording, open_recording, read_footer
    from .rewriting import rewrite

__all__ = ["Recording", "open_recording", "read_footer", "rewrite"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import recording, rewriting

        return getattr(rewriting if name == "rewrite" else recording, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
