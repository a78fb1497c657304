"""Brings ``run.parquet`` up to date while the job runs, by a process of its own. Runs in the recorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import finalizing
from .companion import Companion, Look, Word
from .helpers import Room, too_full
from .output import Output

PERIOD_S = 60.0
LEAST_BYTES = 1024 * 1024
GROWTH = 1.5
ROOM_BYTES = 10**9  # of the machine: with less left the process could be what is one too many
CGROUP_ROOM_BYTES = 256 * 1024 * 1024  # three times what it takes: the job may grow meanwhile


class Checkpoints(Companion):
    """Of one recording; ``is_over``: no more of them are made."""

    left_out = "the file is not brought up to date while the job runs"

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.is_over = False
        self._output = output
        self._pid: int | None = None
        self._at_s, self._bytes = 0.0, 0  # of the last one

    @property
    def pids(self) -> Mapping[int, str]:
        return {} if self._pid is None else {self._pid: "brings the file up to date"}

    def go_on(self, look: Look) -> Iterator[Word | Room]:
        if self._pid is not None or self.is_over or look.is_last or look.elapsed_s - self._at_s < PERIOD_S:
            return
        written_bytes = self._output.written_bytes()
        if written_bytes < max(LEAST_BYTES, GROWTH * self._bytes):
            return
        if (full := too_full(CGROUP_ROOM_BYTES, ROOM_BYTES)) is not None:
            yield full
        elif finalizing.is_possible():
            self._at_s, self._bytes = look.elapsed_s, written_bytes
            self._pid = finalizing.start(self._output.path, "--checkpoint")

    def ended(self, pid: int, status: int) -> Word | None:
        self._pid = None if pid == self._pid else self._pid
        return None

    def stop(self) -> None:
        self.is_over = True
        if self._pid is not None:
            finalizing.stop(self._pid)
            self._pid = None
