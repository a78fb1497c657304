"""What torch's allocator has on GPUs: readings once a second, and the moment at which one is full. Runs in the job."""

from __future__ import annotations

import os

from ..journal import GPU_SNAPSHOT
from ..torch import cuda

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..graph.heap_graph import Call
    from ..outbox import Outbox
    from ..torch.gpu_history import GpuHistory
    from .steps import Steps


class Devices:
    """Of one process. ``history``: torch's own, where the user asked for it."""

    def __init__(
        self,
        outbox: Outbox,
        steps: Steps,
        running: Callable[[], dict[int, list[Call]]],
        when_full: Callable[[], None],
        *,
        keeps_history: bool,
    ) -> None:
        """``when_full``: called where torch is about to raise, and the frames that asked still stand."""
        self._outbox = outbox
        self._steps = steps
        self._running = running
        self._when_full = when_full
        self.history = self._gpu_history() if keeps_history else None

    def look(self) -> None:
        """Nothing until the job itself uses CUDA: a flag is read, then the allocator's counters once a second."""
        rows = cuda.rows_if_due(self._steps.current())
        self._add(rows)
        if self.history is not None:
            self.history.look(rows)
        refused = cuda.attach_oom_observer(self._on_full, self._running)
        if refused is not None:
            self._outbox.note("cuda-observer", refused)

    def look_from_aside(self) -> None:
        """On the agent's thread, for a job without an optimizer."""
        self._add(cuda.rows_from_aside(self._steps.current()))

    def _add(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self._outbox.add("allocator", row)

    def _gpu_history(self) -> GpuHistory:
        """Its module is loaded only where the user asked for it: the others have nothing of it inside."""
        from ..torch.gpu_history import GpuHistory

        return GpuHistory(self._file_of_snapshot, self._outbox.note)

    def _file_of_snapshot(self, number: int) -> str:
        """The file of a memory snapshot of torch."""
        outbox = self._outbox
        return os.path.join(outbox.folder, f"gpu-{outbox.pid}-{outbox.start_ticks}-{number}{GPU_SNAPSHOT}")

    def _on_full(self, device: int, requested_bytes: int, total_bytes: int, free_bytes: int, frames: str) -> None:
        self._outbox.note("cuda-oom", cuda.oom_text(device, requested_bytes, total_bytes, free_bytes, frames))
        row = cuda.device_row(device, self._steps.current())
        if row is not None:
            self._outbox.add("allocator", row)
        if self.history is not None:
            self.history.write("out-of-memory")
        self._when_full()
