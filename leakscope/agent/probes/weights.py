"""Fingerprints of weights and the model, optimizer or container each belongs to, in snapshots with a round of them."""

from __future__ import annotations

import binascii

from .tensors import container_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..torch.tensors import Storage
    from . import Snapshot

TABLE = "weights"
NEEDS_WALK = True


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    inventory = snapshot.inventory
    if inventory is None:
        return
    for address, storage in inventory.storages.items():
        if storage.print is None:
            continue
        name = storage.name
        training = None
        if storage.root is not None:
            weight_set, training = label_of(snapshot, storage.root), inventory.roots[storage.root][2]
        else:
            node = snapshot.walk.storages.get(address)
            if node is None:
                weight_set = None
            else:
                holder = container_of(node)
                weight_set = holder.path()
                name = node.path()[len(weight_set) :] or None
        own = {"weight_set": weight_set, "tensor_name": name, "is_training": training}
        yield dict(row_of(address, storage, storage.print), **own)


def row_of(address: int, storage: Storage, fingerprint: bytes) -> dict[str, Any]:
    """But for whose it is."""
    return {
        "tensor_name": storage.name,
        "tensor_owner": storage.owner,
        "device": storage.device,
        "dtype": storage.dtype,
        "shape": storage.shape,
        "storage_bytes": storage.size,
        "storage_key": address & 0x7FFFFFFFFFFFFFFF,
        "requires_grad": storage.trained,
        "fingerprint": binascii.b2a_base64(fingerprint, newline=False).decode("ascii"),
    }


def label_of(snapshot: Any, root: int) -> str:
    """The path of a model or optimizer, or its type where no name leads to it; members of one list are numbered."""
    labels = snapshot.labels
    known = labels.get(root)
    if known is None:
        node = snapshot.walk.landmarks.get(root)
        label = snapshot.inventory.roots[root][0].rsplit(".", 1)[-1] if node is None else node.path()
        alike = sum(1 for other in labels.values() if other.split(" #")[0] == label)
        known = labels[root] = label if not alike else f"{label} #{alike + 1}"
    return known
