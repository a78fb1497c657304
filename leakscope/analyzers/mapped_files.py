"""Mapped files: distinguished from a leak, since the kernel takes their pages back when it needs them.

Looks for:     resident pages of mapped files that grow, and pages of them that were changed and are private.
Why:           memory-mapped datasets and checkpoints raise the resident size that tools show, and look like a leak.
Decides by:    a finding only for private copies of mapped files: the process wrote to them, so they cannot be taken
               back; min_private_bytes and min_share of the growth. All else is ruled out as a leak, with the figures.
Mistaken when: the few readings of the mappings miss when it happened.
Do:            map the file read-only, or copy only what has to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..confidence import STRONG, Ground
from ..evidence.keepers import MAPPINGS, keeper, mapping_name, opening_line
from ..evidence.sentences import at_line
from ..facts.case import Case
from ..facts.code.adding import find_calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth
from ..facts.heap.accumulation import keeps_growing
from ..facts.series.arithmetic import Floats, level_at
from ..facts.tables import by_look, only
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ASIDE
from ..storage import Rows
from ..units import FEWEST, MOST, MUCH, WORTH, format_bytes

NEEDS = ("process_samples",)
SEEN_BY = ("process_samples.file_bytes", "memory_maps.map_rss_bytes")
TELLS = (ASIDE,)
_KIND = "mapped-files"
_FILES = ("file", "deleted-file")
_NUMBER = re.compile(r"\d+")
_LEAST_SHOWN_BYTES = WORTH  # below, nobody wonders


def findings(
    case: Case,
    *,
    min_private_bytes: int = WORTH,  # relocated code of libraries takes a few
    min_share: float = MUCH,  # of the tree's growth
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per file of which private copies pile up, or what mapped files did."""
    growth = case.growth
    found = False
    for process in growth.processes if growth.leaking else ():
        for gain in _gains(process.rows("memory_maps"), "map_private_dirty_bytes"):
            if gain.bytes >= max(min_private_bytes, min_share * growth.growth_bytes):
                found = True
                yield _finding(case, process, gain)
    if not found:
        yield _harmless(growth)


class _Gain(NamedTuple):
    """Of one file, or of all whose names differ in their numbers: ``bytes`` more at the last look than at the first.

    ``map_count``: how many mappings of them there were at ``time_s``.
    """

    path: str
    file_count: int
    bytes: int
    time_s: Floats
    map_count: Floats

    @property
    def are_ever_more(self) -> bool:
        return keeps_growing(self.time_s, self.map_count) and float(self.map_count[-1] - self.map_count[0]) >= FEWEST

    @property
    def files(self) -> str:
        return f"{self.file_count} files like {self.path}" if self.file_count > 1 else f"the mapped file {self.path}"


def _gains(maps: Rows, column: str) -> list[_Gain]:
    """The most first."""
    files = only(maps, maps["map_kind"].isin(_FILES) & maps["map_path"].notna())
    if not len(files):
        return []
    files = files.assign(alike=files["map_path"].map(lambda path: _NUMBER.sub("N", path)))
    (time_s, sums), (_, counts) = (by_look(files, name, "alike") for name in (column, "map_count"))
    names = {alike: own["map_path"].unique() for alike, own in files.groupby("alike")}
    found = []
    for alike, bytes in sums.items():
        own = names[alike]
        path = alike if len(own) > 1 else own[0]
        found.append(_Gain(path, len(own), int(bytes[-1] - bytes[0]), time_s, counts[alike]))
    return sorted(found, key=lambda gain: -gain.bytes)


def _finding(case: Case, process: ProcessGrowth, gain: _Gain) -> Finding:
    """Who maps again and again keeps the mappings somewhere; else it is one that a variable has."""
    bytes = min(gain.bytes, max(process.growth_bytes, 0))
    size, changed = format_bytes(bytes), format_bytes(gain.bytes)
    made = find_calls(case.sources, "mmap.mmap", "numpy.memmap") if gain.are_ever_more else []
    if gain.are_ever_more:
        kept = keeper(case, process, MAPPINGS, (gain.time_s, gain.map_count), made[0] if made else None)
        first, last = (round(float(gain.map_count[at])) for at in (0, -1))
        text = f"they were mapped {first} times at first and {last} times at the end"
        seen = [Evidence(text, {"first_count": first, "last_count": last}), *kept.evidence]
        name, variable, line = kept.name or None, kept.variable, opening_line(made, kept)
        title = f"{process.name} keeps mappings of {gain.files}{kept.words}: {size} are private, changed copies"
        doubts, remedy = kept.doubts, "close each mapping after use, or map the file once"
    else:
        name, variable = mapping_name(case, process, gain.bytes, case.sources) or (None, None)
        seen, line = [], None
        title = f"{process.name} changes pages of {gain.files}: {size} are private copies now"
        doubts = ["it ends when every page of the file has been changed once"]
        remedy = "map the file read-only, or copy only the part that has to change"
    private = f"{changed} more of {gain.path} are private and changed than at the start"
    return case.finding(
        _KIND,
        title,
        grounds=[Ground("the kernel says whose pages they are; looks are few, and it may be over", STRONG)],
        bytes=bytes,
        process=process,
        line=line,
        holder=f"{name} of {gain.path}" if name is not None else gain.path,
        variable=variable,
        path=gain.path,
        evidence=[Evidence(private, {"private_dirty_bytes": gain.bytes}), *seen, at_line(line, "maps it")],
        doubts=doubts,
        remedy=[remedy],
    )


def _harmless(growth: TreeGrowth) -> RuledOut:
    """What mapped files did, said so that nobody takes it for a leak."""
    gains = [(_file_gain(process, growth), process) for process in growth.processes]
    gain, process = max(gains, key=lambda pair: pair[0], default=(0, None))
    if process is None or gain < _LEAST_SHOWN_BYTES:
        return RuledOut(_KIND, "resident pages of mapped files do not grow", {"grown_bytes": max(gain, 0)})
    text = f"{process.label} has {format_bytes(gain)} more of mapped files resident"
    file = _file_of_most(process.rows("memory_maps"))
    if file:
        text += f", most of {file}"
    return RuledOut(
        _KIND, f"{text}: not a leak, the kernel takes these pages back when it needs them", {"grown_bytes": gain}
    )


def _file_gain(process: ProcessGrowth, growth: TreeGrowth) -> int:
    start, end = (level_at(process.time_s, process.file_bytes, at) for at in (growth.start_s, growth.end_s))
    return round(end - start)


def _file_of_most(maps: Rows) -> str | None:
    """The file of which at least half of what became resident is."""
    gains = _gains(maps, "map_rss_bytes")
    return gains[0].path if gains and gains[0].bytes > MOST * sum(max(gain.bytes, 0) for gain in gains) else None
