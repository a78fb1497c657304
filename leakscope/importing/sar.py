"""sar: JSON of `sadf -j FILE -- -r -S` (memory and swap of the machine)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._facts import LOCAL, UNIX, Fact, NotThisFormat
from ._figures import KIB, amount, moment, number
from ._source import Source

LACKS = "has memory of the whole machine, not of a process"
_COLUMNS = {"memfree": "mem_free_bytes", "avail": "mem_available_bytes", "swpfree": "swap_free_bytes"}


def sniff(head: bytes, name: str) -> bool:
    return b'"sysstat"' in head[:2000] and b'"hosts"' in head[:4000]


def read(source: Source) -> Iterator[Fact]:
    """Of each host. The size of its memory is not among the figures: it follows from what is used, and in percent."""
    source.tool = "sysstat"
    document = source.document()
    hosts = document.get("sysstat", {}).get("hosts") if isinstance(document, dict) else None
    hosts = [host for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []
    if len(hosts) > 1:
        source.notes.append("it has several hosts: the first is imported")
    for host in hosts[:1]:
        source.meta["host"] = host.get("nodename")
        entries = [e for e in host.get("statistics") or () if isinstance(e, dict) and isinstance(e.get("memory"), dict)]
        if not entries:
            raise NotThisFormat("has no memory: make it by `sadf -j FILE -- -r -S`")
        total = _total(entries)
        if total is not None:
            source.notes.append("the size of memory is computed from percentages")
        for entry in entries:
            at = _moment(entry.get("timestamp"))
            if at is None:
                source.left_out += 1
                continue
            at_s, source.clock = at
            yield Fact("host_samples", at_s, {**_row(entry["memory"]), "mem_total_bytes": total})


def _row(memory: dict[str, Any]) -> dict[str, int | None]:
    row = {column: amount(memory.get(name), KIB) for name, column in _COLUMNS.items()}
    cached, buffers = amount(memory.get("cached"), KIB), amount(memory.get("buffers"), KIB)
    row["page_cache_bytes"] = cached + buffers if cached is not None and buffers is not None else None
    free, used = amount(memory.get("swpfree"), KIB), amount(memory.get("swpused"), KIB)
    row["swap_total_bytes"] = free + used if free is not None and used is not None else None
    return row


def _total(entries: list[dict[str, Any]]) -> int | None:
    """Where most is used the percentage is the most exact."""
    used = ((number(e["memory"].get("memused")), number(e["memory"].get("memused-percent"))) for e in entries)
    known = [(kb, percent) for kb, percent in used if kb and percent and percent > 0]
    if not known:
        return None
    kb, percent = max(known, key=lambda pair: pair[1])
    return amount(kb / percent * 100, KIB)


def _moment(stamp: Any) -> tuple[float, str] | None:
    if not isinstance(stamp, dict):
        return None
    found = moment(f"{stamp.get('date')} {stamp.get('time')}")
    if found is None:
        return None
    return found[0], UNIX if stamp.get("utc") == 1 else LOCAL
