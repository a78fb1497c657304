"""From sampled lives of memory to steps that can be replayed: so many pieces of such a size, by which thread, in order.

A sample stands for others of its size that were asked for since the sample of that thread and size before it. They are
spread over that stretch, each with the life of the sample: so what stays lies between what goes, as it did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..facts.growth.lives import Lives
from ..facts.series.arithmetic import Floats, Integers
from ..units import HARDLY

STEP = np.dtype([("thread", "<u4"), ("place", "<u4"), ("bytes", "<u8")])  # struct step of replay.c
MEASURES = 40
MEASURE = 0xFFFFFFFF
MOST_STEPS = 3_000_000
_LONG = 8.0  # times as long as most: what such survivors are, one thread's samples hardly show
_CLASSES = 2  # of size, for each doubling
_MIXED, _OCTAVES = 64, 2  # samples, one after another, whose pieces have each other's sizes; alike to a factor of four
_LONGEST_STRETCH = 4.0  # medians of those
_SMALL_BYTES = 32 * 1024  # whose temporaries may stand for more of their kind: they take each other's place
_SIDE_BY_SIDE = 8  # temporaries of one kind at a time, at most, to be left out in part
_TURN = 64  # steps within which threads keep together: each change of thread costs microseconds


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps to replay. ``scale``: each of its bytes stands for so many of the program's."""

    steps: NDArray[np.void]
    thread_count: int
    place_count: int
    scale: float


def is_long(lives: Lives) -> NDArray[np.bool_]:
    """Outlives by far what is mostly asked for."""
    life = lives.end_order - lives.begin_order
    usual = np.median(life[np.isfinite(life)]) if np.isfinite(life).any() else np.inf
    return life > _LONG * usual


def plan(lives: Lives, orders: Floats, scale: float, rng: np.random.Generator, aside: float = 0.0) -> Plan:
    """``orders``: how far the program had come at each measure. ``scale``: of so many pieces one is replayed.

    ``aside``: so much of what is there for long lies by itself, 0 to 1.
    """
    stretch = _stretches(lives)
    count = lives.weight / lives.bytes / scale
    most = MOST_STEPS / 2
    if count.sum() > most:
        count = _fewer_temporaries(lives, stretch, count, most)
    if count.sum() > most:
        more = count.sum() / most
        scale, count = scale * more, count / more
    copies = np.floor(count + rng.random(len(count))).astype(np.int64)
    of = np.repeat(np.arange(len(copies)), copies)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(copies) - copies, copies)
    between = (nth - rng.random(len(of))) / np.maximum(copies[of] - 1, 1)  # the sample itself lies where it was seen
    earlier = stretch[of] * between.clip(min=0.0)
    begin, end = lives.begin_order[of] - earlier, lives.end_order[of] - earlier
    places = np.arange(len(of))
    freed = np.isfinite(end) & (end <= orders[-1])
    when = np.concatenate([begin, end[freed], orders])
    thread = _threads(lives, of, nth, begin)
    thread[is_long(lives)[of] & (rng.random(len(of)) < aside)] = lives.thread.max(initial=0) + 1
    by = np.where(lives.end_thread[of] == lives.thread[of], thread, lives.end_thread[of])
    threads = np.concatenate([[0], thread, by[freed]])
    number, inverse = np.unique(threads, return_inverse=True)
    steps = np.zeros(len(when), dtype=STEP)
    steps["thread"] = np.concatenate([inverse[1:], np.full(len(orders), MEASURE)])
    steps["place"] = np.concatenate([places, places[freed], np.zeros(len(orders), dtype=np.int64)])
    steps["bytes"] = np.concatenate([_sizes(lives, of, rng), np.zeros(freed.sum() + len(orders))])
    return Plan(steps[_order(when, steps["thread"], len(of), places[freed])], len(number), max(len(of), 1), scale)


def _sizes(lives: Lives, of: Integers, rng: np.random.Generator) -> Floats:
    """Of each piece: what a thread asks for at about the same time, of about one size and life, has its sizes mixed.

    An allocator has a place for each size. Samples alone would ask for a thousand pieces of one, and then for as many
    of another a little larger, which needs more room than both together did all the time.
    """
    drawn = np.flatnonzero((lives.weight > lives.bytes)[of])  # each of the others is itself
    which = of[drawn]
    alike = pd.DataFrame(
        {
            "thread": lives.thread,
            "size": np.floor(np.log2(np.maximum(lives.bytes, 1)) / _OCTAVES),
            "life": np.floor(np.log2(np.maximum(lives.end_order - lives.begin_order, 1))),
        }
    ).groupby(["thread", "size", "life"])
    group, rank = (one.to_numpy()[which] for one in (alike.ngroup(), alike.cumcount()))
    sizes = lives.bytes[of]
    mixed = which[np.lexsort((rank + _MIXED * rng.random(len(which)), group))]
    sizes[drawn[np.lexsort((rank, group))]] = lives.bytes[mixed]
    return sizes


