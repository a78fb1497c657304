"""Rows that forked workers copy by reading them: pools, executors and forks of the user's own.

Loader workers are told of by ``dataloader_workers``, which knows the data set that they read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..facts.growth.sharing import copied_by_takes
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.processes.forked_copies import Copies, is_costly, most_copied
from ..facts.processes.table import COMPILE_WORKER, DATALOADER_WORKER, Process, copied_bytes
from ..facts.where.inherited import Inherited, inherited
from ..findings import Finding, Subject
from ..units import MiB, format_bytes
from .copies import copied_finding, held_bytes

if TYPE_CHECKING:
    from ..facts.case import Case

_OTHERS = (COMPILE_WORKER, DATALOADER_WORKER)  # have analyzers of their own
_MIN_GROWTH_SHARE = 0.5  # of the tree's growth that is copying: then it is what grows, and no waste beside it


def copied_by_forks(
    case: Case,
    growth: TreeGrowth,
    kind: str,
    *,
    min_copied_bytes: int = 64 * MiB,
    min_copied_share: float = 0.1,
    min_copied_bytes_each: int = 32 * MiB,
    min_data_share: float = 0.4,
) -> Iterator[Finding]:
    """One finding per parent whose forks have copied its rows; thresholds as those of loader workers."""
    known = {process.pid: process for process in case.processes}
    teams: dict[int, list[Process]] = defaultdict(list)
    for process in known.values():
        if process.is_fork and process.role not in _OTHERS and process.growth is not None and process.ppid in known:
            teams[process.ppid].append(process)
    takes = copied_by_takes(case.rows("takes"), case.rows("processes"))
    for ppid, workers in sorted(teams.items()):
        copies = most_copied(known[ppid], workers, takes.get(ppid, ()))
        if copies.bytes < min_copied_bytes:
            continue
        first_s, last_s = min(w.born_s for w in workers), max(w.died_s for w in workers)
        rows = inherited(case.recording, case.sources, ppid, first_s, last_s)
        if rows is not None and is_costly(
            copies,
            rows.bytes,
            held_bytes(growth, copies),
            min_copied_bytes=min_copied_bytes,
            min_copied_share=min_copied_share,
            min_bytes_each=min_copied_bytes_each,
            min_data_share=min_data_share,
        ):
            finding = _finding(kind, growth, copies, rows, workers)
            yield _as_growth(finding, growth, [known[ppid], *workers])


def _finding(kind: str, growth: TreeGrowth, copies: Copies, rows: Inherited, workers: list[Process]) -> Finding:
    most = max(zip(copies.bytes_each, copies.workers), key=lambda pair: pair[0])[1]
    worker = next(w for w in workers if w.pid == most.pid)
    called, many = ("pool worker", "pool workers") if worker.role == "pool-worker" else ("fork", "forks")
    count = len(copies.workers)
    return copied_finding(
        kind,
        growth,
        copies,
        who=f"Each of {count} {many}" if count > 1 else f"The {called}",
        name=rows.name,
        data_bytes=rows.bytes,
        subject=Subject(
            pid=worker.ppid,
            process=worker.name,
            role=worker.role,
            device="cpu",
            holder=rows.name,
            variable=rows.holder.variable,
            path=rows.path,
            type=rows.holder.type_name,
            file=rows.line.file if rows.line else rows.holder.owner_file,
            line=rows.line.line if rows.line else None,
            function=rows.line.function if rows.line else None,
            module=rows.holder.owner_module,
        ),
        line=rows.line,
    )


def _as_growth(finding: Finding, growth: TreeGrowth, family: list[Process]) -> Finding:
    """Where the tree still grows, and does so by copying: what it gained by that in the judged window."""
    if not growth.leaking:
        return finding
    gained = round(sum(copied_bytes(process, growth.start_s, growth.end_s) for process in family))
    if gained < _MIN_GROWTH_SHARE * growth.growth_bytes:
        return finding
    gained = min(gained, growth.growth_bytes)
    return replace(
        finding,
        bytes=gained,
        severity=severity_of(growth, gained),
        bytes_per_hour=round(gained / max(growth.end_s - growth.start_s, 1e-9) * 3600, 1),
        doubts=[
            *finding.doubts,
            f"copying ends when each worker has its own copy of all it reads: {format_bytes(gained)} were copied while "
            "memory was judged; it starts again with new workers",
        ],
        wasted=False,
    )
