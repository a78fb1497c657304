"""Sets of weights as the snapshots saw them, and how alike two of them are: arrays in, shares and distances out.

A set is all that hangs on one path: a model, a dict of tensors, a list of them. Tensors are matched by their values,
not by their names: a dict's keys are not recorded, and wrappers rename. Only *informative* tensors count: biases that
are still zero and scales that are still one are alike in any two models.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...storage import Rows
from ..tables import cells

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
# Elements and fingerprint: equal for tensors with the same values. Not the shape: a file that is read may be kept flat.
Key = tuple[int, str]

_COUNT = 32  # numbers in a fingerprint, as agent/torch/weights.py writes it
_BYTES = _COUNT * np.dtype(np.float32).itemsize
_DISTINCT = 4  # a tensor with so few different values says nothing
_MOST_ELEMENTS = int(np.iinfo(np.int64).max)  # a shape is text in the recording, and may say anything
_CHUNK = 512  # rows compared at once with all of a size: bounds memory, not the result
_PASSING = frozenset(("gradient", "batch", "saved-for-backward", "activation", "optimizer-state"))
_OF_MODELS = frozenset(("parameter", "buffer"))
# Largest relative error of rounding to the type, and the step of its smallest numbers.
_HALF, _SINGLE = np.finfo(np.float16), np.finfo(np.float32)
_ROUNDING = {
    "bfloat16": (2.0**-8, 0.0),  # numpy has none
    "float16": (float(_HALF.eps), float(_HALF.smallest_subnormal)),
    "float32": (float(_SINGLE.eps), 0.0),
}


class _Tensor(NamedTuple):
    """A row of table ``weights``."""

    fingerprint: str | None
    tensor_owner: str | None
    shape: str | None
    dtype: str | None
    device: str | None
    storage_key: int | None
    storage_bytes: int | None
    requires_grad: bool | None


@dataclass(frozen=True, eq=False)
class WeightSet:
    """The informative tensors of one path in one round. **Shape** one element, or row of ``values``, a tensor."""

    path: str
    values: Singles
    keys: tuple[Key, ...]
    dtypes: tuple[str, ...]
    storages: dict[int, tuple[int, Key]]  # address: bytes, key of a tensor in it
    devices: Counter[str]  # bytes on each
    is_model: bool  # held by modules, not by a dict or list
    is_master: bool  # known to an optimizer only
    trained_share: float  # of its tensors, those that require gradients

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def counts(self) -> Counter[Key]:
        return Counter(self.keys)

    @cached_property
    def elements_of(self) -> dict[Key, float]:
        """Elements of all its tensors with these values."""
        return {key: float(key[0]) * count for key, count in self.counts.items()}

    @property
    def device(self) -> str:
        return self.devices.most_common(1)[0][0]

    @property
    def dtype(self) -> str:
        return Counter(self.dtypes).most_common(1)[0][0]

    @cached_property
    def sizes(self) -> Floats:
        return np.array([elements for elements, _ in self.keys], dtype=np.float64)

    @cached_property
    def of_size(self) -> dict[float, Indices]:
        """Indices of its tensors of each size: a set is compared with every other one."""
        return {size: np.flatnonzero(self.sizes == size) for size in dict.fromkeys(self.sizes.tolist())}

    def shared_with(self, other: WeightSet) -> int:
        """Storages that are in both; an address that was used again is of another size in most cases."""
        common = self.storages.keys() & other.storages.keys()
        return sum(self.storages[address][1][0] == other.storages[address][1][0] for address in common)

    def bytes_of(self, keys: set[Key]) -> int:
        """Storages of these tensors, each once."""
        return sum(size for size, key in self.storages.values() if key in keys)


@dataclass(frozen=True, eq=False)
class Round:
    """All sets of one process at one moment, by path."""

    take: int
    time_s: float
    sets: dict[str, WeightSet]


@dataclass(frozen=True, eq=False)
class Likeness:
    """A copy compared with an original. Counts are of the copy's tensors, shares of its elements: biases weigh little.

    A share is of the smaller of the two sets: a checkpoint may hold more than the model, a model more than the
    checkpoint of its encoder. ``distance``: median of ||a - b|| / max(||a||, ||b||) to the nearest tensor.
    """

    equal_count: int
    rounded_count: int  # of the equal ones: equal up to rounding only
    near_count: int  # not equal, but descended from the same values
    equal_share: float
    close_share: float  # equal or near
    changed_share: float  # near, of what is equal or near
    distance: float
    keys: tuple[set[Key], set[Key]]  # of the equal tensors: the original's, the copy's
    close_keys: set[Key]  # of the copy's tensors that are equal or near
    repeats: float  # how many tensors of the original each equal one stands for: above 1, a template


def rounds_of(weights: Rows) -> list[Round]:
    """The rounds of one process by time, from its rows of table ``weights``."""
    time_s: dict[int, float] = {}
    tensors: dict[int, dict[str, list[_Tensor]]] = {}
    for take, at_s, path, *told in cells(weights, "take", "time_s", "weight_set", *_Tensor._fields):
        tensor = _Tensor(*told)
        if take is None or tensor.fingerprint is None or tensor.tensor_owner in _PASSING:
            continue
        time_s.setdefault(take, at_s)
        tensors.setdefault(take, {}).setdefault(path or "", []).append(tensor)
    rounds = []
    for take in sorted(tensors):
        found = [_weight_set(path, tensors[take][path]) for path in sorted(tensors[take])]
        rounds.append(Round(take, time_s[take], {one.path: one for one in found if len(one)}))
    return rounds


def by_last_path(rounds: list[Round]) -> list[Round]:
    """The same rounds with one path for a set in all: what main() calls ``model`` was ``self`` while it was made."""
    return [Round(r.take, r.time_s, _renamed(r.sets, rounds[-1].sets)) for r in rounds]


def _renamed(sets: dict[str, WeightSet], last: dict[str, WeightSet]) -> dict[str, WeightSet]:
    """The sets of an earlier round by the paths of the last one, where most of their storages went on under another."""
    found = dict(sets)
    for path, later in last.items():
        if path not in sets:
            gone = [weight_set for was, weight_set in found.items() if was not in last]
            before = max(gone, key=later.shared_with, default=None)
            if before is not None and 2 * later.shared_with(before) > max(len(later.storages), len(before.storages)):
                found[path] = found.pop(before.path)
    return found


def _weight_set(path: str, tensors: list[_Tensor]) -> WeightSet:
    raw = [_decoded(str(tensor.fingerprint)) for tensor in tensors]
    whole = np.array([len(data) == _BYTES for data in raw], dtype=bool)
    values = np.frombuffer(b"".join(d for d, w in zip(raw, whole) if w), dtype="<f4").reshape(-1, _COUNT)
    informative = np.zeros(len(raw), dtype=bool)
    informative[whole] = np.isfinite(values).all(axis=1) & (_distinct(values) > _DISTINCT)
    values = values[informative[whole]]
    tensors = [tensor for tensor, tells in zip(tensors, informative) if tells]
    keys = tuple((_elements(tensor.shape or ""), str(tensor.fingerprint)) for tensor in tensors)
    devices: Counter[str] = Counter()
    storages: dict[int, tuple[int, Key]] = {}
    for number, (tensor, key) in enumerate(zip(tensors, keys)):
        address = -1 - number if tensor.storage_key is None else tensor.storage_key
        if address not in storages:
            storages[address] = (tensor.storage_bytes or 0, key)
            devices[tensor.device or ""] += tensor.storage_bytes or 0
    return WeightSet(
        path,
        values,
        keys,
        tuple(tensor.dtype or "" for tensor in tensors),
        storages,
        devices,
        is_model=any(tensor.tensor_owner in _OF_MODELS for tensor in tensors),
        is_master=any(tensor.tensor_owner == "master-weight" for tensor in tensors),
        trained_share=sum(tensor.requires_grad is True for tensor in tensors) / max(1, len(tensors)),
    )


def _decoded(text: str) -> bytes:
    """Nothing where it is no fingerprint: a damaged row says nothing, and costs no other row its look."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _elements(shape: str) -> int:
    return min(math.prod(int(length) for length in shape.split("x") if length.isdecimal()), _MOST_ELEMENTS)