def _stretches(lives: Lives) -> Floats:
    """How far back the sample of the same thread and size lies; of what stays, the one that stays, too.

    The first ones of a thread do not lie before it began: a sample's time before its first sample.
    """
    kind = np.floor(_CLASSES * np.log2(np.maximum(lives.bytes, 1)))
    stays = np.isinf(lives.end_order)
    owner = np.where(is_long(lives), -1 - (lives.thread == 0), lives.thread)  # see _threads
    frame = pd.DataFrame({"thread": owner, "kind": kind, "stays": stays, "order": lives.begin_order})
    same = ["thread", "kind", "stays"]
    before = frame.groupby(same)["order"].diff()
    own = frame.groupby("thread")["order"]
    between = own.diff().groupby(frame["thread"]).transform("median")
    of_role = frame["order"].groupby(lives.thread == 0).transform("first")
    began = own.transform("first").where(owner >= 0, of_role)
    since_it_began = frame["order"] - began + between.fillna(between.median())
    usual = before.groupby([frame[name] for name in same]).transform("median").fillna(since_it_began)
    gap = before.fillna(usual).clip(upper=_LONGEST_STRETCH * usual)
    back: Floats = np.minimum(gap.to_numpy(dtype=np.float64), lives.begin_order - _round_began(lives))
    return back


def _round_began(lives: Lives) -> Floats:
    """At each piece, when its thread began to ask: the last time that it had hardly anything in use, but for what is
    there for long, which began whenever. What a sample stands for is of the same round: a program that waits between
    two has little in use then.
    """
    began = np.zeros(len(lives))
    short = np.flatnonzero(~is_long(lives))
    for thread in np.unique(lives.thread[short]):
        own = short[lives.thread[short] == thread]
        by_time = np.argsort(np.concatenate([lives.begin_order[own], lives.end_order[own]]), kind="stable")
        in_use = np.cumsum(np.concatenate([lives.weight[own], -lives.weight[own]])[by_time])
        was_idle = np.concatenate([[True], in_use[:-1] <= HARDLY * in_use.max()])
        is_begin = by_time < own.size
        first = np.where(was_idle & is_begin, lives.begin_order[own[by_time * is_begin]], 0.0)
        began[own[by_time[is_begin]]] = np.maximum.accumulate(first)[is_begin]
    return began


def _threads(lives: Lives, of: Integers, nth: Integers, begin: Floats) -> Integers:
    """Who asks for each piece: the thread of its sample; of what is there for long, whichever but the main one was at
    work then. A few survivors of each of many threads keep arenas from shrinking, and are a sample of one of them.
    """
    thread = lives.thread[of]
    others = np.flatnonzero(lives.thread != 0)
    spread = is_long(lives)[of] & (nth > 0) & (thread != 0)
    at = np.searchsorted(lives.begin_order[others], begin[spread]).clip(max=max(len(others) - 1, 0))
    thread[spread] = lives.thread[others][at]
    return thread


def _fewer_temporaries(lives: Lives, stretch: Floats, count: Floats, most: float) -> Floats:
    """Small ones that are gone before many of their kind come take each other's place: fewer do the same."""
    life = np.where(np.isfinite(lives.end_order), lives.end_order - lives.begin_order, np.inf)
    side_by_side = count * life / np.maximum(stretch, 1e-9)
    short = (lives.bytes <= _SMALL_BYTES) & (side_by_side <= _SIDE_BY_SIDE)
    others = count[~short].sum()
    share = max(0.0, most - others) / max(count[short].sum(), 1.0)
    return np.where(short, np.maximum(np.minimum(count, 1.0), count * share), count)


def _order(when: Floats, thread: NDArray[np.uint32], births: int, freed: Integers) -> Integers:
    """In order, but within a turn thread by thread; no piece is freed before it is there, no measure moves."""
    by_time = np.argsort(when, kind="stable")
    rank = np.empty(len(when), dtype=np.int64)
    rank[by_time] = np.arange(len(when))
    measured = thread[by_time] == MEASURE
    begins = (np.arange(len(when)) % _TURN == 0) | measured | np.concatenate([[False], measured[:-1]])
    turn = np.cumsum(begins)[rank]
    by_turn = np.lexsort((rank, thread, turn))
    at = np.empty(len(when), dtype=np.int64)
    at[by_turn] = np.arange(len(when))
    too_early = np.flatnonzero(at[births : births + len(freed)] < at[freed])
    if too_early.size:
        turn[births + too_early] = turn[freed[too_early]] + 1
        by_turn = np.lexsort((rank, thread, turn))
    return by_turn
