"""Rows of the tables ``tensors`` and ``weights``, of what an inventory has found. Runs in the job."""

from __future__ import annotations

import binascii

from . import tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .tensors import Inventory, Storage


def budget(inventory: Inventory, moment: str) -> Iterator[dict[str, Any]]:
    """Storages by owner, device and type: rows that add up to all that were seen."""
    groups: dict[tuple[Any, str, str], list[Any]] = {}
    for storage in inventory.storages.values():
        factor = storage.factor if storage.owner in (tensors.USER, tensors.OTHER, tensors.ACTIVATION) else 1
        group = groups.setdefault((storage.owner, storage.device, storage.dtype), [storage, 0, 0])
        group[1] += factor
        group[2] += storage.size * factor
        if storage.size > group[0].size:
            group[0] = storage
    for (owner, _device, _dtype), (largest, count, size) in groups.items():
        yield storages_row(owner, largest, count, size, moment)


def storages_row(owner: str | None, largest: Storage, count: float, size: float, moment: str) -> dict[str, Any]:
    return {
        "moment": moment,
        "tensor_owner": owner,
        "device": largest.device,
        "dtype": largest.dtype,
        "shape": largest.shape,
        "storage_count": int(count),
        "storage_bytes": int(size),
    }


def weights_row(address: int, storage: Storage, fingerprint: bytes) -> dict[str, Any]:
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
        "fingerprint": binascii.b2a_base64(fingerprint, newline=False).decode(),
    }
