"""Two sets of weights of the same shapes on one device, by the sizes of what a memory snapshot of torch has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ...units import FEWEST, FULL, WORTH
from .budget import DeviceBudget
from .roles import MODEL
from .snapshots import Stack

# Fewer different sizes are layers that are all alike: one model.
_LEAST_TENSORS, _LEAST_SIZES, _LEAST_ON_GPU, _EQUAL_SHARE = 8, FEWEST, WORTH, FULL


class SecondSet(NamedTuple):
    """Sizes of the tensors of a second set of weights. ``half``: in elements of half the size."""

    sizes: Sequence[int]
    first: Stack
    second: Stack
    half: bool


def second_set(budget: DeviceBudget) -> SecondSet | None:
    groups: dict[tuple[str | None, int | None], list[tuple[int, Stack]]] = {}
    for one, role in zip(budget.device.allocations, budget.roles):
        if role == MODEL and one.freed is None:
            stack = budget.device.stack(one.stack)
            groups.setdefault((stack.file, stack.line), []).append((one.size, stack))  # the line that loads a set
    sets = [group for group in groups.values() if _is_model([size for size, _ in group])]
    for number, group in enumerate(sets):
        sizes = [size for size, _ in group]
        middle = len(sizes) // 2
        first, second = sizes[:middle], sizes[middle:]
        if first == second and _is_model(first) and not _repeats(first):
            return SecondSet(first, group[0][1], group[middle][1], False)
        for other in sets[number + 1 :]:
            others = [size for size, _ in other]
            for factor in (1, 2):
                if _alike(sizes, others, factor) or _alike(others, sizes, factor):
                    smaller = min(sizes, others, key=sum)
                    return SecondSet(smaller, group[0][1], other[0][1], factor == 2)
    return None


def _is_model(sizes: Sequence[int]) -> bool:
    return len(sizes) >= _LEAST_TENSORS and sum(sizes) >= _LEAST_ON_GPU and len(set(sizes)) >= _LEAST_SIZES


def _repeats(sizes: Sequence[int]) -> bool:
    """Whether it is one pattern several times over: layers, and no whole model."""
    count = len(sizes)
    return any(count % p == 0 and list(sizes) == list(sizes[:p]) * (count // p) for p in range(1, count // 2 + 1))


def _alike(sizes: Sequence[int], others: Sequence[int], factor: int) -> bool:
    shared = Counter(sizes) & Counter(size * factor for size in others)
    return sum(shared.values()) >= _EQUAL_SHARE * max(len(sizes), len(others))
