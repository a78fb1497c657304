"""The only room that opens parquet: journal to ``run.parquet``, and ``run.parquet`` to tables.

The names are loaded on first use, since the process that finalises must not pay for pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording import Recording, open_recording
    from .rewriting import rewrite
    from .single import write_table

__all__ = ["Recording", "open_recording", "rewrite", "write_table"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import recording, rewriting, single

        return getattr({"rewrite": rewriting, "write_table": single}.get(name, recording), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
