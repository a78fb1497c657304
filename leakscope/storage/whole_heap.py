"""The whole heap of a snapshot: the agent's file of columns to parquet beside the recording, and back to tables.

The agent writes it as its memory has it (agent/graph/whole.py). Here it becomes a parquet file with a row an object, in
which the references of an object are a list: what is known as compressed sparse rows. The recording itself needs none
of it: what goes wrong with this file costs nothing else.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .. import schema
from ..agent.journal import WHOLE_HEAP as SUFFIX
from ..agent.journal import WHOLE_HEAP_MAGIC, create
from ..errors import UnreadableRecording
from . import seal
from .atomic_replace import replacing

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

FORMAT_KEY = "leakscope.whole_heap"
_ROWS_AT_ONCE = 1 << 16
_NONE = 0xFFFFFFFF
_NAME = re.compile(r"heap-(\d+)-(\d+)-(\d+)" + re.escape(SUFFIX))
_TYPES = {"int": pa.int64(), "str": pa.dictionary(pa.int32(), pa.string()), "ints": pa.list_(pa.uint32())}
_RISING = ("object", "address", "dominator", "path_object", "node", "refers_to.list.element")
_SHORT = ("object", "dominator", "path_object", "reference_count")
SCHEMA = pa.schema(
    pa.field(
        c.name, pa.uint32() if c.name in _SHORT else _TYPES[c.type], metadata={"unit": c.unit, "meaning": c.meaning}
    )
    for c in schema.WHOLE_HEAP
)
_COLUMNS = (  # as the agent writes them
    ("address", pa.int64()), ("own_bytes", pa.int64()), ("retained_bytes", pa.int64()), ("type", pa.uint32()),
    ("dominator", pa.uint32()), ("path_object", pa.uint32()), ("reference_count", pa.uint32()),
)  # fmt: skip
_GROUPS = ("roots", "modules", "threads", "the recorder", "C code alone", "garbage")


class Identity(NamedTuple):
    """Whose heap it is, and as of which snapshot."""

    pid: int
    start_ticks: int
    take: int


def file_of(recording: Path, pid: int, take: int) -> Path:
    """``run.heap-4711-3.parquet`` beside ``run.parquet``."""
    return recording.with_name(f"{recording.stem}.heap-{pid}-{take}.parquet")


def files_in(journal: Path) -> Iterator[tuple[Path, Identity]]:
    """Those that the agents have finished."""
    for path in sorted(journal.glob("heap-*" + SUFFIX)):
        found = _NAME.fullmatch(path.name)
        if found is not None:
            yield path, Identity(*map(int, found.groups()))


def move_out(journal: Path, recording: Path) -> list[Path]:
    """From a journal that is about to go: each becomes a parquet file; what cannot is left as it is, beside it.

    Returns the files that there are now.
    """
    made = []
    for raw, identity in files_in(journal):
        to = file_of(recording, identity.pid, identity.take)
        try:
            _convert(raw, to)
        except (OSError, pa.ArrowException, ValueError, KeyError, struct.error):
            to = to.with_suffix(SUFFIX)
            try:
                os.rename(raw, to)
            except OSError:
                continue
        made.append(to)
    return made


class WholeHeapFile:
    """The file of one snapshot. Its columns are those of ``schema.WHOLE_HEAP``, a row an object.

    **Errors** of all that reads: UnreadableRecording.
    """

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self._is_checked = False

    def frame(self, columns: list[str]) -> pd.DataFrame:
        table = self._read(columns)
        numbers = {"reference_count": "Int64", "node": "Int64"}
        frame: pd.DataFrame = table.to_pandas()
        return frame.astype({name: kind for name, kind in numbers.items() if name in columns})

    def references(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Where those of each object begin, of one more than there are; and the objects that they lead to."""
        import numpy as np  # who finalises does without

        lists = self._read(["refers_to"]).column(0)
        counts = np.concatenate([np.diff(chunk.offsets.to_numpy()) for chunk in lists.chunks])
        targets = np.concatenate([chunk.flatten().to_numpy() for chunk in lists.chunks])
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), targets

    def _read(self, columns: list[str]) -> pa.Table:
        try:
            if not self._is_checked:
                seal.check_file(self.path)
                self._is_checked = True
            return pq.read_table(self.path, columns=columns, page_checksum_verification=True)
        except pa.ArrowException:
            raise seal.damaged(self.path) from None
        except OSError as error:
            raise UnreadableRecording(f"{self.path} cannot be read: {error}") from None


def files_beside(recording: Path, snapshots: Iterable[Identity]) -> list[WholeHeapFile]:
    """Those of these snapshots. Files of an earlier recording of that name are none."""
    found = []
    for identity in snapshots:
        path = file_of(recording, identity.pid, identity.take)
        if _is_of(path, identity):
            found.append(WholeHeapFile(path, identity))
    return found


