"""psrecord: its log, as text or as csv, with or without what was read and written."""

from __future__ import annotations

from collections.abc import Iterator

from ._facts import ELAPSED, Fact
from ._figures import MIB, amount, number
from ._source import Source

LACKS = "has resident and virtual memory alone, not what is in it or who holds it"
_PLAIN, _CSV = b"# Elapsed time", b"elapsed_time,nproc,cpu,mem_real,mem_virtual"


def sniff(head: bytes, name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return (b"Real (MB)" in first and b"Elapsed time" in first) or first.startswith(_CSV)


def read(source: Source) -> Iterator[Fact]:
    """Columns by their headings. With `--include-children` the figures are sums, which the log does not say."""
    source.clock, source.tool = ELAPSED, "psrecord"
    process = source.unnamed("main")
    is_csv = False
    last_s = -1.0
    for line in source.lines():
        if line.startswith("elapsed_time,"):
            is_csv = True
            continue
        if line.startswith("#") or not line.strip():
            continue
        words = line.split(",") if is_csv else line.split()
        if is_csv:
            del words[1:2]
        at_s = number(words[0]) if len(words) >= 4 else None
        rss, virtual = (amount(words[i], MIB) if len(words) >= 4 else None for i in (2, 3))
        if at_s is None or rss is None or at_s < last_s:
            source.left_out += 1
            continue
        last_s = at_s
        if rss:
            yield Fact("process_samples", at_s, {"pid": process, "rss_bytes": rss, "virtual_bytes": virtual})
