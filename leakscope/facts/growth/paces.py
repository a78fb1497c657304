"""How far a process had come at any moment: by the steps that it counted, or by time."""

from __future__ import annotations

import numpy as np

from ...storage import Rows
from ...units import MOST, SOME
from ..series.arithmetic import Floats
from ..series.trend import LEAST_STEPS
from ..tables import figures
from .processes import ProcessGrowth


def counted_steps(sentinels: Rows) -> tuple[Floats, Floats] | None:
    """When each step of the process that counted most was seen, and its number, which never falls."""
    at_s, pid, step = (figures(sentinels, column) for column in ("time_s", "pid", "step"))
    known = np.flatnonzero(~np.isnan(pid) & ~np.isnan(step))
    if not known.size:
        return None
    pids, of = np.unique(pid[known], return_inverse=True)
    most, least = np.full(len(pids), -np.inf), np.full(len(pids), np.inf)
    np.maximum.at(most, of, step[known])
    np.minimum.at(least, of, step[known])
    own = known[of == np.argmax(most - least)]
    own = own[np.argsort(at_s[own], kind="stable")]
    return at_s[own], np.maximum.accumulate(step[own])


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
