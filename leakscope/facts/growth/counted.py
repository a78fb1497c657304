"""What the steps of a recording are, and how many passed: of training, or the requests and tasks of a service."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ...units import COUNTS_NOTE, STEP, STEP_UNITS
from ..series.arithmetic import Floats
from ..tables import cells, narrow, only

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording
    from .processes import ProcessGrowth
    from .tree import TreeGrowth


def step_unit(recording: Recording) -> str:
    """``step``, unless an agent noted that it counts requests or tasks: of several what most processes count."""
    notes = cells(recording.tables["agent_notes"], "note", "text")
    counted = Counter(text for note, text in notes if note == COUNTS_NOTE and text in STEP_UNITS)
    return STEP_UNITS[counted.most_common(1)[0][0]] if counted else STEP


def steps_passed(recording: Recording, growth: TreeGrowth, unit: str) -> int:
    """In the judged window; 0 where nobody counted.

    Training steps are those of the process that grew most: ranks make the same ones. Requests and tasks are added up:
    each process of a service serves its own.
    """
    sentinels = recording.tables["sentinels"]
    if growth.main is None or not len(sentinels):
        return 0
    own = only(sentinels, sentinels["step"].notna() & sentinels["pid"].notna())
    own = only(own, (own["time_s"] >= growth.start_s) & (own["time_s"] <= growth.end_s))
    if unit == STEP:
        own = only(own, own["pid"] == growth.main.pid)
    passed = own.groupby(["pid", "start_ticks"])["step"].agg(lambda step: step.max() - step.min())
    return int(passed.sum())


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
