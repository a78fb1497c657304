"""nvidia-smi: csv of `--query-gpu`, `--query-compute-apps` and loops of them (`-l`), with units or without."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ._facts import ELAPSED, Fact, NotThisFormat
from ._figures import MIB, moment, sized, whole
from ._source import Source

LACKS = "has memory of GPUs and of processes on them, not what is in it, and nothing of the host's memory"
_USED, _TOTAL, _FREE = "memory.used", "memory.total", "memory.free"
_BY_PROCESS = ("used_memory", "used_gpu_memory")
_KNOWN = {_USED, _TOTAL, _FREE, *_BY_PROCESS, "timestamp", "index", "uuid", "gpu_uuid", "name", "gpu_name", "pid"}
_KNOWN |= {"process_name", "pci.bus_id", "gpu_bus_id", "driver_version", "count"}
_FAMILIES = ("utilization.", "temperature.", "power.", "clocks.", "pstate", "fan.speed", "pcie.", "ecc.", "encoder.")
_UNIT = re.compile(r"\[(\w+(?:/\w*)?|%)\]$")
_STAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d[.\d]*")


# Columns of the example that NVIDIA gives for logging, which is often written without its header.
_USUAL = [
    "timestamp", "name", "pci.bus_id", "driver_version", "pstate", "pcie.link.gen.max", "pcie.link.gen.current",
    "temperature.gpu", "utilization.gpu", "utilization.memory", _TOTAL, _FREE, _USED,
]  # fmt: skip
_USUAL_ROW = re.compile(
    r"\d{4}/\d\d/\d\d [\d:.]+, [^,]+, [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+, [\d.]+, P\d+, \d+, \d+, \d+, \d+ %, \d+ %"
    r"(, \d+ MiB){3}\s*$"
)
_APART = 8  # times: between two readings rather than within one
_MOST_LOOKED_AT = 400  # lines, for the time between two GPUs of one reading


def sniff(head: bytes, name: str) -> bool:
    lines = head.decode("utf-8", "replace").replace("\ufeff", "").split("\n")[:200]
    return any(_header(line) is not None or _USUAL_ROW.match(line) for line in lines)


def read(source: Source) -> Iterator[Fact]:
    """Rows by the header above them, which may come again. GPUs without an index are told apart by their turn."""
    source.tool = "nvidia-smi"
    header: list[str] | None = None
    clock = _Clock(source, _round_s(source))
    for line in source.lines():
        found = _header(line)
        if found is not None:
            header = found
            if not {_USED, _FREE, *_BY_PROCESS} & set(header):
                raise NotThisFormat("has no column of memory in use: ask nvidia-smi for memory.used as well")
        elif header is None and _USUAL_ROW.match(line):
            header = _USUAL
            source.notes.append("it has no header: its columns are taken for those of NVIDIA's own example")
        if found is None and header is not None and line.strip():
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) < len(header):
                source.left_out += 1
            else:
                yield from _row(source, dict(zip(header, cells)), clock)
    if clock.is_counted:
        source.notes.append("it has no column timestamp: each reading is counted as one second")


def _round_s(source: Source) -> float:
    """Rows that follow each other sooner are of one reading: of several GPUs, each is read some milliseconds later."""
    found = [_STAMP.match(line) for line in islice(source.lines(), _MOST_LOOKED_AT)]
    moments = [at[0] for match in found if match and (at := moment(match[0]))]
    gaps = sorted(b - a for a, b in zip(moments, moments[1:]) if b >= a)
    if len(gaps) < 2 or gaps[0] * _APART > gaps[-1]:
        return 0.0  # one GPU: all gaps are alike
    return max(1e-6, math.sqrt(max(gaps[0], 1e-3) * gaps[-1]))


class _Clock:
    """Moments of rows. ``turn``: which GPU of a reading a row is, where the file has no index."""

    def __init__(self, source: Source, round_s: float) -> None:
        self._source = source
        self._round_s = round_s
        self._last_s = -1.0
        self.is_counted = False
        self.turn = 0
        self._reading = -1
        self._last: object = None

    def at_s(self, row: dict[str, str]) -> float | None:
        text = row.get("timestamp")
        if text is None:
            who = row.get("index") or row.get("uuid") or row.get("pci.bus_id") or row.get("gpu_uuid")
            order = (0, who or "")
            self._reading += self._last is None or not who or who == self._first
            self._first = self._first if self._last is not None else who
            self._last, self.is_counted = order, True
            self._source.clock = ELAPSED
            return float(self._reading)
        found = moment(text)
        if found is None:
            return None
        self.turn = self.turn + 1 if found[0] - self._last_s < self._round_s else 0
        self._last_s = found[0]
        self._source.clock = found[1]
        return found[0]

    _first: str | None = None


def _row(source: Source, row: dict[str, str], clock: _Clock) -> Iterator[Fact]:
    at_s = clock.at_s(row)
    if at_s is None:
        source.left_out += 1
        return
    index = whole(row.get("index"))
    by_turn = clock.turn if "pid" not in row else 0
    uuid = row.get("gpu_uuid") or row.get("uuid") or row.get("pci.bus_id") or row.get("gpu_bus_id")
    name = row.get("gpu_name") or (row.get("name") if "pid" not in row else None)
    gpu: dict[str, Any] = {"gpu_uuid": uuid or f"GPU {index if index is not None else by_turn}", "gpu_name": name}
    gpu["gpu_index"] = index if index is not None else (None if "pid" in row else by_turn)
    if "pid" in row:
        yield from _process(source, row, at_s, gpu)
        return
    used, total, free = (sized(row.get(column, ""), MIB) for column in (_USED, _TOTAL, _FREE))
    if used is None and total is not None and free is not None:
        used = max(0, total - free)
    if used is None:
        source.left_out += 1
        return
    yield Fact("gpu_samples", at_s, {**gpu, "gpu_used_bytes": used, "gpu_total_bytes": total})


def _process(source: Source, row: dict[str, str], at_s: float, gpu: dict[str, Any]) -> Iterator[Fact]:
    pid = whole(row["pid"])
    used = next((sized(row[column], MIB) for column in _BY_PROCESS if column in row), None)
    if pid is None or used is None:
        source.left_out += 1
        return
    path = row.get("process_name") or row.get("name") or ""
    source.knows(pid, comm=re.split(r"[\\/]", path)[-1], exe=path)
    yield Fact("gpu_samples", at_s, {"pid": pid, **gpu, "gpu_used_bytes": used})


def _header(line: str) -> list[str] | None:
    """Names of columns, without units; None for a line of values."""
    if "," not in line and "memory" not in line:
        return None
    names = [_UNIT.sub("", cell.strip()).strip().lower() for cell in line.replace("\ufeff", "").split(",")]
    known = [name for name in names if name in _KNOWN or name.startswith(_FAMILIES)]
    has_memory = any(name.startswith("memory.") or name in _BY_PROCESS for name in names)
    return names if has_memory and len(known) >= 0.6 * len(names) else None
