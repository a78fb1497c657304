"""nvidia-smi `dmon` and `pmon`: their tables, with date and time (`-o DT`) or without."""

from __future__ import annotations

from collections.abc import Iterator

from ._facts import DAY, ELAPSED, Fact, NotThisFormat
from ._figures import MIB, amount, moment, whole
from ._source import Source

LACKS = "has memory of GPUs and of processes on them, not what is in it, and nothing of the host's memory"


def sniff(head: bytes, name: str) -> bool:
    return any(_header(line) for line in head.decode("utf-8", "replace").split("\n")[:200])


def read(source: Source) -> Iterator[Fact]:
    """``fb`` is the frame buffer in use, in MiB. Without a time, a reading ends where GPUs begin anew."""
    source.tool = "nvidia-smi"
    header: list[str] = []
    reading, last_gpu, last_day_s = -1, -1, 0.0
    for line in source.lines():
        found = _header(line)
        if found:
            header = found
            continue
        if not header or not line.strip() or line.lstrip().startswith("#"):
            continue
        if "fb" not in header:
            what = "pmon" if "pid" in header else "dmon"
            raise NotThisFormat(f"has no column fb (memory in use): run nvidia-smi {what} -s m")
        words = line.split(None, len(header) - 1)
        row = dict(zip(header, words))
        gpu = whole(row.get("gpu"))
        if len(words) < len(header) or gpu is None:
            source.left_out += 1
            continue
        if "time" in row:
            at = moment(f"{_dashed(row['date'])} {row['time']}" if "date" in row else row["time"])
            if at is None:
                source.left_out += 1
                continue
            at_s, source.clock = at
            if source.clock == DAY:  # after midnight
                at_s += 86400 * max(0, round((last_day_s - at_s) / 86400))
                last_day_s = at_s
        else:
            reading += gpu < last_gpu or (gpu == last_gpu and "pid" not in header) or reading < 0
            last_gpu = gpu
            at_s, source.clock = float(reading), ELAPSED
        yield from _fact(source, row, at_s, gpu)
    if source.clock == ELAPSED:
        source.notes.append("it has no times (-o DT): each reading is counted as one second")


def _fact(source: Source, row: dict[str, str], at_s: float, gpu: int) -> Iterator[Fact]:
    used = amount(row["fb"], MIB)
    known = {"gpu_index": gpu, "gpu_uuid": f"GPU {gpu}"}
    if "pid" not in row:
        if used is None:
            source.left_out += 1
        else:
            yield Fact("gpu_samples", at_s, {**known, "gpu_used_bytes": used})
        return
    pid = whole(row["pid"])
    if pid is None or used is None:  # "-": nobody was on that GPU
        return
    source.knows(pid, comm=row.get("command", "").strip())
    yield Fact("gpu_samples", at_s, {"pid": pid, **known, "gpu_used_bytes": used})


def _header(line: str) -> list[str]:
    """Names of the columns; the second line of a heading has their units."""
    words = line.replace("#", " ").lower().split()
    is_one = line.lstrip().startswith("#") and "gpu" in words[:3] and words[:1] != ["idx"]
    return words if is_one and ("pwr" in words or "fb" in words or "sm" in words or "pid" in words) else []


def _dashed(date: str) -> str:
    return f"{date[:4]}-{date[4:6]}-{date[6:]}" if len(date) == 8 and date.isdigit() else date
