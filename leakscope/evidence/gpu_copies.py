"""Two sets of weights of the same shapes on one GPU, by a memory snapshot of torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..confidence import WEAK, Ground
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.roles import MODEL
from ..facts.gpu.snapshots import Stack
from ..findings import Evidence, Finding
from ..units import MiB, format_bytes
from .gpu_device import subject_in

if TYPE_CHECKING:
    from ..facts.case import Case

_KIND = "duplicate-model"
_LEAST_TENSORS = 8
_LEAST_BYTES = 16 * MiB
_LEAST_SIZES = 3  # different ones: layers that are all alike are one model
_EQUAL_SHARE = 0.9


class _Copy(NamedTuple):
    """``half``: in elements of half the size."""

    sizes: Sequence[int]
    first: Stack
    second: Stack
    half: bool


def copies_in_snapshots(case: Case) -> Iterator[Finding]:
    """One finding for each device with a second set of weights."""
    for budget in case.last_gpu_budgets:
        copy = _copy(budget)
        if copy is not None:
            yield _finding(case, budget, copy)


def _copy(budget: DeviceBudget) -> _Copy | None:
    groups: dict[tuple[str | None, int | None], list[tuple[int, Stack]]] = {}
    for one, role in zip(budget.device.allocations, budget.roles):
        if role == MODEL and one.freed is None:
            stack = budget.device.stack(one.stack)
            groups.setdefault(_site(stack), []).append((one.size, stack))
    sets = [group for group in groups.values() if _is_model([size for size, _ in group])]
    for number, group in enumerate(sets):
        sizes = [size for size, _ in group]
        middle = len(sizes) // 2
        first, second = sizes[:middle], sizes[middle:]
        if first == second and _is_model(first) and not _repeats(first):
            return _Copy(first, group[0][1], group[middle][1], False)
        for other in sets[number + 1 :]:
            others = [size for size, _ in other]
            for factor in (1, 2):
                if _alike(sizes, others, factor) or _alike(others, sizes, factor):
                    smaller = min(sizes, others, key=sum)
                    return _Copy(smaller, group[0][1], other[0][1], factor == 2)
    return None


def _site(stack: Stack) -> tuple[str | None, int | None]:
    """What loads a set: the user's innermost line."""
    return stack.file, stack.line


def _is_model(sizes: Sequence[int]) -> bool:
    return len(sizes) >= _LEAST_TENSORS and sum(sizes) >= _LEAST_BYTES and len(set(sizes)) >= _LEAST_SIZES


def _repeats(sizes: Sequence[int]) -> bool:
    """Whether it is one pattern several times over: layers, and no whole model."""
    count = len(sizes)
    return any(count % p == 0 and list(sizes) == list(sizes[:p]) * (count // p) for p in range(1, count // 2 + 1))


def _alike(sizes: Sequence[int], others: Sequence[int], factor: int) -> bool:
    shared = Counter(sizes) & Counter(size * factor for size in others)
    return sum(shared.values()) >= _EQUAL_SHARE * max(len(sizes), len(others))


def _finding(case: Case, budget: DeviceBudget, copy: _Copy) -> Finding:
    device, size = budget.device, sum(copy.sizes)
    how = "the same shapes in half the precision" if copy.half else "the same shapes"
    return case.finding(
        _KIND,
        f"Two sets of weights of {how} are on {device.label}: {format_bytes(size)} more",
        severity="note" if copy.half else "warning",
        grounds=[Ground("sizes alone are compared: a snapshot has no values", WEAK)],
        bytes=size,
        subject=subject_in(device, copy.second),
        evidence=[
            Evidence(
                f"{len(copy.sizes)} tensors of {len(set(copy.sizes))} sizes, in order, were allocated at "
                f"{copy.first.place} and again at {copy.second.place}",
                {"tensor_count": len(copy.sizes), "bytes": size},
            )
        ],
        doubts=["a reference model, an average of weights or master weights look alike and are meant to be there"],
        remedy=[f"if the second set is a leftover, drop it before training: frees about {format_bytes(size)}"],
        wasted=True,
    )
