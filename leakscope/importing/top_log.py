"""`top -b` in a loop or with `-n`: each table of processes, and the machine's memory above it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..units import GiB, KiB, MiB
from ._days import Days
from ._facts import Fact, NotThisFormat
from ._figures import KIB, number, sized, whole
from ._source import Source

LACKS = "has sizes of processes as top prints them, rounded where they are large, not what is in them"
_TOP = re.compile(r"top - (\d\d?:\d\d:\d\d) up ")
_MEMORY = re.compile(r"([KMGT])iB (Mem|Swap) *: *(.*)|(Mem|Swap): *(.*)")
_PAIR = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)([kKmMgG]?)i?\s*(\w[\w/ ]{0,15}?)(?=[,.]\s|[,.]?\s*$|,)")
_UNITS = {"K": KiB, "M": MiB, "G": GiB, "T": GiB * 1024, "": KiB}
_COLUMNS = {"VIRT": "virtual_bytes", "RES": "rss_bytes", "SWAP": "swap_bytes"}


def sniff(head: bytes, name: str) -> bool:
    text = head.decode("utf-8", "replace")
    return _TOP.search(text) is not None and re.search(r"^ *PID .*\bRES\b", text, re.MULTILINE) is not None


def read(source: Source) -> Iterator[Fact]:
    """A time of day for each table, or the moment that somebody printed above it."""
    source.tool = "top"
    source.meta |= {"whole_machine": True, "sees_ends": True}
    days = Days(source)
    at_s: float | None = None
    header: list[str] = []
    host: dict[str, int] = {}
    for line in source.lines():
        if match := _TOP.match(line.lstrip()):
            if host and at_s is not None:
                yield Fact("host_samples", at_s, host)
            at_s, header, host = days.at_s(match[1]), [], {}
        elif match := _MEMORY.match(line.lstrip()):
            _of_machine(host, match[2] or match[4], match[3] or match[5], match[1] or "K")
        elif line.lstrip().startswith("PID ") and "RES" in line:
            header = line.split()
            if at_s is None:
                raise NotThisFormat("has tables of top without the line above them that says when: run top -b")
        elif header and line.strip() and at_s is not None:
            yield from _row(source, header, line, at_s)
        elif not header:
            days.look_at(line)
    if host and at_s is not None:
        yield Fact("host_samples", at_s, host)
    if days.last is None:
        raise NotThisFormat("has no table of top with its time")
    if len(source.about) <= 20:  # -p: not the machine
        source.meta.pop("whole_machine")


def _row(source: Source, header: list[str], line: str, at_s: float) -> Iterator[Fact]:
    words = line.split(None, len(header) - 1)
    row = dict(zip(header, words))
    pid, rss = whole(row.get("PID")), sized(row.get("RES", ""), KIB)
    if pid is None or rss is None or len(words) < len(header):
        source.left_out += 1
        return
    if not rss:  # of the kernel
        return
    command = row.get("COMMAND", "").strip()
    source.knows(pid, comm=command.split(" ")[0].rsplit("/", 1)[-1][:15], cmdline=command if " " in command else None)
    sample = {column: sized(row.get(name, ""), KIB) for name, column in _COLUMNS.items() if name in row}
    threads = whole(row.get("nTH"))
    yield Fact("process_samples", at_s, {"pid": pid, **sample, "thread_count": threads, "state": row.get("S")})


def _of_machine(host: dict[str, int], what: str, text: str, unit: str) -> None:
    """``24105.1 total,  17647.9 free``, and after swap what is available; older ones ``8175396k total``."""
    for value, own, name in _PAIR.findall(text):
        found = number(value)
        if found is None:
            continue
        bytes = round(found * _UNITS[own.upper() or unit])
        column = {
            ("Mem", "total"): "mem_total_bytes", ("Mem", "free"): "mem_free_bytes",
            ("Mem", "buff/cache"): "page_cache_bytes", ("Swap", "total"): "swap_total_bytes",
            ("Swap", "free"): "swap_free_bytes", ("Swap", "avail Mem"): "mem_available_bytes",
        }.get((what, name.strip()))  # fmt: skip
        if column and 0 <= bytes < 2**60:
            host[column] = bytes
