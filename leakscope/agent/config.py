"""What the agent is to look at and how often: the recorder writes it, the agent reads it. Standard library, 3.8+.

The file is ``agent.json``, one level above the agent's own folder.
"""

from __future__ import annotations

import os

from . import plain_json
from .journal import create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FILE_NAME = "agent.json"
DEFAULTS = {
    "format": 1,
    "sentinel_interval_s": 1.0,  # O(1) readings
    "flush_s": 5.0,  # at most this much is lost when the job is killed
    "max_overhead_fraction": 0.01,  # of elapsed time that snapshots may cost in the long run
    "take_interval_s": 30.0,  # never more often than this once the schedule has stretched
    "take_pause_s": 0.25,  # for what is followed one by one (autograd graphs): it is cut then, and marked truncated
    "max_pause_s": None,  # what would hold up the job longer is not done; None: by what the job does (pause.py)
    "takes": True,  # False: sentinels only
    "full_heap": False,  # the whole graph of each snapshot in a file of its own; wanted only where the user asked
    "gpu_history": False,  # turn torch's own history of GPU memory on; wanted only where the user asked
    "probe": False,  # try remedies at the end of the process whatever they cost
    "sampling": True,  # of allocations: sampler.py
    "sources": True,  # record the text of the user's modules so that a report can name lines
    "salt": None,  # of the masks that stand for secrets: one for all who write to a recording
    "framework_logs": False,  # add our callbacks to the frameworks' own; wanted only where the user asked
    "journal": None,  # the folder to write to; None: that of this file
    "recorder_pid": None,
    "requests_file": None,  # memory of the recorder's, as /proc shows it: for the last large pieces that are asked for
    "start_mono_ns": None,  # CLOCK_MONOTONIC at the start of the recording
}

SWITCHED_OFF = "snapshots are switched off"

STRESS = "LEAKSCOPE_STRESS"  # in the job's environment: seconds between snapshots, whatever one costs (CONTRIBUTING)


def stress_interval_s() -> float | None:
    """Seconds, or None: the usual schedule."""
    try:
        return float(os.environ[STRESS].partition(",")[0])
    except (KeyError, ValueError):
        return None


def write(folder: str, values: Mapping[str, Any]) -> None:
    """Write ``agent.json`` into ``folder``; unknown keys are an error. **Errors** OSError, KeyError."""
    config = dict(DEFAULTS)
    for key, value in values.items():
        if key not in DEFAULTS:
            raise KeyError(key)
        config[key] = value
    with os.fdopen(create(os.path.join(folder, FILE_NAME)), "wb") as stream:
        stream.write(plain_json.dumps(config).encode())


def read(folder: str) -> dict[str, Any]:
    """The configuration; defaults for what is not there. **Errors** OSError, ValueError."""
    # As bytes: Python can be told to warn of text without an encoding, on the job's stderr.
    with open(os.path.join(folder, FILE_NAME), "rb") as stream:
        values = plain_json.loads(stream.read().decode())
    config = dict(DEFAULTS)
    config.update((k, v) for k, v in values.items() if k in DEFAULTS)
    return config