def _distinct(values: Singles) -> Indices:
    ordered = np.sort(values, axis=1)
    # Compared, not subtracted: of a training that ran away they are infinite.
    distinct: Indices = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    return distinct


def unchanged_share(before: WeightSet, after: WeightSet, keys: set[Key] | None = None) -> float:
    """Share of the tensors of ``after`` (of those in ``keys``) whose values were there ``before``, to the last bit."""
    wanted = set(after.keys) if keys is None else keys
    return len(wanted & before.counts.keys()) / len(wanted) if wanted else 0.0


def likeness(original: WeightSet, copy: WeightSet, *, near_distance: float) -> Likeness:
    """How much of ``copy`` is in ``original``; each tensor is compared with the nearest one of its size."""
    common = original.of_size.keys() & copy.of_size.keys()
    if not common:
        return Likeness(0, 0, 0, 0.0, 0.0, 0.0, 1.0, (set(), set()), set(), 1.0)
    nearest: Indices = np.full(len(copy), -1)
    for size in common:
        ours, theirs = copy.of_size[size], original.of_size[size]
        nearest[ours] = theirs[_nearest(original.values[theirs], copy.values[ours])]
    compared = np.flatnonzero(nearest >= 0)
    partners = nearest[compared]
    a, b = original.values[partners].astype(np.float64), copy.values[compared].astype(np.float64)
    distance = np.ones(len(copy))
    distance[compared] = _distance(a, b)
    exact = np.array([original.keys[j] == copy.keys[i] for i, j in zip(compared, partners)], dtype=bool)
    rounded = ~exact & _is_rounded(a, b, [(original.dtypes[j], copy.dtypes[i]) for i, j in zip(compared, partners)])
    equal = exact | rounded
    close = equal | (distance[compared] < near_distance)
    keys_of_original = {original.keys[j] for j in partners[equal]}
    keys_of_copy = {copy.keys[i] for i in compared[equal]}
    repeats = [original.counts[original.keys[j]] / copy.counts[copy.keys[i]]
               for i, j in zip(compared[equal], partners[equal])]  # fmt: skip
    return Likeness(
        equal_count=int(equal.sum()),
        rounded_count=int(rounded.sum()),
        near_count=int((close & ~equal).sum()),
        equal_share=_share(original, copy, partners[equal], compared[equal]),
        close_share=_share(original, copy, partners[close], compared[close]),
        changed_share=float(copy.sizes[compared[close & ~equal]].sum() / max(1.0, copy.sizes[compared[close]].sum())),
        distance=float(np.median(distance)) if len(copy) else 1.0,
        keys=(keys_of_original, keys_of_copy),
        close_keys={copy.keys[i] for i in compared[close]},
        repeats=float(np.median(repeats)) if repeats else 1.0,
    )


