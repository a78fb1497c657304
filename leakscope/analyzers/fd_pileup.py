"""Open files, sockets and pipes that pile up.

Looks for:     a process whose number of open descriptors keeps rising.
Why:           at the limit (often 1024) every open() fails with "too many open files"; and what each stands for, a
               buffer, a socket, a shared segment, stays in memory.
Decides by:    min_descriptors more at the end, still rising then, by min_fraction of what there were.
Mistaken when: a cache of open files is bounded and still being filled.
Do:            close what was opened: open it in a with statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..evidence.keepers import DESCRIPTORS, keeper, opening_line
from ..facts.code.adding import Line
from ..facts.code.starts import calls
from ..facts.growth.counts import judge_count, up_to_the_end
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import CANNOT_TELL, GROWING
from ..facts.tables import look_of
from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..kinds import PILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from ..facts.case import Case
    from ..facts.code.adding import Source

NEEDS = ("process_samples",)
TELLS = (PILE,)
AFTER = ()
_KIND = "fd-pileup"
# The calls that open what a kind stands for; a shared segment is the shared-memory finding's own.
_OPENERS = {
    "file": ("open", "NamedTemporaryFile", "memmap", "mmap", "connect", "FileIO", "File"),
    "deleted-file": ("TemporaryFile", "SpooledTemporaryFile", "NamedTemporaryFile", "open", "mmap"),
    "socket": ("socket", "create_connection", "socketpair", "connect", "urlopen", "Session", "Client"),
    "pipe": ("pipe", "Popen", "Pipe", "Queue"),
    "shared-memory": ("SharedMemory", "share_memory_", "memfd_create"),
}
_NAMES = {
    "file": "open files",
    "deleted-file": "deleted files that are still open",
    "socket": "sockets",
    "pipe": "pipes",
    "shared-memory": "descriptors of shared memory",
    "device": "descriptors of devices",
}


def findings(
    case: Case,
    *,
    min_descriptors: int = 16,  # a library opens a handful when it is first used
    min_fraction: float = 0.3,  # of the usual number: 16 more beside 500 is no pile
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose descriptors pile up, or the most that were seen."""
    growth = case.growth
    sources = case.sources
    most = 0
    found = undecided = False
    for process in growth.processes:
        inventory = process.rows("descriptors")
        count = _counts(process, process.rows("process_samples"), inventory)
        if not count.size:
            continue
        most = max(most, int(count.max()))
        time_s, count = up_to_the_end(process.time_s, count, process)
        if count.size < 2 or np.ptp(count) < min_descriptors:
            continue
        trend = judge_count(time_s, count, process, min_count=min_descriptors, min_fraction=min_fraction)
        undecided = undecided or trend.verdict == CANNOT_TELL
        if trend.verdict == GROWING:
            found = True
            yield _finding(case, process, time_s, count, inventory, sources)
    if found:
        return
    if undecided:
        yield Skipped(_KIND, growth.reason)
    elif most:
        yield RuledOut(_KIND, f"open descriptors do not pile up: at most {most}", {"most_descriptors": most})


def _counts(process: ProcessGrowth, samples: pd.DataFrame, inventory: pd.DataFrame) -> Floats:
    """Descriptors at the times of the process's samples; between two looks in a straight line."""
    plain = samples[samples["fd_count"].notna()]
    sums = inventory["open_count"].astype(float).groupby(look_of(inventory)).sum()
    starts = inventory["time_s"].groupby(look_of(inventory)).min()
    at_s = np.concatenate([plain["time_s"].to_numpy(dtype=np.float64), starts.to_numpy(dtype=np.float64)])
    count = np.concatenate([plain["fd_count"].to_numpy(dtype=np.float64), sums.to_numpy(dtype=np.float64)])
    if not at_s.size:
        return np.empty(0)
    order = np.argsort(at_s, kind="stable")
    return np.asarray(np.interp(process.time_s, at_s[order], count[order]), dtype=np.float64)


def _finding(
    case: Case, process: ProcessGrowth, time_s: Floats, count: Floats, inventory: pd.DataFrame,
    sources: Sequence[Source],
) -> Finding:  # fmt: skip
    risen = round(float(count[-1] - np.median(count[:3])))
    kind, path, gained = _most_gained(inventory)
    what = _NAMES.get(kind or "", f"descriptors of {kind}" if kind else "descriptors")
    figures = {"first_count": round(float(count[0])), "last_count": round(float(count[-1]))}
    opened = f"{process.label} had {figures['first_count']} descriptors at first and {figures['last_count']} at the end"
    evidence = [Evidence(opened, figures)]
    if kind is not None:
        place = f" like {path}" if path else ""
        evidence.append(Evidence(f"{gained} more of them were {what}{place}", {"open_count": gained}))
    made = _opening_lines(sources, kind)
    kept = keeper(case, process, DESCRIPTORS, (time_s, count), sources, made[0] if made else None)
    evidence += kept.evidence if kept is not None else []
    line = opening_line(made, kept)
    if line is not None and line in made:
        evidence.append(Evidence(f"{line.file}:{line.line} opens such: {line.text}", {"line": line.line}))
    doubts = [] if line is not None else ["the line that opens them was not found in the recorded sources"]
    remedy = ["close each when it is done with: a with statement does so also when an error is raised"]
    if kept is not None and not kept.is_each:
        remedy.append(f"take each out of {kept.name} when it is done with: what is kept there stays open")
    return Finding(
        kind=_KIND,
        title=f"{what[:1].upper()}{what[1:]} pile up: {risen} more than at the start, none of them closed",
        severity="warning",
        confidence=0.9 if kind is not None else 0.8,
        bytes=0,
        subject=Subject(
            pid=process.pid,
            process=process.name,
            role=process.role,
            holder=f"{risen} {what}{kept.words if kept is not None else ''}",
            variable=kept.variable if kept is not None else None,
            path=path,
            type=kind,
            file=line.file if line is not None else None,
            line=line.line if line is not None else None,
            function=line.function if line is not None else None,
        ),
        evidence=evidence,
        doubts=doubts + (kept.doubts if kept is not None else []),
        remedy=remedy,
        series=[Series("descriptors", time_s.tolist()[:2000], count.tolist()[:2000], "s", "descriptors")],
    )


def _most_gained(inventory: pd.DataFrame) -> tuple[str | None, str | None, int]:
    """Kind and path that multiplied most between the first look and the last."""
    if not len(inventory):
        return None, None, 0
    looks = look_of(inventory)
    last, first = inventory[looks == looks.max()], inventory[looks == looks.min()]
    keys = ["fd_kind", "fd_path"]
    after = last.groupby(keys, dropna=False)["open_count"].sum()
    before = first.groupby(keys, dropna=False)["open_count"].sum()
    gained = after.sub(before.reindex(after.index).fillna(0)).astype(float)
    kind, path = gained.index.to_list()[int(np.argmax(gained.to_numpy()))]
    return str(kind), path if isinstance(path, str) else None, int(gained.max())


def _opening_lines(sources: Sequence[Source], kind: str | None) -> list[Line]:
    names = _OPENERS.get(kind or "")
    made = calls(sources, *names) if names else []
    return [call.line for call in made if not call.line.text.startswith(("with ", "async with "))]
