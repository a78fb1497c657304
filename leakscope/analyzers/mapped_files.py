"""Mapped files: distinguished from a leak, since the kernel takes their pages back when it needs them.

Looks for:     resident pages of mapped files that grow, and pages of them that were changed and are private.
Why:           memory-mapped datasets and checkpoints raise the resident size that tools show, and look like a leak.
Decides by:    a finding only for private copies of mapped files: the process wrote to them, so they cannot be taken
               back; min_private_bytes and min_share of the growth. All else is ruled out as a leak, with the figures.
Mistaken when: the few readings of the mappings miss when it happened.
Do:            map the file read-only, or copy only what has to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..evidence.keepers import mapping_name
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth
from ..facts.series.arithmetic import level_at
from ..facts.tables import look_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..grounds import Ground
from ..kinds import ASIDE
from ..units import MiB, format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

NEEDS = ("process_samples",)
TELLS = (ASIDE,)
AFTER = ()
_KIND = "mapped-files"
_FILES = ("file", "deleted-file")
_LEAST_SHOWN_BYTES = 16 * MiB  # below, nobody wonders


def findings(
    case: Case,
    *,
    min_private_bytes: int = 16 * MiB,  # relocated code of libraries takes a few
    min_share: float = 0.2,  # of the tree's growth
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per file of which private copies pile up, or what mapped files did."""
    growth = case.growth
    found = False
    for process in growth.processes if growth.leaking else ():
        for path, gained in _private_copies(process.rows("memory_maps")):
            if gained >= max(min_private_bytes, min_share * growth.growth_bytes):
                found = True
                name = mapping_name(case, process, gained, case.sources)
                yield _finding(case, process, path, gained, name)
    if not found:
        yield _harmless(growth, case)


def _private_copies(maps: pd.DataFrame) -> list[tuple[str, int]]:
    """[(path, bytes)]: how much more of each file was changed at the last reading than at the first."""
    return [(file, bytes) for file, bytes in _gains(maps, "map_private_dirty_bytes") if bytes > 0]


def _gains(maps: pd.DataFrame, column: str) -> list[tuple[str, int]]:
    """[(path, bytes)]: how much more of each file there was at the last look than at the first, the most first."""
    files = maps.assign(look=look_of(maps))[maps["map_kind"].isin(_FILES) & maps["map_path"].notna()]
    if not len(files):
        return []
    levels = files.pivot_table(index="map_path", columns="look", values=column, aggfunc="sum").fillna(0)
    gained = levels.to_numpy(dtype=np.float64)[:, [0, -1]] @ (-1.0, 1.0)
    return sorted(zip(map(str, levels.index), gained.astype(int).tolist()), key=lambda gain: gain[1], reverse=True)


def _finding(case: Case, process: ProcessGrowth, path: str, gained: int, named: tuple[str, str] | None) -> Finding:
    """``named``: what the program calls the mapping, and its variable; None where that was not seen."""
    bytes = min(gained, max(process.growth_bytes, 0))
    figure = {"private_dirty_bytes": gained}
    return case.finding(
        _KIND,
        f"{process.name} changes pages of the mapped file {path}: {format_bytes(gained)} are its own copies now",
        grounds=[Ground("the kernel says whose pages they are; looks are few, and it may be over", 0.8)],
        bytes=bytes,
        process=process,
        holder=f"{named[0]} of {path}" if named is not None else path,
        variable=named[1] if named is not None else None,
        path=path,
        evidence=[Evidence(f"{format_bytes(gained)} more of {path} are private and changed than at the start", figure)],
        doubts=["it ends when every page of the file has been changed once"],
        remedy=["map the file read-only, or copy only the part that has to change"],
    )


def _harmless(growth: TreeGrowth, case: Case) -> RuledOut:
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


def _file_of_most(maps: pd.DataFrame) -> str | None:
    """The file of which at least half of what became resident is."""
    gains = _gains(maps, "map_rss_bytes")
    return gains[0][0] if gains and gains[0][1] > 0.5 * sum(max(bytes, 0) for _, bytes in gains) else None
