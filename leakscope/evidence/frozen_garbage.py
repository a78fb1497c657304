"""Cycles that gc.freeze() hides from the collector: unreachable, in no list, and never freed.

To freeze once before forking is good practice, and innocent: what is frozen then stays as much. To freeze again and
again moves also what is in use at the moment, and of that the cycles are never freed: ever more frozen objects. Of
those the graph of the heap has the garbage: frozen objects that nothing leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..confidence import Ground
from ..facts.code.adding import find_calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Strays
from ..facts.heap.accumulation import keeps_growing
from ..facts.series.arithmetic import Floats
from ..facts.subject import definition_of
from ..facts.tables import narrow, only, text_of
from ..facts.where.cycles import class_place
from ..findings import Evidence, Finding
from ..units import format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

_KIND = "cyclic-garbage"


class Frozen(NamedTuple):
    """Objects that were frozen at the start and the end of the judged window."""

    first_count: int
    last_count: int

    @property
    def gained_count(self) -> int:
        return self.last_count - self.first_count


def frozen_in(case: Case, process: ProcessGrowth, *, min_rises: int = 3) -> Frozen | None:
    """None unless ever more objects are frozen. ``min_rises``: a start-up freezes once, or twice."""
    counts = _counts(case, process)
    rises = int((np.diff(counts) > 0).sum()) if len(counts) else 0
    if rises < min_rises or not keeps_growing(counts):
        return None
    return Frozen(int(counts[0]), int(counts[-1]))


def frozen_finding(
    case: Case,
    process: ProcessGrowth,
    out_of_reach_bytes: int,
    strays: Strays,
    *,
    min_objects: int,
    min_share: float = 0.5,  # of the growth that has to be out of reach, and of the frozen objects
) -> Finding | None:
    """The finding, if most of what a process gained can only be what it froze and dropped."""
    frozen = frozen_in(case, process)
    if frozen is None or out_of_reach_bytes < min_share * process.growth_bytes:
        return None
    unreached = round(strays.gained(strays.frozen_count, case.growth.end_s - case.growth.start_s))
    if unreached < max(min_objects, min_share * frozen.gained_count):
        return None
    row = _most_frozen(case, strays)
    kind = (text_of(row, "type_name") or "").replace("__main__.", "") or None
    calls = find_calls(case.sources, "gc.freeze")
    place = calls[-1] if calls else None
    where = f" at {place.file.rsplit('/', 1)[-1]}:{place.line}" if place is not None else ""
    what = kind.rpartition(".")[2] if kind else "unreachable objects"
    text = (
        f"{format_count(frozen.last_count)} objects are frozen, {format_count(frozen.gained_count)} more than at "
        f"first; {format_count(unreached)} of those are unreachable"
    )
    figures = {"frozen_count": frozen.last_count, "unreached_count": unreached}
    evidence = [Evidence(f"gc.freeze() was called again and again: {text}", figures)]
    if row is not None and kind:
        text = (
            f"{format_count(row['object_count'])} frozen {kind} objects are unreachable: nothing refers to their cycles"
        )
        evidence.append(Evidence(text, {"object_count": float(row["object_count"])}))
    if place is not None:
        evidence.append(Evidence(f"{place.file}:{place.line}: {place.text}", {"line": place.line}))
    frees = f"frees about {format_bytes(out_of_reach_bytes)}"
    return case.finding(
        _KIND,
        f"Cycles of {what} pile up: gc.freeze(){where} hides them from the collector",
        grounds=[Ground("the graph has each of them", 0.95)],
        bytes=out_of_reach_bytes,
        process=process,
        line=place or definition_of(row),
        holder="objects frozen by gc.freeze()",
        type=kind,
        library="gc",
        evidence=evidence,
        doubts=[],
        remedy=[
            f"call gc.freeze() once, before the work begins, or gc.unfreeze() and gc.collect() once the fork is made"
            f"{where}: {frees}",
            "or make one reference of the cycle a weakref.ref: then nothing has to be collected at all",
        ],
    )


def _most_frozen(case: Case, strays: Strays) -> dict[str, Any] | None:
    """The type of which most became frozen garbage, a class of the user's before others."""
    best: tuple[tuple[bool, float], dict[str, Any]] | None = None
    for stray in strays.types:
        grown = float(stray.frozen_count[-1] - stray.frozen_count[0])
        place = class_place(case.sources, stray.type_name)
        if grown > 0 and (best is None or (place is not None, grown) > best[0]):
            row = {
                "type_name": stray.type_name,
                "object_count": float(stray.frozen_count[-1]),
                "owner_file": place[0] if place else None,
                "owner_line": place[1] if place else None,
            }
            best = (place is not None, grown), row
    return best[1] if best is not None else None


def _counts(case: Case, process: ProcessGrowth) -> Floats:
    """Readings of the judged window in the order of time, from the sentinels and the snapshots."""
    tables = [narrow(process.rows(name), "time_s", "gc_frozen_count") for name in ("sentinels", "takes")]
    rows = pd.concat([table.dropna().astype("float64") for table in tables])
    growth = case.growth
    rows = only(rows, (rows["time_s"] >= growth.start_s - 1) & (rows["time_s"] <= growth.end_s + 1)).sort_values(
        "time_s"
    )
    return rows["gc_frozen_count"].to_numpy(dtype=np.float64)
