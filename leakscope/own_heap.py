"""Snapshots of the heap of the process that this runs in, as a recording: for a test that fails, and for notebooks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .agent.graph.heap_graph import HeapGraph
from .agent.journal import Journal
from .agent.native.memory import rss_bytes
from .agent.snapshots import pause
from .agent.snapshots.exact import ExactSnapshot
from .agent.snapshots.torch_look import Look, is_loaded, others_wait
from .agent.torch.remembered import Remembered
from .agent.torch.tensors import known_layout
from .errors import BadInput
from .schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from .storage import Recording

_FOLLOWED_S = 5.0  # of CPU time, for autograd graphs


class OwnHeap:
    """``take`` reads all objects of this process, ``recording`` tells what was read. No object is kept in between.

    ``folder``: where that is written, to be kept for as long as the recording is read. **Errors** BadInput, one line:
    objects cannot be read here.
    """

    def __init__(self, folder: Path) -> None:
        self._graph = HeapGraph(minds_watchers=False)
        if self._graph.refusal is not None:
            raise BadInput(f"who holds what cannot be read here: {self._graph.refusal}")
        self._remembered = Remembered()
        self._output = folder / "run.parquet"
        self._process = {"pid": os.getpid(), "start_ticks": 0}
        self._count = 0
        journal = folder / f"{self._output.name}.journal"
        journal.mkdir()
        meta = {"format_version": SCHEMA_VERSION, "start_mono_ns": time.monotonic_ns(), "command": sys.argv}
        (journal / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        self._journal = Journal(str(journal), "own")

    def take(self) -> None:
        """**Cost** half a second a million objects, in which no other thread runs for a third of it."""
        number = self._count = self._count + 1
        pauses = pause.unlimited()
        look = Look(self._remembered, (), pauses, _FOLLOWED_S) if is_loaded() else None
        layout = known_layout(self._remembered) if not self._graph.weighs_tensors else None
        if layout is not None:
            self._graph.weigh_tensors(*layout)
        snapshot = ExactSnapshot(number, self._graph, pauses, look)
        resident = rss_bytes()
        waits = others_wait(self._graph.running())
        rows = snapshot.run() if snapshot.read(holds_still=waits) else []
        if not rows:
            raise BadInput("who holds what could not be read: too little memory is left, or a collection goes on")
        summary = dict(snapshot.summary, take=number, reason="user", safe_point="pending-call", rss_bytes=resident)
        now = {**self._process, "time_mono_ns": time.monotonic_ns()}
        for table, row in [*rows, ("takes", summary)]:
            self._journal.add(table, {**now, **row})
        self._journal.flush()  # at once: what is kept here would be told as growth

    def recording(self, sources: Iterable[tuple[str, str, str]]) -> Recording:
        """Of all snapshots so far. ``sources``: (module, file, text) of the user's modules."""
        from .storage import open_recording

        now = {**self._process, "time_mono_ns": time.monotonic_ns()}
        for module, file, text in sources:
            self._journal.add("sources", {**now, "module": module, "file": file, "source_text": text})
        self._journal.close()
        return open_recording(self._output)
