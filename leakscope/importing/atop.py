"""atop: `atop -r FILE -P MEM,SWP,PRM,PRG` (or `-P ALL`), its parseable output."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..units import KiB
from ._facts import UNIX, Fact
from ._figures import KIB, amount, unix, whole
from ._source import Source

LACKS = "has sizes of processes and of the machine, not what is in them"
_LINE = re.compile(r"([A-Za-z]{3}) (\S+) (\d+) (\d{4}/\d\d/\d\d) (\d\d:\d\d:\d\d) (\d+) (.*)")
_PROCESS = re.compile(r"(\d+) (?:\((.*?)\)|(\S+)) ([A-Z]) (.*)")
_AFTER_COMMAND = re.compile(r"\) (\d+) \d+ \d+ \d+ ")


def sniff(head: bytes, name: str) -> bool:
    lines = head.decode("utf-8", "replace").split("\n")[:100]
    return any(re.match(r"(?:MEM|PRM|SWP|PRG|CPU|CPL) \S+ \d{9,10} \d{4}/\d\d/\d\d ", line) for line in lines)


def read(source: Source) -> Iterator[Fact]:
    """PRM and PRG of processes (not of their threads), MEM and SWP of the machine. What is before the first interval
    is since boot, and as good: sizes are those of the moment.
    """
    source.tool = "atop"
    source.clock = UNIX
    source.meta |= {"whole_machine": True, "sees_ends": True}
    for line in source.lines():
        match = _LINE.match(line)
        if match is None:
            source.left_out += line not in ("RESET", "SEP", "")
            continue
        at_s = unix(match[3])
        if at_s is None:
            source.left_out += 1
        elif match[1] in ("MEM", "SWP"):
            source.meta.setdefault("host", match[2])
            yield from _machine(match[1], match[7].split(), at_s)
        elif match[1] == "PRM":
            yield from _memory(source, match[7], at_s)
        elif match[1] == "PRG":
            _general(source, match[7])
    for pid in [pid for pid in source.about if not source.about[pid].get("is_process")]:
        del source.about[pid]
    for about in source.about.values():
        about.pop("is_process", None)


def _machine(label: str, words: list[str], at_s: float) -> Iterator[Fact]:
    page = whole(words[0]) if len(words) >= 5 else None
    if not page or page > 1 << 30:
        return
    if label == "MEM":
        total, free, cache, buffers = (amount(word, page) for word in words[1:5])
        both = cache + buffers if cache is not None and buffers is not None else None
        row = {"mem_total_bytes": total, "mem_free_bytes": free, "page_cache_bytes": both}
        yield Fact("host_samples", at_s, row)
    else:
        total, free = (amount(word, page) for word in words[1:3])
        yield Fact("host_samples", at_s, {"swap_total_bytes": total, "swap_free_bytes": free})


def _memory(source: Source, text: str, at_s: float) -> Iterator[Fact]:
    match = _PROCESS.match(text)
    words = match[5].split() if match else []
    if match is None or len(words) < 12:
        source.left_out += 1
        return
    pid = int(match[1][:9])
    if len(words) >= 14 and words[13] == "n":  # a thread
        return
    virtual, rss = amount(words[1], KIB), amount(words[2], KIB)
    if rss is None:
        source.left_out += 1
        return
    if not rss:
        return
    source.knows(pid, comm=match[2] or match[3], is_process=True)
    row = {"pid": pid, "rss_bytes": rss, "virtual_bytes": virtual, "swap_bytes": amount(words[11], KIB)}
    pss = whole(words[14]) if len(words) >= 15 else None
    if pss:  # with the option R
        row["pss_bytes"] = pss * KiB
    yield Fact("process_samples", at_s, {**row, "state": match[4]})


def _general(source: Source, text: str) -> None:
    match = _PROCESS.match(text)
    if match is None:
        return
    words, (_, _, rest) = match[5].split(" ", 6), match[5].partition(" (")
    if len(words) < 6 or words[2] != match[1]:  # TGID: a thread has its process's
        return
    source.knows(int(match[1][:9]), comm=match[2] or match[3])
    ends = list(_AFTER_COMMAND.finditer(rest))  # a command may have such words in it: the last are atop's
    if ends:
        source.knows(int(match[1][:9]), cmdline=rest[: ends[-1].start()], ppid=whole(ends[-1][1]))
