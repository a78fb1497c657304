"""What two sets of weights of one process are to each other: the same twice, or a copy with a purpose.

A copy is told by what it does from look to look. One that stays equal to a model that stays as well is the same thing
twice; one that follows a model in training is an average or a target; one that stays behind is what training started
from, a reference, or a snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

from ...units import MOST
from .sets import Likeness, Round, WeightSet, likeness, unchanged_share

SAME, START, OTHER_FORM, UNUSED = "same", "start", "other-form", "unused"
ACCUSED = frozenset((SAME, START, OTHER_FORM, UNUSED))
_STILL = 0.95  # of the tensors unchanged to the last bit: statistics of a BatchNorm may move without training
_BITS = re.compile(r"float(\d+)")


@dataclass(frozen=True)
class Thresholds:
    min_tensors: int
    min_bytes: int
    equal_share: float
    near_distance: float
    max_changed_share: float
    first_steps: int


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets that are or were alike, at the last look; ``case`` says what they are to each other."""

    case: str
    original: WeightSet
    copy: WeightSet
    like: Likeness
    bytes: int = 0
    between_s: float = 0.0
    first_distance: float = 0.0


@dataclass(frozen=True, eq=False)
class History:
    """What is known of one process. ``steps``: optimizer steps by each snapshot; ``lines``: line that makes a set."""

    rounds: list[Round]
    steps: Mapping[int, int | None]
    lines: Mapping[str, int]
    has_optimizer: bool

    def step(self, at: Round) -> int:
        return self.steps.get(at.take) or 0

    def may_train(self) -> bool:
        return self.has_optimizer or any(self.steps.values())

    def is_moving(self, path: str) -> bool:
        """Most of a set's weights have changed since they were first seen."""
        sets = [r.sets[path] for r in self.rounds if path in r.sets]
        return len(sets) > 1 and unchanged_share(sets[0], sets[-1]) < MOST


def pairs(history: History, thresholds: Thresholds) -> Iterator[Pair]:
    """Every two sets of the last round that have to do with each other, the original first."""
    sets = [s for s in history.rounds[-1].sets.values() if len(s) >= thresholds.min_tensors]
    for original, copy in combinations(sorted(sets, key=lambda s: _rank(s, history)), 2):
        pair = _pair(original, copy, history, thresholds)
        if pair is not None:
            yield pair


def _rank(weight_set: WeightSet, history: History) -> tuple[Any, ...]:
    """The order from original to copy: what is trained, and what computes, is not the copy."""
    return (
        not weight_set.path,  # what has a name first
        not weight_set.is_model,
        not history.is_moving(weight_set.path),
        weight_set.device == "cpu",
        weight_set.trained_share < MOST,
        -_precision(weight_set),
        history.lines.get(weight_set.path, 0),  # of two that are alike in all this, the later one is the copy
        weight_set.path,
    )


def _precision(weight_set: WeightSet) -> int:
    """Bits of a number; 0 of what are no fractions."""
    found = _BITS.search(weight_set.dtype)
    return int(found.group(1)) if found else 0


def _pair(original: WeightSet, copy: WeightSet, history: History, thresholds: Thresholds) -> Pair | None:
    """The case of two sets, None where they have nothing to do with each other."""

    @cache  # the first look is asked for twice
    def compare(before: WeightSet) -> Likeness:
        return likeness(before, copy, near_distance=thresholds.near_distance)

    both = [r for r in history.rounds if original.path in r.sets and copy.path in r.sets]
    first, last = both[0], both[-1]
    old_original, old_copy = first.sets[original.path], first.sets[copy.path]
    now = compare(original)
    then = compare(old_original) if len(both) > 1 else now
    start = _likeness_at_start(original, copy, compare, history, thresholds)

    def case(name: str, like: Likeness) -> Pair:
        bytes = copy.bytes_of(like.keys[1] if name == SAME else like.close_keys)
        name = "small" if name in ACCUSED and bytes < thresholds.min_bytes else name
        return Pair(name, original, copy, like, bytes, last.time_s - first.time_s, then.distance)

    if start is None and max(now.close_share, then.close_share) < thresholds.equal_share:
        return None
    if max(now.repeats, then.repeats) > 1:
        return case("template", now)
    if original.is_master or copy.is_master:
        return case("master", now)
    # Only what is equal has to stand still: a model may train a head on a backbone that does not move.
    same = now.equal_share >= thresholds.equal_share and now.changed_share <= thresholds.max_changed_share
    original_stays = unchanged_share(old_original, original, now.keys[0] if same else None) >= _STILL
    copy_stays = unchanged_share(old_copy, copy, now.keys[1] if same else None) >= _STILL
    if same and original_stays and copy_stays:
        if len(both) < 2:
            begun = _since_before_training(original, copy, now, history, thresholds)
            if begun is None and not history.may_train():
                return case(UNUSED, now)  # seen once is enough: nothing here tells the two apart
            pair = case("undecided" if begun is None else SAME, now)
            return pair if begun is None else replace(pair, between_s=last.time_s - begun.time_s)
        waits = _waits_for_training(original, copy, history) and history.step(last) <= history.step(first)
        return case("undecided" if waits else SAME, now)
    if not copy_stays:
        return case("in-step" if same else "follows", now)
    if not copy.is_model:
        return case("snapshot", now) if start is None else case(START, start)
    if original_stays:
        return case("changed", now)
    return case(OTHER_FORM if _is_in_other_form(original, copy) else "reference", then)


def _since_before_training(
    original: WeightSet, copy: WeightSet, now: Likeness, history: History, thresholds: Thresholds
) -> Round | None:
    """The first look at one of two that were seen together only once: had training moved either, they would differ.

    None unless it stood still for many steps since: a snapshot that was just made equals its model as well.
    """
    last = history.rounds[-1]
    for r in history.rounds[:-1]:
        for weight_set, keys in ((original, now.keys[0]), (copy, now.keys[1])):
            before = r.sets.get(weight_set.path)
            if before is not None and unchanged_share(before, weight_set, keys) >= _STILL:
                return r if history.step(last) - history.step(r) > thresholds.first_steps else None
    return None


def _likeness_at_start(
    original: WeightSet,
    copy: WeightSet,
    compare: Callable[[WeightSet], Likeness],
    history: History,
    thresholds: Thresholds,
) -> Likeness | None:
    """How alike they were before the original was trained; None where the copy is not from that time.

    Weights that were near then have to have been there then: those of a later epoch are near as well. So have those
    that were equal to what training left alone at first: a copy of a later epoch is equal as well.
    """
    for r in history.rounds[:-1]:
        if original.path in r.sets and history.step(r) <= thresholds.first_steps:
            like = compare(r.sets[original.path])
            was_there = copy.path in r.sets and unchanged_share(r.sets[copy.path], copy) >= _STILL
            if not was_there and r.sets[original.path].trained_share < MOST:
                continue
            if (like.close_share if was_there else like.equal_share) >= thresholds.equal_share:
                return like
    return None


def _is_in_other_form(original: WeightSet, copy: WeightSet) -> bool:
    """A model that stands still beside the trained one in a form in which nobody would use it as its reference."""
    wider = _precision(copy) > _precision(original)
    return (wider and copy.device == original.device) or (copy.device == "cpu" != original.device)


def _waits_for_training(original: WeightSet, copy: WeightSet, history: History) -> bool:
    """Two models that training may be about to tell apart: one is frozen, or an optimizer is there for one of them."""
    if not (original.is_model and copy.is_model):
        return False
    is_trained = original.trained_share > MOST
    return is_trained != (copy.trained_share > MOST) or (is_trained and history.has_optimizer)
