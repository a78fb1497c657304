"""What separates some recordings from the others: the shortest conditions that tell them apart, if any does.

A condition (``attempt >= 3``, ``driver != 550``, ``node in gpu-7``) is worth as many bits as the split it makes is
unlikely by chance (the hypergeometric probability), less the bits it takes to write it down: which attribute, how many
values, which of them. A set of 30 nodes is dear, the driver that these nodes have is cheap; with twenty attributes and
thousands of values nothing is told that chance would give. Conditions are added while they gain, the best first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import lgamma, log, log2
from typing import Any

import numpy as np
import pandas as pd

_LEAST_BITS = 6.0  # one in 64 by chance
_LEAST_RATIO = 3.0  # so many times as often inside as outside
_MOST_CONDITIONS = 4
_MOST_REGIONS = 4
_TRIED = 3  # beginnings
_ALIKE = 0.02  # of the rows inside: two conditions that differ by less mean the same
_MOST_VALUES = 12  # of a set that a sentence can name
_FEWEST = 2
_NEARLY_ALL = 0.9
_SAYS_LITTLE = ("command", "scheduler", "container", "namespace", "leakscope_version")  # beside what says more

IN, NOT_IN, SINCE, BEFORE = "in", "not in", ">=", "<"


@dataclass(frozen=True)
class Attribute:
    """One property of all recordings: ``codes`` are indexes of ``values``, -1 where a recording has none."""

    name: str
    codes: Any
    values: Sequence[Any]
    is_ordered: bool = False


@dataclass(frozen=True)
class Condition:
    """``op`` is in, not in, >= or <; with the last two ``values`` has one value, in the attribute's order.

    ``same``: conditions on other attributes that choose the same recordings: the data cannot tell which it is.
    """

    attribute: str
    op: str
    values: Sequence[Any]
    bits: float
    price: float = 0.0  # bits to write it down
    same: Sequence[Condition] = ()


@dataclass(frozen=True)
class Region:
    """Recordings that meet all conditions: ``hit`` of ``inside`` have what was asked for, ``missed`` of ``outside``."""

    conditions: Sequence[Condition]
    rows: Any = field(repr=False)
    hit: int = 0
    inside: int = 0
    missed: int = 0
    outside: int = 0


def attribute(name: str, column: Any, order: Sequence[Any] | None = None) -> Attribute:
    """``order``: all values in their order, if they have one."""
    if order is not None:
        codes = pd.Categorical(column, categories=list(order), ordered=True).codes
        return Attribute(name, np.asarray(codes, dtype=np.int64), list(order), True)
    codes, values = pd.factorize(column, use_na_sentinel=True)
    return Attribute(name, np.asarray(codes, dtype=np.int64), list(values))


def regions(positive: Any, population: Any, attributes: Sequence[Attribute], context: str = "job") -> list[Region]:
    """Where the ``positive`` rows of a ``population`` (both masks) lie, by conditions; [] where chance could do it.

    Ranks, attempts and commits mean something within a job only: each value of the ``context`` is looked at by itself
    too, and what says most in fewest words is told. What says most by itself need not be the best beginning: two ranks
    that happened to run on one node are two reasons, where the node is one that explains a part of its recordings. So
    the best few beginnings are each followed to their end. **Cost** 10 ms for 10,000 rows.
    """
    everyone = np.flatnonzero(population)
    by = next((one for one in attributes if one.name == context), None)
    first = _candidates(positive, everyone, attributes, by)
    if first and first[0].hit == first[0].inside:
        first = first[:1]  # as good as can be
    tried = [_followed(one, positive, everyone, attributes, by) for one in first[:_TRIED]]
    best = min(tried, key=lambda found: _length(found, positive, everyone), default=[])
    # Regions may share rows: a rank that is always killed ran once on a node where everybody is.
    inside = [_meeting(one.conditions, attributes, everyone) for one in best]
    return [_counted(positive, rows, everyone, tuple(one.conditions)) for one, rows in zip(best, inside)]


def _candidates(positive: Any, rows: Any, attributes: Sequence[Attribute], by: Attribute | None) -> list[Region]:
    """What to tell first, the best first."""
    own = [one for one in attributes if one is not by]
    parts = [_within(positive, rows, own, by, value) for value in _contexts(positive, rows, by)]
    told = [one for one in (_region(positive, rows, attributes, ()), *parts) if one is not None]
    return sorted(told, key=_worth, reverse=True)


def _followed(
    first: Region, positive: Any, rows: Any, attributes: Sequence[Attribute], by: Attribute | None
) -> list[Region]:
    """A region, and what is to be told of the rows outside it."""
    found = [first]
    while len(found) < _MOST_REGIONS:
        rows = np.setdiff1d(rows, found[-1].rows, assume_unique=True)
        if not (told := _candidates(positive, rows, attributes, by)):
            break
        found.append(told[0])
    return found


def _length(found: Sequence[Region], positive: Any, rows: Any) -> float:
    """Bits to write down which rows are positive: the conditions, and which rows of each region and of the rest."""
    bits = 0.0
    for one in found:
        rows = np.setdiff1d(rows, one.rows, assume_unique=True)
        bits += sum(condition.price for condition in one.conditions) + _log2_choose(one.inside, one.hit)
    return bits + _log2_choose(len(rows), int(positive[rows].sum()))


def _meeting(conditions: Sequence[Condition], attributes: Sequence[Attribute], rows: Any) -> Any:
    by_name = {one.name: one for one in attributes}
    for condition in conditions:
        rows = rows[_meets(by_name[condition.attribute], condition, rows)]
    return rows


def _worth(region: Region) -> float:
    """Bits of the whole split, less what its conditions take to write."""
    total, hits = region.inside + region.outside, region.hit + region.missed
    split = _bits(total, hits, region.inside, region.hit) if region.outside else 0.0
    return split - sum(condition.price for condition in region.conditions)


def _contexts(positive: Any, rows: Any, by: Attribute | None) -> list[int]:
    """Codes of the values in which two or more of the positive rows lie."""
    if by is None:
        return []
    codes = by.codes[rows[positive[rows]]]
    counts = np.bincount(codes[codes >= 0], minlength=len(by.values))
    return [int(code) for code in np.flatnonzero(counts >= _FEWEST)]


def _within(
    positive: Any, rows: Any, attributes: Sequence[Attribute], by: Attribute | None, code: int
) -> Region | None:
    """What separates those of one job; the whole job, where nearly all of it is meant."""
    assert by is not None
    inside = rows[by.codes[rows] == code]
    job = Condition(by.name, IN, [by.values[code]], 0.0, log2(2 * len(by.values)))
    region = _region(positive, inside, attributes, (job,), rows)
    hits = int(positive[inside].sum())
    if region is None and hits >= _NEARLY_ALL * len(inside) and len(inside) >= _FEWEST:
        region = _counted(positive, inside, rows, (job,))
    return region


def _region(
    positive: Any, rows: Any, attributes: Sequence[Attribute], given: tuple[Condition, ...], whole: Any = None
) -> Region | None:
    whole = rows if whole is None else whole
    conditions = list(given)
    while len(conditions) < _MOST_CONDITIONS:
        used = {condition.attribute for condition in conditions}
        best = _best(positive, rows, [one for one in attributes if one.name not in used], len(attributes))
        if best is None:
            break
        condition, rows = best
        conditions.append(condition)
    return _counted(positive, rows, whole, tuple(conditions)) if len(conditions) > len(given) else None


def _counted(positive: Any, rows: Any, whole: Any, conditions: tuple[Condition, ...]) -> Region:
    hit = int(positive[rows].sum())
    return Region(conditions, rows, hit, len(rows), int(positive[whole].sum()) - hit, len(whole) - len(rows))


def _best(positive: Any, rows: Any, attributes: Sequence[Attribute], of: int) -> tuple[Condition, Any] | None:
    """The condition that gains most, and the rows that meet it."""
    marks = positive[rows]
    total, hits = len(rows), int(marks.sum())
    if hits in (0, total):
        return None
    candidates: list[tuple[float, Condition, Any]] = []
    for one in attributes:
        best = max(_conditions(one, rows, marks, of), key=lambda found: found[0], default=None)
        if best is not None and best[0] >= _LEAST_BITS:
            candidates.append((*best, rows[_meets(one, best[1], rows)]))
    if not candidates:
        return None
    candidates.sort(key=lambda found: -found[0])
    _, condition, inside = candidates[0]
    same = [
        other for _, other, others in candidates[1:]
        if other.attribute not in _SAYS_LITTLE
        and len(np.setxor1d(inside, others, assume_unique=True)) <= _ALIKE * len(inside)
        and len(other.values) <= max(2, len(condition.values))
    ]  # fmt: skip
    return replace(condition, same=same), inside


def _conditions(one: Attribute, rows: Any, marks: Any, of: int) -> Iterator[tuple[float, Condition]]:
    codes = one.codes[rows]
    count = len(one.values)
    if count == 0:
        return
    all_of = np.bincount(codes + 1, minlength=count + 1)
    hits_of = np.bincount((codes + 1)[marks], minlength=count + 1)
    total, hits, which = len(rows), int(marks.sum()), log2(of)
    there = np.flatnonzero(all_of[1:]) + 1
    if len(there) + (all_of[0] > 0) < 2:
        return
    if one.is_ordered and all_of[0] == 0:
        inside, inside_hits = np.cumsum(all_of[there]), np.cumsum(hits_of[there])
        for k in range(len(there) - 1):
            price = which + log2(2 * (len(there) - 1))
            value = one.values[there[k + 1] - 1]
            since = _bits(total, hits, total - inside[k], hits - inside_hits[k]) - price
            before = _bits(total, hits, inside[k], inside_hits[k]) - price
            yield since, Condition(one.name, SINCE, [value], since, price)
            yield before, Condition(one.name, BEFORE, [value], before, price)
        if len(there) > 2:
            # One attempt, or two, that no threshold could tell.
            yield from _sets(one, there, all_of, hits_of, total, hits, which + 1)
        return
    yield from _sets(one, there, all_of, hits_of, total, hits, which)


def _sets(
    one: Attribute, there: Any, all_of: Any, hits_of: Any, total: int, hits: int, which: float
) -> Iterator[tuple[float, Condition]]:
    """The values with the largest share of hits, ever more of them: the best split of a set is among these."""
    order = there[np.argsort(-hits_of[there] / all_of[there], kind="stable")]
    inside, inside_hits = np.cumsum(all_of[order]), np.cumsum(hits_of[order])
    count, none = len(order), int(all_of[0])
    for k in range(1, count + 1):
        if k == count and not none:
            break
        left = count - k
        few = min(k, left) if not none else k
        if few > _MOST_VALUES or (hits_of[order[k - 1]] == 0):
            continue
        price = which + 1 + 2 * log2(few + 1) + _log2_choose(count, few)
        bits = _bits(total, hits, int(inside[k - 1]), int(inside_hits[k - 1])) - price
        is_short = k <= left or none
        names = order[:k] if is_short else order[k:]
        values = [one.values[i - 1] for i in np.sort(names)]
        yield bits, Condition(one.name, IN if is_short else NOT_IN, values, bits, price)


def _bits(total: int, hits: int, inside: int, inside_hits: int) -> float:
    """How unlikely such a split is by chance; minus infinity where it is no more frequent inside."""
    outside, outside_hits = total - inside, hits - inside_hits
    if inside == 0 or outside == 0 or inside_hits == 0:
        return -np.inf
    if inside_hits / inside < _LEAST_RATIO * outside_hits / outside:
        return -np.inf
    return _log2_choose(total, hits) - _log2_choose(inside, inside_hits) - _log2_choose(outside, outside_hits)


def _log2_choose(n: int, k: int) -> float:
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def _meets(one: Attribute, condition: Condition, rows: Any) -> Any:
    codes = one.codes[rows]
    wanted = [one.values.index(value) for value in condition.values]
    if condition.op == SINCE:
        return codes >= wanted[0]
    if condition.op == BEFORE:
        return (codes < wanted[0]) & (codes >= 0)
    isin = np.isin(codes, wanted)
    return isin if condition.op == IN else ~isin & (codes >= 0)
