"""The budget of tensors: storages by owner, device and type, and the places where a user's own are held."""

from __future__ import annotations

from ..torch import tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..torch.tensors import Inventory, Storage
    from ..walking.walk import Node
    from . import Snapshot

TABLE = "tensors"
NEEDS_WALK = True

MOST_PLACES = 12
LEAST_PLACE_BYTES = 256 * 1024


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """One row an owner, device and type; then the largest places of users' tensors, with their path."""
    inventory = snapshot.inventory
    if inventory is None:
        return
    places = _places(inventory.storages, snapshot.walk.storages)
    held: dict[tuple[str, str], float] = {}
    for (_holder, device, dtype), (_node, _storage, _count, size) in places.items():
        held[device, dtype] = held.get((device, dtype), 0.0) + size
    for row in budget(inventory, "take", held):
        yield row
    largest = sorted(places.values(), key=lambda place: -place[3])[:MOST_PLACES]
    for holder, storage, count, size in largest:
        if size >= LEAST_PLACE_BYTES:
            yield dict(row_of(tensors.USER, storage, count, size, "take"), path=holder.path())


def _places(storages: Mapping[int, Storage], nodes: Mapping[int, Node | None]) -> dict[Any, list[Any]]:
    """{(id of the holder's node, device, dtype): [that node, its largest storage, storages, bytes]} of users' tensors.

    Of a long container the walk comes to a sample, and its node knows what all members weigh: each storage that was
    come to stands for some more.
    """
    found: list[tuple[Any, Storage]] = [
        (nodes[address], storage) for address, storage in storages.items()
        if storage.owner is tensors.USER and address in nodes
    ]  # fmt: skip
    come_to: dict[Node, int] = {}
    for node, storage in found:
        if storage.device == "cpu":
            come_to[node] = come_to.get(node, 0) + storage.size
    places: dict[Any, list[Any]] = {}
    for node, storage in found:
        if storage.device == "cpu":
            stands_for = node.tensor_bytes / (come_to[node] or 1)
        else:  # only memory of the host is weighed
            stands_for = node.count / (node.visits or 1)
        stands_for = max(1.0, stands_for)
        holder = container_of(node)
        place = places.setdefault((id(holder), storage.device, storage.dtype), [holder, storage, 0.0, 0.0])
        place[2] += stands_for
        place[3] += storage.size * stands_for
        if storage.size > place[1].size:
            place[1] = storage
    return places


def budget(
    inventory: Inventory, moment: str, held: Mapping[tuple[str, str], float] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows without a path: they add up to all storages that were seen.

    ``held``: {(device, dtype): bytes} that users' names lead to, by estimate. Of those that nobody was seen to hold so
    many are held where others were sampled.
    """
    groups: dict[tuple[Any, str, str], list[Any]] = {}
    for storage in inventory.storages.values():
        factor = inventory.factor if storage.owner in (tensors.USER, tensors.OTHER, tensors.ACTIVATION) else 1
        group = groups.setdefault((storage.owner, storage.device, storage.dtype), [storage, 0, 0])
        group[1] += factor
        group[2] += storage.size * factor
        if storage.size > group[0].size:
            group[0] = storage
    for (device, dtype), size in (held or {}).items():
        users, others = (groups.get((owner, device, dtype)) for owner in (tensors.USER, tensors.OTHER))
        if users is not None and others is not None and others[2]:
            share = min(1.0, max(0.0, size - users[2]) / others[2])
            for column in (1, 2):
                moved = others[column] * share
                users[column] += moved
                others[column] -= moved
    for (owner, _device, _dtype), (largest, count, size) in groups.items():
        yield row_of(owner, largest, count, size, moment)


def row_of(owner: str | None, largest: Storage, count: float, size: float, moment: str) -> dict[str, Any]:
    return {
        "moment": moment,
        "tensor_owner": owner,
        "device": largest.device,
        "dtype": largest.dtype,
        "shape": largest.shape,
        "storage_count": int(count),
        "storage_bytes": int(size),
    }


def container_of(node: Node) -> Node:
    """The node whose member or item this is: tensors are told by the container, not by each of its keys."""
    while node.parent is not None and node.label.startswith("["):
        node = node.parent
    return node
