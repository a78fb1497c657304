"""What a process gained after its last snapshot: of that nobody knows who holds it."""

from __future__ import annotations

from typing import NamedTuple

from ...units import MOST
from ..series.arithmetic import level_at
from .processes import ProcessGrowth
from .tree import TreeGrowth


class Unseen(NamedTuple):
    """``bytes`` of the ``of_bytes`` that were gained in the judged window came after the last snapshot."""

    looked_s: float
    bytes: float
    of_bytes: int


def unseen(growth: TreeGrowth, process: ProcessGrowth) -> Unseen | None:
    """None: a snapshot saw most of it, or there is none at all."""
    looks_s = process.rows("takes")["time_s"]
    looks_s = looks_s[looks_s <= growth.end_s]
    gained = process.growth_bytes
    if not len(looks_s) or gained <= 0:
        return None
    looked_s = float(looks_s.max())
    then, last = (level_at(process.time_s, process.held_bytes, at_s) for at_s in (looked_s, growth.end_s))
    came = min(float(gained), last - then)
    return Unseen(looked_s, came, gained) if came > MOST * gained else None
