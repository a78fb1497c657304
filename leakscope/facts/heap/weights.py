"""How much of what places hold are arrays, storages of tensors and native memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .nodes import Node
from .place import Floats, Place, downwards

ARRAYS = ("numpy.ndarray", "numpy.memmap", "array.array", "bytearray", "mmap.mmap")


def weigh_arrays(root: Place, nodes: Mapping[int, Node]) -> None:
    """How much of what each place retains are arrays, storages of tensors and native memory, as far as places go."""
    below = downwards([root])
    for place in reversed(below):
        if place.type_name in ARRAYS:
            is_one = place.node is not None
            own = np.minimum(_own_bytes(place, nodes), place.deep_bytes) if is_one else place.deep_bytes
            place.array_bytes = place.array_bytes + own
        if place.parent is not None:
            place.parent.array_bytes = place.parent.array_bytes + place.array_bytes
    for place in below:
        if place.node is not None:
            node = nodes[place.node]
            place.tensor_bytes = np.minimum(node.storage, place.deep_bytes)
            place.native_bytes = np.minimum(node.native, place.deep_bytes)
        _share_out(place, nodes)


def _share_out(place: Place, nodes: Mapping[int, Node]) -> None:
    """To members without a node of their own, the largest first: what those with one do not account for."""
    others = [child for child in place.children if child.node is None]
    if not others or not (place.tensor_bytes.any() or place.native_bytes.any()):
        return
    of_nodes = [nodes[child.node] for child in place.children if child.node is not None]
    tensors = place.tensor_bytes - sum((node.storage for node in of_nodes), np.zeros_like(place.tensor_bytes))
    native = place.native_bytes - sum((node.native for node in of_nodes), np.zeros_like(place.native_bytes))
    for child in sorted(others, key=lambda child: -child.deep_bytes.max()):
        child.tensor_bytes = np.clip(tensors, 0.0, child.deep_bytes)
        child.native_bytes = np.clip(native, 0.0, child.deep_bytes - child.tensor_bytes)
        tensors, native = tensors - child.tensor_bytes, native - child.native_bytes


def _own_bytes(place: Place, nodes: Mapping[int, Node]) -> Floats:
    """Of one object; where it is gone, nothing."""
    assert place.node is not None
    return np.where(place.deep_bytes > 0, nodes[place.node].own_bytes, 0.0)
