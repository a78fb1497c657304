"""The only room that opens parquet: journal to ``run.parquet``, and ``run.parquet`` to tables.

The names are loaded on first use, since the process that finalises must not pay for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .footer import keep_answer
    from .one_table import write_table
    from .recording import Recording, derived, open_recording, read_footer, thinned
    from .rewriting import rewrite
    from .rows import Column, Row, Rows, is_null, joined, rows_of_table

__all__ = [
    "Column",
    "Recording",
    "Row",
    "Rows",
    "derived",
    "is_null",
    "joined",
    "keep_answer",
    "open_recording",
    "read_footer",
    "rewrite",
    "rows_of_table",
    "thinned",
    "write_table",
]
_ELSEWHERE = {
    **dict.fromkeys(("Column", "Row", "Rows", "is_null", "joined", "rows_of_table"), "rows"),
    "keep_answer": "footer",
    "rewrite": "rewriting",
    "write_table": "one_table",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f".{_ELSEWHERE.get(name, 'recording')}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
