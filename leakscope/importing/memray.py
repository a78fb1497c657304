"""memray: captures of `memray run`, with all allocations or aggregated, by memray's own reader (extra `memray`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from ._facts import UNIX, Fact
from ._source import Source

LACKS = "has who allocated what, not which objects hold it"
EXTRA = "memray"
_MAGIC = b"memray\0"
_LZ4 = b"\x04\x22\x4d\x18"
_MOST_MOMENTS = 24
_MOST_STACKS = 400  # at a moment: the largest
_MOST_SNAPSHOTS = 20_000
_FRAMES = 30
_OF_PYTHON = ("<frozen", "<string>")


def sniff(head: bytes, name: str) -> bool:
    return head.startswith(_MAGIC) or (head.startswith(_LZ4) and b"memray" in head[:64]) or _is_packed(head, name)


def read(source: Source) -> Iterator[Fact]:
    """Resident memory as memray sampled it; of allocations, what each line had alive at some moments of the run."""
    from memray import FileFormat, FileReader

    source.clock = UNIX
    with FileReader(os.fspath(source.path), report_progress=False) as reader:
        about = reader.metadata
        source.tool = "memray"
        pid = about.pid
        source.meta["command"] = _command(about.command_line).split()
        source.knows(pid, comm="python", cmdline=_command(about.command_line))
        snapshots = list(reader.get_memory_snapshots())
        every = len(snapshots) // _MOST_SNAPSHOTS + 1
        for one in snapshots[::every]:
            yield Fact("process_samples", one.time / 1e3, {"pid": pid, "rss_bytes": one.rss})
        begin_s, end_s = about.start_time.timestamp(), about.end_time.timestamp()
        source.notes.append(
            f"its high-water mark is {about.peak_memory:,} bytes, of {about.total_allocations:,} allocations"
        )
        if about.file_format == FileFormat.ALL_ALLOCATIONS and snapshots:
            times = [one.time / 1e3 for one in snapshots]
            count = _at_work(snapshots)
            if count < len(times):  # as an agent would say it
                text = "the program gives back what it held: it ends"
                yield Fact("agent_notes", times[count - 1], {"pid": pid, "note": "exit", "text": text})
            yield from _course(reader, pid, times[:count])
        else:
            source.notes.append(
                "it is aggregated: who held how much is known at the high-water mark and at the end alone"
            )
            at_peak = max(snapshots, key=lambda one: one.heap).time / 1e3 if snapshots else begin_s
            for at_s, records in (
                (at_peak, reader.get_high_watermark_allocation_records(merge_threads=True)),
                (end_s, reader.get_leaked_allocation_records(merge_threads=True)),
            ):
                found = [(one.size, one.n_allocations, one.stack_trace(_FRAMES)) for one in records]
                yield from _rows(pid, at_s, found)


def _course(reader: Any, pid: int, times: Sequence[float]) -> Iterator[Fact]:
    """Bytes of each stack that were alive at moments spread over the run."""
    count = min(_MOST_MOMENTS, len(times))
    chosen = sorted({round(i * (len(times) - 1) / max(1, count - 1)) for i in range(count)})
    alive: list[list[tuple[int, int, Any]]] = [[] for _ in chosen]
    for record in reader.get_temporal_allocation_records(merge_threads=True):
        stack = None
        for position, at in enumerate(chosen):
            bytes = number = 0
            for one in record.intervals:
                freed = one.deallocated_before_snapshot
                if one.allocated_before_snapshot <= at and (freed is None or freed > at):
                    bytes, number = bytes + one.n_bytes, number + one.n_allocations
            if bytes:
                stack = stack if stack is not None else record.stack_trace(_FRAMES)
                alive[position].append((bytes, number, stack))
    for at, found in zip(chosen, alive):
        yield from _rows(pid, times[at], found)


def _at_work(snapshots: Sequence[Any], late: float = 0.95, let_go: float = 0.5) -> int:
    """So many snapshots are of the program at work: as it ends, what its variables held is freed."""
    begin = int(late * len(snapshots))
    least = let_go * snapshots[max(0, begin - 1)].heap
    return next((i for i in range(begin, len(snapshots)) if snapshots[i].heap < least), len(snapshots)) or 1


def _rows(pid: int, at_s: float, found: list[tuple[int, int, Any]]) -> Iterator[Fact]:
    found.sort(key=lambda one: -one[0])
    for bytes, number, stack in found[:_MOST_STACKS]:
        function, file, line = next((f for f in stack if _is_of_user(f[1])), stack[0] if stack else (None, None, None))
        yield Fact("allocation_stacks", at_s, {
            "pid": pid, "allocator": "malloc", "function": function, "owner_file": file, "owner_line": line,
            "stack": "\n".join(f"{f[1]}:{f[2]} {f[0]}" for f in reversed(stack)), "live_bytes": bytes,
            "settled_bytes": bytes, "error_bytes": 0, "sample_count": number, "asked_bytes": bytes,
        })  # fmt: skip


def _is_of_user(file: str) -> bool:
    return not (file.startswith(_OF_PYTHON) or "site-packages" in file or "/lib/python3" in file)


def _command(text: str) -> str:
    """What was run, without memray and its options."""
    words = text.split()
    program = next((i for i, word in enumerate(words[1:], 1) if word.endswith(".py") and "memray" not in word), None)
    return " ".join(["python", *words[program:]]) if program is not None else text


def _is_packed(head: bytes, name: str) -> bool:
    return head.startswith(_LZ4) and name.endswith(".bin")
