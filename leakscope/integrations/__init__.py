"""Memory in a training framework's own logs, and cleanups that keep account of what they were good for.

``transformers`` and ``lightning`` each import only their own framework; a plain loop uses ``MemoryCleanup`` from here.
``asgi``, ``wsgi`` and ``celery`` count requests and tasks as steps. They run in the job, with or without a recording.
"""

from __future__ import annotations

from ._memory import Cleanup, MemoryCleanup

__all__ = ["Cleanup", "MemoryCleanup"]
