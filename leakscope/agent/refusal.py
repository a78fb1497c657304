"""Pythons in which the agent does not begin: one row in the recording says why. Runs in the job, also in PyPy.

So nothing is imported here that only CPython has. The file is named otherwise than an agent's: nobody waits for more.
"""

from __future__ import annotations

import os
import sys

from . import config
from .journal import Journal, create, stamps
from .masking import Masker

NOTE = "no-agent"
STEM = "refused"


def reason() -> str | None:
    """Why the agent does not begin in this Python, and what to do; None: it does."""
    if sys.version_info < (3, 8):
        return "its Python is %d.%d: the agent begins in 3.8 and later ones" % sys.version_info[:2]
    name = sys.implementation.name
    if name != "cpython":
        return f"it runs in {name}, the agent knows CPython alone: a run with CPython shows its holders"
    if hasattr(sys, "getobjects"):  # everything in an object lies two words further on
        return "its Python keeps a list of all objects (Py_TRACE_REFS): in a usual build the agent begins"
    if "t" in sys.abiflags:  # objects do not hold still for anybody; with PYTHON_GIL=1 they are still made otherwise
        return "its Python is free-threaded: in a usual build the agent begins"
    return None


def failure(error: BaseException) -> str:
    """Why there is no view inside, of an agent that tried to begin."""
    return f"the agent could not begin: {type(error).__name__}: {error}"


def note(folder: str, text: str) -> None:
    """Write it down. ``folder`` is the agent's. **Errors** OSError, ValueError."""
    options = config.read(folder)
    pid, start_ticks = os.getpid(), _start_ticks()
    stem = f"{STEM}-{pid}-{start_ticks}"
    journal = Journal(options["journal"] or folder, stem, Masker(options["salt"]), create)
    journal.add("agent_notes", dict(stamps(), pid=pid, start_ticks=start_ticks, note=NOTE, text=text))
    journal.close()


def _start_ticks() -> int:
    with open("/proc/self/stat", "rb") as stream:
        return int(stream.read().rsplit(b")", 1)[1].split()[19])
