"""Processes of the job as a kill is told by them: how each ended, in which cgroup, with how much memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...signals import Signal
from ..processes.table import Process
from ..tables import by_process, int_of, narrow, only, process_name, records, text_of

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

_TOLD = (  # of a process
    "pid", "start_ticks", "born_mono_ns", "died_mono_ns", "cmdline", "comm", "role", "cgroup", "is_root", "exit_code",
    "exit_signal",
)  # fmt: skip
_ASKED = ("pid", "start_ticks", "time_s", "anon_bytes", "rss_bytes", "shmem_bytes", "virtual_bytes")


@dataclass(frozen=True)
class Member:
    """One process of the tree. **Units** seconds since the recording began, bytes of its last reading with memory.

    ``died_s`` is infinite while it lives. ``exit_code`` and ``exit_signal`` None: nobody saw how it ended.
    """

    pid: int
    start_ticks: int
    name: str
    role: str
    comm: str | None
    cgroup: str | None
    is_root: bool
    born_s: float
    died_s: float
    exit_code: int | None
    exit_signal: int | None
    anon_bytes: int | None
    held_bytes: int | None
    virtual_bytes: int | None

    @property
    def label(self) -> str:
        return f"{self.name}[{self.pid}]"

    @property
    def was_sigkilled(self) -> bool:
        return self.exit_signal == Signal.SIGKILL

    @property
    def ended_unseen(self) -> bool:
        return self.died_s != float("inf") and self.exit_code is None and self.exit_signal is None


def members(recording: Recording, everyone: Sequence[Process]) -> list[Member]:
    """Every process of the tree, by birth."""
    roles = {(p.pid, round(p.born_s, 3)): p.role for p in everyone}
    start_ns = int(recording.meta["start_mono_ns"])
    samples = recording.tables["process_samples"]
    samples = only(narrow(samples, *_ASKED), samples["rss_bytes"].fillna(0) > 0)  # one that is exiting shows as empty
    last = {key: rows.iloc[-1] for key, rows in by_process(samples)}
    found = []
    for row in records(recording.tables["processes"], *_TOLD):
        key = int_of(row, "pid") or 0, int_of(row, "start_ticks") or 0
        sample = last.get(key)
        born_ns, died_ns = int_of(row, "born_mono_ns"), int_of(row, "died_mono_ns")
        born_s = (born_ns - start_ns) / 1e9 if born_ns is not None else 0.0
        found.append(
            Member(
                *key,
                name=process_name(row),
                role=roles.get((key[0], round(born_s, 3))) or text_of(row, "role") or "other",
                comm=text_of(row, "comm"),
                cgroup=text_of(row, "cgroup"),
                is_root=bool(row["is_root"]),
                born_s=born_s,
                died_s=(died_ns - start_ns) / 1e9 if died_ns is not None else float("inf"),
                exit_code=int_of(row, "exit_code"),
                exit_signal=int_of(row, "exit_signal"),
                anon_bytes=int_of(sample, "anon_bytes"),
                held_bytes=_held(sample),
                virtual_bytes=int_of(sample, "virtual_bytes"),
            )
        )
    return sorted(found, key=lambda member: (member.born_s, member.pid))


def _held(sample: pd.Series[Any] | None) -> int | None:
    """What it did not share with files: private and shared memory; all of it where the parts are not known."""
    anon = int_of(sample, "anon_bytes")
    return int_of(sample, "rss_bytes") if anon is None else anon + (int_of(sample, "shmem_bytes") or 0)
