"""Pictures of a recording for a notebook: each function draws one on matplotlib axes and returns them.

They draw what a report or a table says and decide nothing. Axes count in bytes, so that two runs can share them.
"""

from __future__ import annotations

from ._holders import holders
from ._ledger import ledger
from ._tensors import tensors
from ._timeline import processes, timeline

__all__ = ["holders", "ledger", "processes", "tensors", "timeline"]
