"""W&B: system metrics as csv, of a chart's menu or of `run.history(stream="system").to_csv()`."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from . import _wandb_names
from ._facts import ELAPSED, LOCAL, UNIX, Fact, NotThisFormat
from ._figures import moment, number, unix
from ._source import Source

LACKS = _wandb_names.LACKS
_TIMES = ("_timestamp", "timestamp", "wall time", "_wandb.timestamp")
_RELATIVE = ("relative time (process)", "relative time (wall)", "_runtime", "relative time")


def sniff(head: bytes, name: str) -> bool:
    return _is_header(head.decode("utf-8", "replace").lstrip("\ufeff").split("\n", 1)[0])


def read(source: Source) -> Iterator[Fact]:
    """Of several runs in one chart the first is imported."""
    source.tool = "wandb"
    rows = csv.reader(source.lines())
    header = [name.strip() for name in next(rows, [])]
    if header:
        header[0] = header[0].lstrip("\ufeff")
    lower = [name.lower() for name in header]
    at = next((lower.index(name) for name in (*_TIMES, *_RELATIVE) if name in lower), None)
    if at is None:
        raise NotThisFormat("has no column of times: export it by Relative Time (Process), or with _timestamp")
    columns = _columns(source, header)
    if not columns:
        raise NotThisFormat("has no memory among its columns (proc.memory.rssMB, gpu.0.memoryAllocatedBytes, ...)")
    for row in rows:
        at_s = _moment(source, row[at], lower[at]) if len(row) > at else None
        if at_s is None:
            source.left_out += bool(row)
            continue
        yield from _wandb_names.facts(source, at_s, {name: row[i] for i, name in columns.items() if i < len(row)})


def _columns(source: Source, header: list[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    taken: dict[str, str] = {}
    for index, name in enumerate(header):
        if not _wandb_names.is_system(name) or name.endswith(("__MIN", "__MAX")):
            continue
        metric, run = _wandb_names.metric(name), name.rpartition(" - ")[0]
        metric = "memory_percent" if metric == "memory" else metric
        if taken.setdefault(metric, run) == run:
            found[index] = metric
        elif "other runs" not in " ".join(source.notes):
            source.notes.append(f"it also has other runs {taken[metric]}, which are left out")
    return found


def _moment(source: Source, text: str, name: str) -> float | None:
    if name in _RELATIVE:
        source.clock = ELAPSED
        return number(text)
    at_s = unix(text)
    if at_s is not None:
        source.clock = UNIX
        return at_s
    found = moment(text)
    if found is None or found[1] not in (UNIX, LOCAL):
        return None
    source.clock = found[1]
    return found[0]


def _is_header(line: str) -> bool:
    names = [name.strip().strip('"') for name in line.split(",")]
    return len(names) > 1 and any(_wandb_names.is_system(name) for name in names)
