"""torch: memory snapshots (`torch.cuda.memory._dump_snapshot`), as pickle or JSON, also compressed by gzip."""

from __future__ import annotations

from collections.abc import Iterator

from .. import torch_snapshots
from ..errors import UnreadableRecording
from ..torch_snapshots import sniff
from ._facts import ELAPSED, UNIX, Fact, NotThisFormat
from ._source import Source

__all__ = ["LACKS", "read", "sniff"]

LACKS = "has what torch's allocator held on GPUs: nothing of the host, no Python objects, no other process"


def read(source: Source) -> Iterator[Fact]:
    """Segments, blocks, stacks and events, as rows of the tables ``gpu_*``; the process by its rank, or by the file."""
    try:
        facts = torch_snapshots.read(source.path)
    except UnreadableRecording as error:
        raise NotThisFormat(str(error).removeprefix(f"{source.path} ")) from None
    source.clock, source.tool = UNIX if facts.began_ns is not None else ELAPSED, "torch"
    source.notes += [note.removeprefix(f"{facts.name}: ") for note in facts.notes]
    source.addresses = frozenset(address for _, address, _ in facts.key)
    name = f"rank {facts.rank}" if facts.rank is not None else facts.name
    pid = source.unnamed(name, comm=name, role="trainer", rank=facts.rank)
    for table, row in facts.rows:
        at_ns = row.pop("time_unix_ns", None)
        if at_ns is None:  # without times: in their order
            at_ns = (facts.ended_ns or 0) + 1000 * (row.get("event_index") or 0)
        yield Fact(table, at_ns / 1e9, {"pid": pid, "snapshot": 1, **row})
