"""nvitop: csv of its ResourceMetricCollector, with the host, processes and GPUs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from ..units import GiB, MiB
from ._facts import UNIX, Fact, NotThisFormat
from ._figures import amount, unix
from ._source import Source

LACKS = "has sizes of processes and GPUs, averaged over each interval, not what is in them"
_NAME = re.compile(
    r"(?:.*?/)?(?:pid:(?P<pid>\d{1,9})/)?(?P<scope>host|cuda:\d+(?: \(gpu:(?P<gpu>[\d:]+)\))?|gpu:(?P<index>[\d:]+))/"
    r"(?P<metric>\w+) \((?P<unit>MiB|GiB)\)(?:/(?P<what>mean|last))?$"
)
_UNITS = {"MiB": MiB, "GiB": GiB}


def sniff(head: bytes, name: str) -> bool:
    first = head.decode("utf-8", "replace").split("\n", 1)[0]
    return "," in first and any(_NAME.match(column.strip().strip('"')) for column in first.split(","))


def read(source: Source) -> Iterator[Fact]:
    """Of each figure the last value where the file has it, else the mean."""
    source.clock, source.tool = UNIX, "nvitop"
    rows = csv.reader(source.lines())
    header = [name.strip() for name in next(rows, [])]
    at = next((i for i, name in enumerate(header) if name.rsplit("/", 1)[-1] == "timestamp"), None)
    if at is None:
        raise NotThisFormat("has no column timestamp")
    columns = {i: match for i, name in enumerate(header) if (match := _NAME.match(name)) is not None}
    has_last = any(match["what"] == "last" for match in columns.values())
    columns = {i: match for i, match in columns.items() if not has_last or match["what"] == "last"}
    for row in rows:
        at_s = unix(row[at]) if len(row) > at else None
        if at_s is None:
            source.left_out += bool(row)
            continue
        yield from _row(
            source, at_s, {i: amount(row[i], _UNITS[m["unit"]]) for i, m in columns.items() if i < len(row)}, columns
        )


def _row(
    source: Source, at_s: float, values: dict[int, int | None], columns: dict[int, re.Match[str]]
) -> Iterator[Fact]:
    gpus: dict[str, dict[str, int | None]] = {}
    for i, value in values.items():
        match = columns[i]
        pid = int(match["pid"]) if match["pid"] else None
        gpu = match["gpu"] or match["index"]
        if value is None:
            continue
        if pid is not None and match["metric"] == "host_memory":
            yield Fact("process_samples", at_s, {"pid": pid, "rss_bytes": value})
        elif pid is not None and match["metric"] == "gpu_memory" and gpu:
            yield Fact("gpu_samples", at_s, {"pid": pid, **_gpu(gpu), "gpu_used_bytes": value})
        elif pid is None and gpu:
            gpus.setdefault(gpu, {})[match["metric"]] = value
    for gpu, figures in gpus.items():
        used, total = figures.get("memory_used"), figures.get("memory_total")
        if used is not None:
            yield Fact("gpu_samples", at_s, {**_gpu(gpu), "gpu_used_bytes": used, "gpu_total_bytes": total})


def _gpu(name: str) -> dict[str, str | int | None]:
    return {"gpu_uuid": f"GPU {name}", "gpu_index": int(name) if name.isdigit() else None}
