"""Names of W&B's system metrics, old and new, as rows: memory of the process, of the machine, of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..units import GiB
from ._facts import Fact
from ._figures import MIB, amount, number
from ._source import Source

_GPU = re.compile(r"gpu\.(\d+)\.(?:(process)\.)?(\w+)")
_PREFIX = re.compile(r"^(?:.* - )?(?:system[./])?")
LACKS = "has resident memory of the run's process and memory of GPUs, not what is in them"


def metric(name: str) -> str:
    """``proc.memory.rssMB`` of ``run-1 - system/proc.memory.rssMB`` and ``system.proc.memory.rssMB``."""
    return _PREFIX.sub("", name.strip())


def is_system(name: str) -> bool:
    return re.search(r"(?:^|[ ./])(?:proc\.memory\.|gpu\.\d+\.|memory_percent$|system[./]memory)", name) is not None


def facts(source: Source, at_s: float, figures: Mapping[str, Any]) -> Iterator[Fact]:
    """Rows of one moment, by metric name without its prefix."""
    pid = source.unnamed("run", comm="python")
    rss = amount(figures.get("proc.memory.rssMB"), MIB)
    if rss:
        threads = number(figures.get("proc.cpu.threads"))
        yield Fact("process_samples", at_s, {"pid": pid, "rss_bytes": rss, "thread_count": threads and int(threads)})
    available, percent = amount(figures.get("proc.memory.availableMB"), MIB), number(figures.get("memory_percent"))
    total = source.meta.get("mem_total_bytes")
    if available is None and total and percent is not None and 0 <= percent <= 100:
        available = round(total * (1 - percent / 100))
    if available is not None:
        yield Fact("host_samples", at_s, {"mem_available_bytes": available, "mem_total_bytes": total})
    yield from _gpus(source, at_s, figures, pid)


def _gpus(source: Source, at_s: float, figures: Mapping[str, Any], pid: int) -> Iterator[Fact]:
    known: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, value in figures.items():
        match = _GPU.fullmatch(name)
        if match is None or number(value) is None:
            continue
        known.setdefault((int(match[1][:4]), match[2] is not None), {})[match[3]] = value
    for (index, is_own), values in sorted(known.items()):
        used = amount(values.get("memoryAllocatedBytes"))
        percent = number(values.get("memoryAllocated"))
        if used is None:
            continue
        row: dict[str, Any] = {"gpu_index": index, "gpu_uuid": f"GPU {index}", "gpu_used_bytes": used}
        if is_own:
            yield Fact("gpu_samples", at_s, {**row, "pid": pid, "is_ours": True})
        else:
            total = source.meta.get("gpu_total_bytes", {}).get(str(index))
            if total is None and percent and percent >= 1 and used >= GiB // 4:  # a rounded share of so much is exact
                total = round(used / percent * 100)
                source.meta.setdefault("gpu_total_bytes", {})[str(index)] = total
            yield Fact("gpu_samples", at_s, {**row, "gpu_total_bytes": total})
