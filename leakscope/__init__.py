"""leakscope: a flight recorder for training memory.

Importing it costs nothing: the names below are loaded on first use, since a training script may import it for ``mark``.
Nor does it import anything but ours, since the module of that name might be the user's.
"""

import sys

from .version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .api import analyze, open_recording, render
    from .beside import record

__all__ = ["__version__", "analyze", "mark", "open_recording", "record", "render", "snapshot"]

_HOMES = {"analyze": ".api", "open_recording": ".api", "record": ".beside", "render": ".api"}


def mark(step: "int | None" = None, phase: "str | None" = None, label: "str | None" = None) -> None:
    """Note in the recording where the program is: a training step, a phase such as "eval", a label.

    Does nothing outside ``leakscope record``, and never raises: it may stay in a program for good.
    """
    agent = sys.modules.get("_leakscope_agent")
    if agent is None or not hasattr(agent, "mark"):  # none, or one that is only just being loaded
        return
    agent.mark(step, phase, label)  # which raises nothing but what a signal handler of the program does


def snapshot() -> None:
    """Ask for a snapshot of this process's objects now: it is made within a second, at the next moment that allows it.

    Does nothing outside ``leakscope record``, and never raises: it may stay in a program for good.
    """
    agent = sys.modules.get("_leakscope_agent")
    if agent is None or not hasattr(agent, "snapshot"):
        return
    agent.snapshot()


def load_ipython_extension(ipython: "Any") -> None:
    """``%load_ext leakscope`` in a notebook adds ``%%leakscope``, ``%leakscope start`` and ``%leakscope stop``."""
    from . import api

    api.load_ipython_extension(ipython)


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