def _share(original: WeightSet, copy: WeightSet, of_original: Indices, of_copy: Indices) -> float:
    if not len(of_copy):
        return 0.0
    # Layers that came fresh from one template are equal, and several tensors find the same nearest one.
    found = sum(original.elements_of[key] for key in {original.keys[j] for j in of_original})
    return float(max(found / max(1.0, original.sizes.sum()), copy.sizes[of_copy].sum() / max(1.0, copy.sizes.sum())))


def _nearest(originals: Singles, copies: Singles) -> Indices:
    """Index of the nearest original for each copy."""
    squares = np.einsum("ij,ij->i", originals, originals)
    found = [
        np.argmin(squares - 2 * copies[i : i + _CHUNK] @ originals.T, axis=1) for i in range(0, len(copies), _CHUNK)
    ]
    nearest: Indices = np.concatenate(found)
    return nearest


def _distance(a: Floats, b: Floats) -> Floats:
    norm = np.maximum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    distance: Floats = np.linalg.norm(a - b, axis=1) / np.maximum(norm, np.finfo(np.float64).tiny)
    return distance


def _is_rounded(a: Floats, b: Floats, dtypes: list[tuple[str, str]]) -> Flags:
    """Equal but for rounding, where the types differ: of one type, weights that differ at all are other weights."""
    relative, smallest = np.zeros(len(a)), np.zeros(len(a))
    for i, pair in enumerate(dtypes):
        if pair[0] != pair[1]:
            errors = [_ROUNDING.get(dtype, (0.0, 0.0)) for dtype in pair]  # a copy of a copy was rounded twice
            relative[i], smallest[i] = sum(e[0] for e in errors), sum(e[1] for e in errors)
    if not relative.any():
        return np.zeros(len(a), dtype=bool)
    allowed = relative[:, None] * np.maximum(np.abs(a), np.abs(b)) + smallest[:, None]
    rounded: Flags = (np.abs(a - b) <= allowed).all(axis=1) & (relative > 0)
    return rounded
