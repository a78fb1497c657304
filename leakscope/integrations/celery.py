"""Counts the tasks of a Celery worker as steps of the recording.

``install()`` once, where the Celery application is made. Then a report tells growth per 1,000 tasks. Outside
``leakscope record`` it does nothing.
"""

from __future__ import annotations

from typing import Any

from ._counting import TASKS, count

try:
    from celery import signals
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "celery":
        raise  # it is there, and something of its own is missing
    raise ImportError("leakscope.integrations.celery needs Celery: pip install celery") from None

__all__ = ["install"]
_ONE = "leakscope"


def install() -> None:
    """Count each task when it is done with, failed or not, in every pool. Calling it again changes nothing."""
    signals.task_postrun.connect(_count, weak=False, dispatch_uid=_ONE)


def _count(**_: Any) -> None:
    count(TASKS)
