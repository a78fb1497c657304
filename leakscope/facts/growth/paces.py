"""How far a process had come at any moment: by the steps that it counted, or by time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...units import MOST, SOME
from ..series.arithmetic import Floats
from ..series.trend import LEAST_STEPS
from ..tables import narrow, only
from .processes import ProcessGrowth


def counted_steps(sentinels: pd.DataFrame) -> tuple[Floats, Floats] | None:
    """When each step of the process that counted most was seen, and its number, which never falls."""
    rows = narrow(sentinels, "pid", "time_s", "step")[sentinels["step"].notna() & sentinels["pid"].notna()]
    if not len(rows):
        return None
    spans = rows.groupby("pid")["step"].agg(lambda step: step.max() - step.min())
    own = only(rows, rows["pid"] == spans.astype(float).idxmax()).sort_values("time_s")
    count = np.maximum.accumulate(own["step"].to_numpy(dtype=np.float64))
    return own["time_s"].to_numpy(dtype=np.float64), count


def steps_at(process: ProcessGrowth, at_s: Floats) -> Floats:
    """How many steps it had made; of one that counts none, as a loader worker, the process that counted most had."""
    own, most = (counted_steps(rows) for rows in (process.rows("sentinels"), process.tables["sentinels"]))
    counted = own if own is not None and own[1][-1] > own[1][0] else most
    made: Floats = np.interp(at_s, *counted) if counted is not None else np.zeros(len(at_s))
    return made


def paced(process: ProcessGrowth, at_s: Floats, values: Floats, within_s: Floats) -> tuple[Floats, Floats]:
    """How far the process had come at moments when something was weighed, and at others, for lines beyond the weighed.

    By steps, where they were counted, since a job does not always work as fast: unless what was weighed more than twice
    is no straight line by them, and is one over time.
    """

    def off(clock: Floats) -> float:
        return float(np.abs(values - np.interp(clock, clock[[0, -1]], values[[0, -1]])).max())

    at, within = steps_at(process, at_s), steps_at(process, within_s)
    is_counted = min(np.ptp(at), np.ptp(within)) >= LEAST_STEPS
    is_by_steps = is_counted and off(at) <= max(SOME * float(np.ptp(values)), off(at_s) / MOST)
    return (at, within) if is_by_steps else (at_s, within_s)
