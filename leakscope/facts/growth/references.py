"""References that no object, function or cache of Python's accounts for: what C code has, or has lost. From the graphs.

An object's count says how many references there are, the graph how many of them it met. The rest is C code's: it hardly
moves, unless an extension drops references that it does not own, or keeps those that it should drop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...rising import PART
from ...units import FEWEST, NEARLY_ALL
from ..series.arithmetic import Floats
from ..series.trend import LEAST_STEPS
from ..tables import only, without_last
from .processes import ProcessGrowth

_LEAST_TAKES = FEWEST  # fewer tell no steady change from a single one
_STEADY = NEARLY_ALL  # of all that a rest moved: what it moved on the whole
_MOST_OF_THEM = 0.66  # of the times between two snapshots: two of three
NONE = "NoneType"


@dataclass(frozen=True, eq=False)
class Rest:
    """References to objects of one type, or to None. **Shape** each array has one value a snapshot.

    ``known``: references that the graph met, of None alone; ``blocks``: small objects that were alive.
    """

    type_name: str
    time_s: Floats
    step: Floats
    rest: Floats
    known: Floats
    blocks: Floats

    @property
    def gained(self) -> float:
        return float(self.rest[-1] - self.rest[0])

    @property
    def passed_s(self) -> float:
        return float(self.time_s[-1] - self.time_s[0])

    def moves_steadily(self, sign: int) -> bool:
        """Ever further up (1) or down (-1), in most of the time between snapshots, and not at once in one of them."""
        changes = sign * np.diff(self.rest)
        net = float(changes.sum())
        if net <= 0 or net < _STEADY * float(np.abs(changes).sum()):
            return False
        expected = net * np.diff(self.time_s) / self.passed_s
        return bool((changes >= PART * expected).mean() >= _MOST_OF_THEM)

    def after_the_most(self) -> Rest:
        """From where most were there: modules that are imported have some that the collector is not told of."""
        first = min(int(np.argmax(self.rest)), len(self.rest) - _LEAST_TAKES)
        values = (self.time_s, self.step, self.rest, self.known, self.blocks)
        return Rest(self.type_name, *(one[first:] for one in values))

    @property
    def per_s(self) -> float:
        return self.gained / self.passed_s

    @property
    def per_step(self) -> float | None:
        """None where steps are not known."""
        steps = float(self.step[-1] - self.step[0])
        return self.gained / steps if steps >= LEAST_STEPS else None

    @property
    def blocks_gained(self) -> float:
        """Not a number where they were not counted."""
        return float(self.blocks[-1] - self.blocks[0])


def rest_of_none(process: ProcessGrowth, *, at_work: bool = False) -> Rest | None:
    """None where fewer than three snapshots tell: too large a heap, a None that lives for ever.

    ``at_work``: without that of the end, when C code lets go of what it had.
    """
    graphs = process.rows("heap_graphs")
    graphs = without_last(graphs, process.rows("takes")) if at_work else graphs
    graphs = only(graphs, graphs["none_known_count"].notna() & (graphs["time_s"] >= (process.first_step_s or 0.0)))
    columns = "none_reference_count", "none_known_count"
    rest = _rest(_takes(process), NONE, graphs["take"].tolist(), *(graphs[name].tolist() for name in columns))
    return None if rest is None else rest.after_the_most()


def rests_of_types(process: ProcessGrowth) -> list[Rest]:
    """Of those types that have most such references, as far as three snapshots in a row told of them, to the last."""
    strays = process.rows("heap_strays")
    if not len(strays):
        return []
    strays = only(strays, strays["extra_reference_count"].notna() & (strays["time_s"] >= (process.first_step_s or 0.0)))
    takes = _takes(process)
    found = (
        _rest(takes, str(name), rows["take"].tolist(), rows["extra_reference_count"].tolist(), [0] * len(rows))
        for name, rows in strays.groupby("type_name", sort=False)
        if name != NONE
    )
    return [rest for rest in found if rest is not None]


def _takes(process: ProcessGrowth) -> dict[int, tuple[float, float, float]]:
    """{number of a snapshot: when it was made, its step, small objects alive}, not a number where one is not known."""
    rows = process.rows("takes")
    columns = ("time_s", "step", "allocated_blocks")
    figures = (rows[name].to_numpy(dtype=np.float64).tolist() for name in columns)
    return dict(zip(rows["take"].tolist(), zip(*figures)))  # of two rows the last counts


def _rest(
    takes: Mapping[int, tuple[float, float, float]],
    type_name: str,
    told: list[int],
    counts: list[float],
    known: list[float],
) -> Rest | None:
    told_of = {take: both for take, *both in zip(told, counts, known) if take in takes}
    numbers = sorted(told_of)
    if len(numbers) < _LEAST_TAKES or takes[numbers[-1]][0] <= takes[numbers[0]][0]:
        return None
    counted, of_objects = np.array([told_of[take] for take in numbers], dtype=np.float64).T
    time_s, step, blocks = np.array([takes[take] for take in numbers], dtype=np.float64).T
    return Rest(type_name, time_s, step, counted - of_objects, of_objects, blocks)
