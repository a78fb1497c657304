"""What a report says of forked workers that have copied what they inherited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..facts.code.adding import Line
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth
from ..facts.processes.forked_copies import Copies
from ..facts.series.arithmetic import level_at
from ..findings import Evidence, Finding, Series, Subject
from ..units import format_bytes

_FEW = 4  # curves of workers that can be told apart in one chart
_POINTS = 500  # of each


def copied_finding(
    kind: str,
    growth: TreeGrowth,
    copies: Copies,
    *,
    who: str,
    name: str,
    data_bytes: float,
    subject: Subject,
    line: Line | None,
    others: Sequence[str] = (),
) -> Finding:
    """Copying ends, but the memory is gone: waste. ``name``: what was copied; ``data_bytes`` of it are objects."""
    copied, each = int(copies.bytes), copies.bytes / len(copies.workers)
    held, data = held_bytes(growth, copies), int(data_bytes)
    figures = {"worker_count": len(copies.workers), "copied_bytes": copied, "data_bytes": data}
    shared = f"{format_bytes(copied)} that the workers shared with their parent when they began are now copies of it"
    return Finding(
        kind=kind,
        title=f"{who} has copied {format_bytes(each)} of what it inherited, most likely {name}",
        severity="warning",
        confidence=0.8,
        bytes=copied,
        subject=subject,
        evidence=[
            Evidence(f"{shared}: {min(1.0, copied / max(held, 1.0)):.0%} of what all processes hold", figures),
            Evidence(f"the parent held {format_bytes(data_bytes)} of Python objects in {name}", {"data_bytes": data}),
            *line_evidence(line, others),
        ],
        doubts=["part of it is the interpreter's own and would be copied by any worker"],
        remedy=list(remedy(name, line, each, len(copies.workers))),
        series=curves(copies.workers),
        wasted=True,
    )


def held_bytes(growth: TreeGrowth, copies: Copies) -> float:
    """By all processes at the moment of the copies."""
    return level_at(growth.time_s, growth.held_bytes, copies.at_s) or float(growth.held_bytes[-1])


def remedy(name: str, line: Line | None, bytes_each: float, worker_count: int) -> Iterator[str]:
    each = format_bytes(bytes_each)
    where = f" at {line.file.rsplit('/', 1)[-1]}:{line.line}" if line is not None else ""
    yield (
        f"keep {name}{where} as one array, tensor or Arrow table instead of Python objects, whose reference counts "
        f"are written when they are read: saves up to {each} a worker"
    )
    if worker_count > 1:
        yield f"each worker less saves about {each} of this run's growth"


def line_evidence(line: Line | None, others: Sequence[str] = ()) -> Iterator[Evidence]:
    if line is not None:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})
    if others:
        yield Evidence(f"also to be looked at: {', '.join(others)}", {})


def curves(workers: Sequence[ProcessGrowth]) -> list[Series]:
    return [Series(w.label, w.time_s.tolist()[:_POINTS], w.private_bytes.tolist()[:_POINTS]) for w in workers[:_FEW]]
