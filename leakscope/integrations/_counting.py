"""Requests and tasks as the steps of a recording. Runs in the service, with or without a recording."""

from __future__ import annotations

import sys

REQUESTS, TASKS = "requests", "tasks"


def count(unit: str) -> None:
    """One more is done with; never raises. **Cost** 0.1 us outside a recording, 0.5 us in one."""
    agent = sys.modules.get("_leakscope_agent")
    if agent is None:
        return
    try:
        agent.count(unit)
    except Exception:  # a service must not fail because of a note about it, nor if its agent is an older one
        return
