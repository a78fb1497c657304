"""What the steps of a recording are, and how many passed: of training, or the requests and tasks of a service."""

from __future__ import annotations

from collections import Counter

from ...storage import Recording
from ...units import COUNTS_NOTE, STEP, STEP_UNITS
from ..tables import cells, only
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
