"""W&B: the `.wandb` file of a run, offline or not, by the messages of its own SDK (extra `wandb`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from . import _wandb_names
from ._facts import UNIX, Fact, NotThisFormat
from ._figures import amount
from ._source import Source

LACKS = _wandb_names.LACKS
EXTRA = "wandb"
_MAGIC = b":W&B"
_HEADER, _BLOCK = 7, 32 * 1024
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_RECORD = 256 << 20


def sniff(head: bytes, name: str) -> bool:
    return head.startswith(_MAGIC)


def read(source: Source) -> Iterator[Fact]:
    """System metrics as the run wrote them, each with its time; steps of its history as marks."""
    from wandb.proto import wandb_internal_pb2  # type: ignore[import-not-found, import-untyped, unused-ignore]

    source.clock, source.tool = UNIX, "wandb"
    pid = source.unnamed("run", comm="python")
    with open(source.path, "rb") as stream:
        for data in _records(stream, source):
            record = wandb_internal_pb2.Record()
            try:
                record.ParseFromString(data)
            except Exception:  # DecodeError, which is another class in each generation of protobuf
                source.left_out += 1
                continue
            kind = record.WhichOneof("record_type")
            if kind == "stats":
                at_s = record.stats.timestamp.seconds + record.stats.timestamp.nanos / 1e9
                figures = {_wandb_names.metric(item.key): _value(item.value_json) for item in record.stats.item}
                yield from _wandb_names.facts(source, at_s, figures)
            elif kind == "run":
                source.meta["host"] = source.meta.get("host") or record.run.host
            elif kind == "environment":
                _environment(source, record.environment, pid)
            elif kind == "exit":
                source.knows(pid, exit_code=record.exit.exit_code)


def _environment(source: Source, known: Any, pid: int) -> None:
    words = [word for word in [known.program, *known.args] if word]
    if words:
        source.meta["command"] = ["python", *words]
        source.knows(pid, cmdline=" ".join(["python", *words]))
    total = amount(getattr(known.memory, "total", 0))
    if total:
        source.meta["mem_total_bytes"] = total
    for index, gpu in enumerate(known.gpu_nvidia):
        size = amount(gpu.memory_total)
        if size:
            source.meta.setdefault("gpu_total_bytes", {})[str(index)] = size


def _value(text: str) -> Any:
    try:
        return json.loads(text[:100])
    except ValueError:
        return None


def _records(stream: BinaryIO, source: Source) -> Iterator[bytes]:
    """Whole records of the log, which is one of LevelDB's: blocks with pieces, each with its length and kind.

    What is torn at the end, as of a run that was killed, ends it.
    """
    if stream.read(_HEADER)[:4] != _MAGIC:
        raise NotThisFormat("is no .wandb file of a run")
    position, size = _HEADER, 0
    parts: list[bytes] = []
    while True:
        left = _BLOCK - position % _BLOCK
        if left < _HEADER:
            stream.read(left)
            position += left
            continue
        header = stream.read(_HEADER)
        if len(header) < _HEADER:
            return
        length, kind = int.from_bytes(header[4:6], "little"), header[6]
        data = stream.read(length)
        position += _HEADER + len(data)
        size = len(data) if kind in (_FULL, _FIRST) else size + len(data)
        if len(data) < length or kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or size > _MOST_RECORD:
            source.notes.append(f"it is torn at byte {position:,}: what comes before that is imported")
            return
        if kind in (_FULL, _FIRST):
            parts = []
        parts.append(data)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
