"""Scalene: the JSON profile of `scalene run`, with memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._facts import ELAPSED, UNIX, Fact, NotThisFormat
from ._figures import MIB, amount, number, unix
from ._source import Source

LACKS = "has what was allocated (its footprint), not resident memory, nor which objects hold it"
_MOST_LINES = 2000
_AT_ONCE_S = 0.2  # Scalene reads what was allocated when it comes to it, and then much bears one time


def sniff(head: bytes, name: str) -> bool:
    text = head.decode("utf-8", "replace")
    return text.lstrip().startswith("{") and any(
        f'"{word}"' in text for word in ("max_footprint_mb", "n_malloc_mb", "alloc_samples", "growth_rate")
    )


def read(source: Source) -> Iterator[Fact]:
    """The footprint over time, and what each line has not given back; times are nanoseconds since it began."""
    source.tool = "Scalene"
    document = source.document()
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict):
        raise NotThisFormat("is no profile of Scalene")
    if not document.get("memory", True):
        raise NotThisFormat("was made without memory (--cpu-only): run it again without that")
    began_s = unix(document.get("start_time_absolute"))
    source.clock = ELAPSED if began_s is None else UNIX
    program = str(document.get("program") or "")
    pid = source.unnamed("main", comm="python", cmdline=f"python {program}".strip())
    source.meta["command"] = ["python", program] if program else []
    last_s, kept = 0.0, (-1.0, 0)
    crowded = 0
    for sample in document.get("samples") or ():
        at_ns, footprint = (number(sample[0]), amount(sample[1], MIB)) if _is_pair(sample) else (None, None)
        if at_ns is None or footprint is None or at_ns < 0:
            source.left_out += 1
            continue
        last_s = max(last_s, at_ns / 1e9)
        if at_ns / 1e9 - kept[0] >= _AT_ONCE_S:
            if kept[1]:
                yield Fact("process_samples", kept[0] + (began_s or 0.0), {"pid": pid, "rss_bytes": kept[1]})
            kept = (at_ns / 1e9, footprint)
        else:
            crowded, kept = crowded + 1, (kept[0], footprint)
    if kept[1]:
        yield Fact("process_samples", kept[0] + (began_s or 0.0), {"pid": pid, "rss_bytes": kept[1]})
    if crowded:
        source.notes.append(f"{crowded} samples that Scalene wrote down together with others are one with them")
    peak = number(document.get("max_footprint_mb"))
    if peak is not None:
        source.notes.append(f"its largest footprint is {peak:,.1f} MiB")
    yield from _lines(files, pid, last_s + (began_s or 0.0), source)


def _lines(files: dict[str, Any], pid: int, at_s: float, source: Source) -> Iterator[Fact]:
    """``n_growth_mb`` is what a line allocated more than it gave back."""
    count = 0
    for file, profile in files.items():
        leaks = profile.get("leaks") if isinstance(profile, dict) else None
        for line in (profile.get("lines") if isinstance(profile, dict) else None) or ():
            grown = amount(line.get("n_growth_mb"), MIB) if isinstance(line, dict) else None
            number_of_line = number(line.get("lineno")) if isinstance(line, dict) else None
            if not grown or number_of_line is None or count >= _MOST_LINES:
                continue
            count += 1
            where = int(number_of_line)
            asked = amount(line.get("n_malloc_mb"), MIB)
            yield Fact("allocation_stacks", at_s, {
                "pid": pid, "allocator": "malloc", "owner_file": file, "owner_line": where,
                "stack": f"{file}:{where} ", "live_bytes": grown, "settled_bytes": grown, "error_bytes": 0,
                "sample_count": int(number(line.get("n_mallocs")) or 0), "asked_bytes": asked,
            })  # fmt: skip
        if isinstance(leaks, dict) and leaks:
            named = ", ".join(f"{file.rsplit('/', 1)[-1]}:{line}" for line in list(leaks)[:5])
            source.notes.append(f"Scalene itself names {named} as a leak")


def _is_pair(sample: Any) -> bool:
    return isinstance(sample, (list, tuple)) and len(sample) == 2
