"""How many tensors a process holds and their bytes in host memory, looked up no more often than that is cheap."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from time import perf_counter
from typing import Any


class TensorCount:
    """The collector's list of all objects has to be searched: 0.1 s in a large process.

    So it is looked up again once ``1 / cost_fraction`` times its own cost has passed; in between there is no figure.
    """

    def __init__(self, cost_fraction: float = 0.01) -> None:
        self._cost_fraction = cost_fraction
        self._next_at = 0.0

    def figures(self) -> dict[str, float]:
        """``tensor_count`` and ``tensor_bytes`` (host, each storage once); empty without torch or if it is too soon."""
        torch = sys.modules.get("torch")
        began = perf_counter()
        if torch is None or began < self._next_at:
            return {}
        count, size_bytes = _count(torch)
        ended = perf_counter()
        self._next_at = ended + (ended - began) / self._cost_fraction
        return {"tensor_count": count, "tensor_bytes": size_bytes}


def _count(torch: Any) -> tuple[int, int]:
    # By exact type, never isinstance: a program's objects may run code of their own when asked what they are.
    kinds = _subclasses(torch.Tensor)
    tensors = [obj for obj in gc.get_objects() if type(obj) in kinds]
    sizes: dict[int, int] = {}
    with torch._C.DisableTorchFunction():
        for tensor in tensors:
            # Errors: sparse, nested, not initialised, another version of torch. They have no storage to be had.
            with suppress(RuntimeError, NotImplementedError, AttributeError):
                if torch.Tensor.device.__get__(tensor).type == "cpu":
                    # Not by the storage's pointer: asking for it would make a lazy copy a real one.
                    key = torch._C._storage_id(tensor)
                    size_bytes = torch.Tensor.numel(tensor) * torch.Tensor.element_size(tensor)
                    sizes[key] = max(sizes.get(key, 0), size_bytes)
    return len(tensors), sum(sizes.values())


def _subclasses(cls: type) -> set[type]:
    """A class and all below it, without those of torch that stand for a tensor and own no memory."""
    found = {cls}
    below: list[type] = type.__subclasses__(cls)
    for subclass in below:
        if subclass.__name__ not in ("FakeTensor", "FunctionalTensor"):
            found |= _subclasses(subclass)
    return found
