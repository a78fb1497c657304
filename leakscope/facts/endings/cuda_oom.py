"""The figures in torch's message that GPU memory ran out, in the wordings of torch 0.4 to 2.13, CUDA, ROCm and XPU.

Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.20 GiB already allocated; 18.62 MiB free;
    23.41 MiB cached)                     (beside what is allocated)                               up to 1.3
    6.33 GiB reserved in total by PyTorch)                                                         1.4 to 2.0
Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.79 GiB of which 18.62 MiB is free. Process 42 has
    1.00 GiB memory in use. Including non-PyTorch memory, this process has 6.50 GiB memory in use. 7.00 GiB
    allowed; Of the allocated memory 6.20 GiB is allocated by PyTorch, with 12.00 MiB allocated in private pools
    (e.g., CUDA Graphs), and 100.00 MiB is reserved by PyTorch but unallocated.                     since 2.1
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from ...units import SIZES, GiB, KiB, MiB

_SIZE = r"((?<![\d.])-?[\d.]+) (bytes|KiB|MiB|GiB|TiB|KB|MB|GB)"
_OLD_SIZES = {"KB": KiB, "MB": MiB, "GB": GiB}  # which are powers of two, too
_START = re.compile(r"\b(?:CUDA|HIP|XPU) out of memory\.")
_LONGEST = 4000  # characters of one message: a line for each process on the GPU
_PATTERNS = {
    "requested_bytes": re.compile(rf"Tried to allocate {_SIZE}"),
    "total_bytes": re.compile(rf"(?:{_SIZE} total capacity|total capac?i?ty of {_SIZE})"),
    "free_bytes": re.compile(rf"(?:{_SIZE} free;|of which {_SIZE} is free)"),
    "allowed_bytes": re.compile(rf"{_SIZE} allowed;"),
    "allocated_bytes": re.compile(rf"(?:{_SIZE} already allocated|{_SIZE} is allocated by PyTorch)"),
    "unallocated_bytes": re.compile(rf"(?:{_SIZE} is reserved by PyTorch but unallocated|{_SIZE} cached)"),
    "reserved_bytes": re.compile(rf"{_SIZE} reserved in total by PyTorch"),
}
_OTHERS = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_DEVICE = re.compile(r"\bGPU (\d+)(?:;| has)")


@dataclass(frozen=True)
class CudaOom:
    """One message. **Units** bytes; None where this version of torch does not say.

    ``unallocated_bytes``: reserved by torch and not in use. ``other_bytes``: of the processes that it names beside.
    """

    device: int | None
    requested_bytes: int | None
    total_bytes: int | None
    free_bytes: int | None
    allowed_bytes: int | None
    allocated_bytes: int | None
    unallocated_bytes: int | None
    reserved_bytes: int | None
    other_bytes: int | None

    @property
    def is_fragmented(self) -> bool | None:
        """What torch held and did not use would have been enough, if it had been in one piece; None: not said."""
        if self.requested_bytes is None or self.unallocated_bytes is None:
            return None
        return self.unallocated_bytes >= self.requested_bytes

    @property
    def is_own_limit(self) -> bool:
        """The device had room: the program had allowed itself less (torch.cuda.set_per_process_memory_fraction)."""
        known = self.allowed_bytes is not None and self.requested_bytes is not None and self.free_bytes is not None
        return known and (self.free_bytes or 0) >= (self.requested_bytes or 0)

    @property
    def figures(self) -> dict[str, int]:
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


def parse(text: str) -> CudaOom | None:
    """The last message of this kind in a text."""
    starts = list(_START.finditer(text))
    if not starts:
        return None
    words = " ".join(text[starts[-1].start() :][:_LONGEST].split())
    sizes = {name: _size(pattern.search(words)) for name, pattern in _PATTERNS.items()}
    device = _DEVICE.search(words)
    others = [_bytes(number, unit) for _, number, unit in _OTHERS.findall(words)]
    if sizes["unallocated_bytes"] is None and None not in (sizes["reserved_bytes"], sizes["allocated_bytes"]):
        held = (sizes["reserved_bytes"] or 0) - (sizes["allocated_bytes"] or 0)
        sizes["unallocated_bytes"] = held if held >= 0 else None
    if sizes["reserved_bytes"] is None and None not in (sizes["unallocated_bytes"], sizes["allocated_bytes"]):
        sizes["reserved_bytes"] = (sizes["unallocated_bytes"] or 0) + (sizes["allocated_bytes"] or 0)
    return CudaOom(int(device.group(1)) if device else None, **sizes, other_bytes=sum(others) if others else None)


def _size(found: re.Match[str] | None) -> int | None:
    parts = [part for part in found.groups() if part is not None] if found else []
    return _bytes(parts[0], parts[1]) if len(parts) == 2 else None


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * {**SIZES, **_OLD_SIZES}[unit])
