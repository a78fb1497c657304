"""What a process took at last, after the last snapshot of its heap: how much, since when, and who asked for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...units import MOST, SOME, WORTH, KiB
from ..growth.processes import ProcessGrowth
from ..series.arithmetic import Floats
from ..tables import figures, only, series
from ..where.progress import Asked, asked_in_turn, last_large
from .kills import Kill


class LastRise(NamedTuple):
    """**Units** bytes, seconds since the recording began.

    ``asked_bytes``: of address space, in which what was not written to yet counts; None: not known. ``looked_s``: the
    last snapshot; None: there was none. ``asked``: the stack that asked for most of it; None: nobody saw who did.
    ``is_one_piece``: at once.
    """

    bytes: int
    since_s: float
    until_s: float
    asked_bytes: int | None
    looked_s: float | None
    asked: Asked | None
    is_one_piece: bool

    @property
    def untouched_bytes(self) -> int:
        """Asked for, and not written to when it ended."""
        return max(0, (self.asked_bytes or 0) - self.bytes)


def last_rise(process: ProcessGrowth, kill: Kill, until_s: float, explained_bytes_per_s: float) -> LastRise | None:
    """None: little came that no snapshot saw, beyond what is known to have grown at a rate all the time; or it came
    for most of its life.
    """
    samples = process.rows("process_samples")
    samples = only(samples, samples["anon_bytes"].notna() & (figures(samples, "rss_bytes") > 0))
    if not len(samples):
        return None
    time_s, held = figures(samples, "time_s"), figures(samples, "anon_bytes") + _shared(samples)
    last_bytes, last_virtual = _at_the_end(process, kill, held[-1])
    takes = process.rows("takes")
    looked = figures(takes, "time_s") if len(takes) else np.empty(0)
    looked_s = float(looked[-1]) if looked.size else None
    then = float(np.interp(looked_s, time_s, held)) if looked_s is not None else float(held[0])
    came = last_bytes - then - explained_bytes_per_s * (until_s - (looked_s or 0.0))
    if came < max(WORTH, SOME * last_bytes):
        return None
    before = np.flatnonzero((held <= then + SOME * came) & (time_s < until_s))
    since_s = float(time_s[before[-1]]) if before.size else float(time_s[0])
    if until_s - since_s > MOST * (until_s - float(time_s[0])):
        return None  # that is its course, and no end of it
    at, virtual = series(samples, "virtual_bytes")
    asked_bytes = None
    if last_virtual is not None and at.size:
        asked_bytes = max(0, round(last_virtual - float(np.interp(since_s, at, virtual))))
    # What fills up then was asked for before it did: at the sample before, at the earliest.
    most = last_large(process, float(time_s[max(0, before[-1] - 1)]) if before.size else 0.0)
    is_one_piece = most is not None and most.gained >= SOME * came
    if is_one_piece:
        assert most is not None
        asked_bytes = max(asked_bytes or 0, round(most.gained))
    else:
        asked = [one for one in asked_in_turn(process) if one.until_s > since_s and one.gained > 0]
        most = max(asked, key=lambda one: one.gained, default=None)
    return LastRise(round(came), since_s, until_s, asked_bytes, looked_s, most, is_one_piece)


def _shared(samples: pd.DataFrame) -> Floats:
    shared: Floats = np.nan_to_num(figures(samples, "shmem_bytes"))
    return shared


def _at_the_end(process: ProcessGrowth, kill: Kill, sampled: float) -> tuple[float, float | None]:
    """What it held, and its address space: as the kernel wrote of who it killed; else as the last sample has it."""
    event, victim = kill.event, kill.victim
    at, virtual = series(process.rows("process_samples"), "virtual_bytes")
    last_virtual = float(virtual[-1]) if at.size else None
    if event is None or victim is None or victim.pid != process.pid or event.anon_rss_kb is None:
        return sampled, last_virtual
    last = (event.anon_rss_kb + (event.shmem_rss_kb or 0)) * KiB
    return max(sampled, float(last)), float(event.total_vm_kb * KiB) if event.total_vm_kb else last_virtual
