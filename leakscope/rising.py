"""Does what rises go on rising? The one rule for it: of the recorder, which looks as it samples, and of all reports.

The end is held out. Two models foretell it from what was before: floors stay where they are, or rise as they did. How
far each was off, as measured by how much floors move anyway, makes the odds between them. Standard library alone: the
recorder may import nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .units import FEWEST, MOST, SOME

WARM_UP = 0.15  # of the run: imports, first batches, optimizer state
BLOCKS, LEAST_BLOCKS = 12, 8  # stretches of a window: few enough that neighbours are nearly independent
_RISES = 0.85  # of the pairs of floors: of driftless walks one in twenty has so many
_SPREAD = 2.2  # equal rises or more: two are two loads
_PAUSE = 0.4  # of the window without any growth, in its middle: there were two rises only, whatever their length
PART = 0.25  # of a rise or of its pace: so much is no chance, and the pace of a leak is not known more closely
_SURE = 2 / 3  # of the odds: of either model


class Rise(NamedTuple):
    """What the floors of a window did. ``odds``: 0 to 1, that they rise as before rather than stay where they are.

    ``share``: of all pairs of floors, those of which the later is higher; equal ones count half. ``spread``: how many
    equal rises would be as spread out, 1 for a single step. ``risen``: after which of ``parts`` stretches it rose.
    ``late``: what the last third gained.
    """

    odds: float
    share: float
    spread: float
    risen: tuple[int, ...]
    late: float
    parts: int

    @property
    def pause(self) -> int:
        """Stretches without growth, the most in the middle of the window."""
        return max((after - before - 1 for before, after in zip(self.risen, self.risen[1:])), default=0)

    @property
    def quiet(self) -> int:
        """Those at its end."""
        return self.parts - 2 - self.risen[-1] if self.risen else self.parts - 1

    @property
    def is_even(self) -> bool:
        """By as much from each stretch to the next."""
        return self.spread >= (1 - SOME) * (self.parts - 1)

    @property
    def keeps_rising(self) -> bool:
        return self.share >= _RISES

    @property
    def is_spread(self) -> bool:
        return self.spread >= _SPREAD

    @property
    def pauses(self) -> bool:
        return self.pause > _PAUSE * (self.parts - 1)

    @property
    def goes_on(self) -> bool:
        """As it did: neither model is ruled out between this and ``ends``."""
        return self.odds >= _SURE and self.quiet <= self.pause + 1

    @property
    def ends(self) -> bool:
        return self.odds <= 1 - _SURE

    def is_steady(self, least: float) -> bool:
        """A rise by itself that goes on, in which ``least`` would be a rise."""
        return self.keeps_rising and self.late >= PART * least and self.is_spread and not self.pauses and self.goes_on


def stretches(size: int) -> list[slice]:
    """Of a window of so many samples."""
    count = min(max(size // 2, LEAST_BLOCKS), BLOCKS)
    longer, rest = divmod(size, count)
    ends = [longer * (n + 1) + min(n + 1, rest) for n in range(count)]
    return [slice(start, end) for start, end in zip([0, *ends], ends)]


def floors_at(values: Sequence[float]) -> list[int]:
    """Where the floor of each stretch is: what comes and goes is no level."""
    found = []
    for part in stretches(len(values)):
        order = sorted(range(part.start, part.stop), key=values.__getitem__)
        found.append(order[int(SOME * (len(order) - 1))])
    return found


def kept(values: Sequence[float]) -> list[float]:
    """What is never given back: at each moment the lowest value from there to the end. It only rises."""
    lowest, found = math.inf, []
    for value in reversed(values):
        lowest = min(lowest, value)
        found.append(lowest)
    return found[::-1]


def slopes(at: Sequence[float], values: Sequence[float]) -> list[float]:
    """Of all pairs."""
    points = list(zip(at, values))
    return [(v - w) / (t - s) for n, (t, v) in enumerate(points) for s, w in points[:n] if t > s]


def median(values: Sequence[float]) -> float:
    """Without what importing ``statistics`` costs."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def share_that_rises(values: Sequence[float]) -> float:
    """Of all pairs, those of which the later is higher; equal ones count half."""
    rises = [(later > one) + (later >= one) for n, later in enumerate(values) for one in values[:n]]
    return sum(rises) / 2 / len(rises)


def rise_of(at: Sequence[float], floors: Sequence[float], least: float = 0.0) -> Rise:
    """**Shape** equally long, of ``LEAST_BLOCKS`` or more. ``least``: in the whole window, what counts as a leak."""
    count, third = len(floors), len(floors) // FEWEST
    levels = kept(floors)
    came = [after - before for before, after in zip(levels, levels[1:])]
    total = sum(came)
    risen = tuple(n for n, rise in enumerate(came) if rise > PART * total / len(came))
    spread = total**2 / sum(rise * rise for rise in came) if total > 0 else 0.0
    odds = _odds(at, floors, third, least)
    return Rise(odds, share_that_rises(floors), spread, risen, sum(came[-third:]), count)


def _odds(at: Sequence[float], floors: Sequence[float], third: int, least: float) -> float:
    """That what is held out, the last third, rises as foretold rather than stays.

    Foretold by all before and by the third before it, the geometric mean of the two: a line through all before makes
    little of a leak that slows down a little, and the stretch just before may have had much or little by chance.
    """
    count = len(floors)
    ends = [slice(max(0, end - 2), end) for end in (count - 2 * third, count - third, count)]
    levels, moments = ([median(values[end]) for end in ends] for values in (floors, at))
    passed_s = moments[2] - moments[1]
    recent = (levels[1] - levels[0]) / (moments[1] - moments[0]) * passed_s
    whole = median(slopes(at[: count - third], floors[: count - third])) * passed_s
    gained = levels[2] - levels[1]
    foretold = math.sqrt(max(recent, 0.0) * max(whole, 0.0))
    would_show = max(foretold, least * third / count)
    if would_show <= 0:
        return MOST
    steps = sorted(abs(one - usual) for one, usual in ((b - a, foretold / third) for a, b in zip(floors, floors[1:])))
    unsure = math.hypot(median(steps), PART * would_show)
    told = would_show * (2 * gained - would_show) / (2 * unsure * unsure)
    return (1 + math.tanh(told / 2)) / 2
