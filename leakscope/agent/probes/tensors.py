"""The budget of tensors: storages by owner, device and type, and the places where a user's own are held."""

from .. import tensors

TABLE = "tensors"

MOST_PLACES = 12
LEAST_PLACE_BYTES = 256 * 1024


def rows(take):
    """One row an owner, device and type; then the largest places of users' tensors, with their path."""
    inventory = take.inventory
    if inventory is None:
        return
    for row in budget(inventory, "take"):
        yield row
    places = {}
    for address, storage in inventory.storages.items():
        node = take.walk.storages.get(address)
        if storage.owner is not tensors.USER or node is None:
            continue
        holder = container_of(node)
        place = places.setdefault((id(holder), storage.device, storage.dtype), [holder, storage, 0.0, 0.0])
        place[2] += node.scale
        place[3] += storage.size * node.scale
        if storage.size > place[1].size:
            place[1] = storage
    largest = sorted(places.values(), key=lambda place: -place[3])[:MOST_PLACES]
    for holder, storage, count, size in largest:
        if size >= LEAST_PLACE_BYTES:
            yield dict(_row(tensors.USER, storage, count, size, "take"), path=holder.path())


def budget(inventory, moment):
    """Rows without a path: they add up to all storages that were seen."""
    groups = {}
    for storage in inventory.storages.values():
        factor = inventory.factor if storage.owner in (tensors.USER, tensors.OTHER, tensors.ACTIVATION) else 1
        group = groups.setdefault((storage.owner, storage.device, storage.dtype), [storage, 0, 0])
        group[1] += factor
        group[2] += storage.size * factor
        if storage.size > group[0].size:
            group[0] = storage
    for (owner, _device, _dtype), (largest, count, size) in groups.items():
        yield _row(owner, largest, count, size, moment)


def _row(owner, largest, count, size, moment):
    return {
        "moment": moment,
        "tensor_owner": owner,
        "device": largest.device,
        "dtype": largest.dtype,
        "shape": largest.shape,
        "storage_count": int(count),
        "storage_bytes": int(size),
    }


def container_of(node):
    """The node whose member or item this is: tensors are told by the container, not by each of its keys."""
    while node.parent is not None and node.label.startswith("["):
        node = node.parent
    return node
