"""`/proc/PID/smaps` and `smaps_rollup` again and again, with the output of `date` between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ..units import KiB
from ._days import Days
from ._facts import Fact, NotThisFormat
from ._figures import whole
from ._source import Source

LACKS = "has what one process maps, not what lies in its heap or who holds it"
_MAPPING = re.compile(r"([0-9a-f]{4,16})-([0-9a-f]{4,16}) ([r-][w-][x-][sp]) [0-9a-f]+ \S+ \d+ *(.*)")
_FIELD = re.compile(r"([A-Z][A-Za-z_]+): +(\d+) kB")
_PID = re.compile(r"(?:^|\D)(\d{2,7})(?:\D|$)")
_MOST_MAPS = 40  # kinds and files of one reading; the rest of them is little
_SUMS = ("Rss", "Pss", "Pss_Anon", "Private_Clean", "Private_Dirty", "Anonymous", "Swap", "Size", "Pss_Shmem")
_OF_MAPS = {"Size": "map_size_bytes", "Rss": "map_rss_bytes", "Pss": "map_pss_bytes"}
_OF_MAPS |= {"Private_Dirty": "map_private_dirty_bytes", "Swap": "map_swap_bytes"}


def sniff(head: bytes, name: str) -> bool:
    text = head.decode("utf-8", "replace")
    return _MAPPING.search(text) is not None and re.search(r"^Rss: +\d+ kB", text, re.MULTILINE) is not None


def read(source: Source) -> Iterator[Fact]:
    """A reading ends where a date stands, or addresses begin anew."""
    source.tool = "/proc"
    pid = _pid_of(source)
    days, one, last = Days(source), _Reading(), -1
    for line in source.lines():
        if match := _MAPPING.match(line):
            begin = int(match[1], 16)
            if begin <= last and one.at_s is not None:
                yield from one.facts(pid)
                one = _Reading()
            if one.is_empty:
                one.at_s = days.at_s()
            last = begin
            one.begins(match[3], match[4].strip())
        elif match := _FIELD.match(line):
            one.adds(match[1], int(match[2][:15]) * KiB)
        else:
            before = days._said
            days.look_at(line)
            if days._said is not before and not one.is_empty:
                yield from one.facts(pid)
                one, last = _Reading(), -1
    yield from one.facts(pid)
    if days.last is None:
        raise NotThisFormat("does not say when each reading was made: print `date` before each")


def _pid_of(source: Source) -> int:
    match = _PID.search(source.path.stem)
    pid = whole(match[1]) if match else None
    if pid is None:
        return source.unnamed("main")
    return pid


class _Reading:
    """One look at all mappings, added up."""

    def __init__(self) -> None:
        self.at_s: float | None = None
        self.is_empty = True
        self._sums: Counter[str] = Counter()
        self._maps: dict[tuple[str, str | None], Counter[str]] = {}
        self._now: Counter[str] = Counter()

    def begins(self, rights: str, path: str) -> None:
        self.is_empty = False
        self._now = self._maps.setdefault(_kind_of(rights, path), Counter())
        self._now["map_count"] += 1

    def adds(self, field: str, bytes: int) -> None:
        if field in _SUMS:
            self._sums[field] += bytes
        if field in _OF_MAPS and not self.is_empty:
            self._now[_OF_MAPS[field]] += bytes

    def facts(self, pid: int) -> Iterator[Fact]:
        if self.is_empty or self.at_s is None:
            return
        sums, at_s = self._sums, self.at_s
        sample = {"pid": pid, "rss_bytes": sums["Rss"], "anon_bytes": sums["Anonymous"], "pss_bytes": sums["Pss"]}
        sample |= {"uss_bytes": sums["Private_Clean"] + sums["Private_Dirty"], "swap_bytes": sums["Swap"]}
        sample |= {"file_bytes": max(0, sums["Rss"] - sums["Anonymous"])}
        for field, column in (("Pss_Anon", "pss_anon_bytes"), ("Pss_Shmem", "pss_shmem_bytes")):
            if field in sums:
                sample[column] = sums[field]
        if "Size" in sums:
            sample["virtual_bytes"] = sums["Size"]
        yield Fact("process_samples", at_s, sample)
        if len(self._maps) == 1 and ("rollup", None) in self._maps:
            return
        largest = sorted(self._maps.items(), key=lambda item: -item[1]["map_rss_bytes"])[:_MOST_MAPS]
        for (kind, path), figures in largest:
            yield Fact("memory_maps", at_s, {"pid": pid, "map_kind": kind, "map_path": path, **figures})


def _kind_of(rights: str, path: str) -> tuple[str, str | None]:
    if path == "[rollup]":
        return "rollup", None
    if path.startswith(("/dev/shm/", "/SYSV", "/memfd:")):
        return "shared-memory", path
    if path.endswith(" (deleted)"):
        return "deleted-file", path[: -len(" (deleted)")]
    if path.startswith("/dev/"):
        return "device", path
    if path.startswith("/"):
        return "file", path
    if path.startswith("[heap"):
        return "heap", None
    if path.startswith("[stack"):
        return "stack", None
    return ("kernel", path) if path in ("[vdso]", "[vvar]", "[vsyscall]") else ("anonymous", None)