def identity_of(path: Path) -> Identity | None:
    """None where that is no such file of ours, or is damaged."""
    try:
        return _identity(path)
    except UnreadableRecording:
        return None


def _is_of(path: Path, identity: Identity) -> bool:
    try:
        return _identity(path) == identity
    except UnreadableRecording:
        return True  # by its name; that it is damaged is told to who reads it


def _identity(path: Path) -> Identity | None:
    """**Errors** UnreadableRecording: it is damaged."""
    try:
        seal.check_file(path, whole=False)
        told = json.loads((pq.read_metadata(path).metadata or {})[FORMAT_KEY.encode()])
        return Identity(told["pid"], told["start_ticks"], told["take"])
    except pa.ArrowException:  # its last bytes are not those of a parquet file
        raise seal.damaged(path) from None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _convert(raw: Path, to: Path) -> None:
    """**Cost** 0.5 to 1 s a million objects, 50 to 100 MB of memory. **Errors** as in ``move_out``."""
    with pa.OSFile(str(raw)) as source, replacing(to) as path, os.fdopen(create(path, os.O_RDWR), "w+b") as stream:
        columns = _Raw(source)
        identity = {"format": 1, **columns.identity}
        with pq.ParquetWriter(
            stream, SCHEMA, compression="zstd", compression_level=1,
            use_dictionary=["type_name", "own_bytes", "retained_bytes", "reference_count"],
            column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
            write_statistics=["object", "address"],
            write_page_checksum=True,
        ) as writer:  # fmt: skip
            for batch in columns.batches():
                writer.write_batch(batch)
            seal.close(writer, stream, {FORMAT_KEY: json.dumps(identity)})
        stream.flush()
        os.fsync(stream.fileno())


class _Raw:
    """The agent's file. **Errors** ValueError: it is none, or does not have what it says."""

    def __init__(self, source: pa.NativeFile) -> None:
        magic, length = source.read(8), int.from_bytes(source.read(8), "little")
        if magic != WHOLE_HEAP_MAGIC or length > source.size():
            raise ValueError("no heap of leakscope's")
        header: dict[str, Any] = json.loads(source.read(length))
        self.identity = {name: header[name] for name in Identity._fields}
        self._node_count, self._edge_count = int(header["node_count"]), int(header["edge_count"])
        self._source = source
        self._at = {}
        at = 16 + length
        for name, kind in _COLUMNS:
            self._at[name] = at
            at += self._node_count * kind.bit_width // 8
        self._begin, self._edges = at, at + (self._node_count + 1) * 4
        if source.size() < self._edges + self._edge_count * 4:
            raise ValueError("it ends too early")
        names = [*(f"({group})" for group in _GROUPS), *header["type_names"]]
        told = pa.array(names, pa.string()).dictionary_encode()
        self._type_names, self._type_codes = told.dictionary, told.indices
        self._numbers = dict(zip(header["row_nodes"], header["row_numbers"]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for begin in range(0, self._node_count, _ROWS_AT_ONCE):
            yield self._batch(begin, min(begin + _ROWS_AT_ONCE, self._node_count))

    def _batch(self, begin: int, end: int) -> pa.RecordBatch:
        column = {
            name: self._values(kind, self._at[name] + begin * kind.bit_width // 8, end - begin)
            for name, kind in _COLUMNS
        }
        objects = pa.array(range(begin, end), pa.uint32())
        codes = pc.add(column["type"], pa.scalar(len(_GROUPS), pa.uint32()))
        if begin == 0:
            codes = pa.concat_arrays([objects[: len(_GROUPS)], codes[len(_GROUPS) :]])
        offsets = self._values(pa.uint32(), self._begin + begin * 4, end - begin + 1)
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        targets = self._values(pa.uint32(), self._edges + first * 4, last - first)
        counts = column["reference_count"]
        arrays = {
            **column,
            "object": objects,
            "type_name": pa.DictionaryArray.from_arrays(self._type_codes.take(codes), self._type_names),
            "reference_count": pc.if_else(pc.equal(counts, pa.scalar(_NONE, pa.uint32())), None, counts),
            "node": pa.array([self._numbers.get(one) for one in range(begin, end)], pa.int64()),
            "refers_to": pa.ListArray.from_arrays(
                pc.subtract(offsets, pa.scalar(first, pa.uint32())).cast(pa.int32()), targets
            ),
        }
        return pa.record_batch([arrays[field.name] for field in SCHEMA], schema=SCHEMA)

    def _values(self, kind: pa.DataType, at: int, count: int) -> pa.Array:
        self._source.seek(at)
        return pa.Array.from_buffers(kind, count, [None, self._source.read_buffer(count * kind.bit_width // 8)])
