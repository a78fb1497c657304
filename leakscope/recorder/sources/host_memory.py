"""Memory of the machine, its pressure, its OOM kills. Runs in the recorder; inside a container it is still the host."""

from __future__ import annotations

from collections.abc import Iterator

from .. import proc
from ..tree import Row, Tree

TABLE = "host_samples"


def rows(tree: Tree) -> Iterator[Row]:
    """One row. **Cost** 60 us; more on machines of many cores, where /proc/vmstat adds up counters of each."""
    meminfo = proc.read("/proc/meminfo")
    if not meminfo:
        return
    cached, buffers, shmem = (proc.bytes_of(meminfo, name) or 0 for name in (b"Cached", b"Buffers", b"Shmem"))
    some, full = proc.pressure("/proc/pressure/memory")
    yield {
        "mem_total_bytes": proc.bytes_of(meminfo, b"MemTotal"),
        "mem_available_bytes": proc.bytes_of(meminfo, b"MemAvailable"),
        "mem_free_bytes": proc.bytes_of(meminfo, b"MemFree"),
        "page_cache_bytes": max(0, cached + buffers - shmem),
        "host_shmem_bytes": shmem,
        "swap_total_bytes": proc.bytes_of(meminfo, b"SwapTotal"),
        "swap_free_bytes": proc.bytes_of(meminfo, b"SwapFree"),
        "psi_some_avg10": some,
        "psi_full_avg10": full,
        "oom_kill_count": proc.count_of(proc.read("/proc/vmstat"), b"oom_kill"),
    }


def available_bytes() -> int | None:
    """What can still be had without swap, now."""
    return proc.bytes_of(proc.read("/proc/meminfo") or b"", b"MemAvailable")
