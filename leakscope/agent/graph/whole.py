"""All nodes and edges of a graph, in a file of columns. Runs in the job, on the agent's thread.

The columns are written by C code, without the GIL. The recorder makes parquet of the file when the recording is over;
until it is whole it has another name.
"""

from __future__ import annotations

import ctypes
import errno
import os

from .. import plain_json
from ..interpreter import files
from ..journal import WHOLE_HEAP, WHOLE_HEAP_MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SUFFIX, UNFINISHED = WHOLE_HEAP, ".part"
NODE_BYTES, EDGE_BYTES = 40, 4
MOST_BYTES = 2 << 30
DISK_SHARE = 4  # one part in so many of the room on the disk


class File:
    """One to be written, or that was. ``may_be_in_memory``: also in a folder that is no disk.

    ``refusal``: why it was not written; None: it was, or nobody has tried.
    """

    def __init__(self, path: str, identity: dict[str, Any], *, may_be_in_memory: bool) -> None:
        self.path = path
        self.identity = identity
        self.may_be_in_memory = may_be_in_memory
        self.refusal: str | None = None
        self.is_written = False


class Writer:
    """``free``: the library, called without the GIL."""

    def __init__(self, free: Any) -> None:
        pointer = ctypes.c_void_p
        self._prepare, self._write, self._is_in_memory = (
            free.graph_is_for_file, free.graph_write, free.graph_is_in_memory
        )  # fmt: skip
        self._prepare.restype, self._prepare.argtypes = None, (pointer,)
        self._write.argtypes = (pointer, ctypes.c_int)

    def prepare(self, graph: Any, file: File) -> bool:
        """Before the graph is worked out. Whether there is room for it."""
        contents = graph.contents
        wanted = contents.nodes * NODE_BYTES + contents.edges * EDGE_BYTES
        disk = os.statvfs(os.path.dirname(file.path))
        room = disk.f_bavail * disk.f_frsize // DISK_SHARE
        if wanted > MOST_BYTES:
            file.refusal = f"it would have {wanted >> 20} MiB, and {MOST_BYTES >> 20} MiB is the most"
        elif wanted > room:
            file.refusal = f"it would have {wanted >> 20} MiB, a fourth of the room on the disk is {room >> 20} MiB"
        else:
            self._prepare(graph)
        return file.refusal is None

    def write(self, graph: Any, file: File, type_names: Sequence[str], rows: Sequence[tuple[int, int]]) -> None:
        """``rows``: of nodes that have one in ``heap_nodes``, (number in this graph, number there)."""
        contents = graph.contents
        header = plain_json.dumps(
            dict(
                file.identity, node_count=contents.nodes, edge_count=contents.edges, type_names=type_names,
                row_nodes=[node for node, _ in rows], row_numbers=[number for _, number in rows],
            )
        ).encode()  # fmt: skip
        unfinished = file.path + UNFINISHED
        try:
            descriptor = files.create(unfinished)
            try:
                if not file.may_be_in_memory and self._is_in_memory(descriptor):
                    raise OSError(errno.ENOSPC, "its folder is in memory, of which little is left")
                os.write(descriptor, WHOLE_HEAP_MAGIC + len(header).to_bytes(8, "little") + header)
                error = self._write(graph, descriptor)
                if error:
                    raise OSError(
                        error, "there was too little memory" if error == errno.ENODATA else os.strerror(error)
                    )
            finally:
                os.close(descriptor)
            os.rename(unfinished, file.path)
            file.is_written = True
        except OSError as error:
            file.refusal = error.strerror or str(error)
            try:
                os.unlink(unfinished)
            except OSError:
                pass
