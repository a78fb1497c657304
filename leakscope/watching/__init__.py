"""Watch a run while it goes on, or see again how one went: a screen in a terminal, or plain lines. Runs beside the job.

It reads what the recorder writes and asks nothing of it. Where processes are only looked at from outside, it reads
/proc as the recorder does. pyarrow and numpy (80 MB) are loaded only for a recording that has ended, and for heap
graphs: who watches a job is often short of memory. Textual (20 MB) draws the screen. What only follows the rows, and
draws nothing (``feeds``, ``scene``), needs the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .viewer import LEAST_INTERVAL_S, Viewer, watch_processes, watch_recording

__all__ = ["LEAST_INTERVAL_S", "Viewer", "watch_processes", "watch_recording"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import viewer

        return getattr(viewer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
