"""Memory of other processes on the GPU that the job needs.

Looks for:     processes outside the recorded job that hold memory on a GPU of the job.
Why:           a forgotten notebook or a crashed run that still lives takes the memory; the job itself is not at fault.
Decides by:    min_fraction of the device used by others when the job ran out, or while full_fraction of it was in use.
Mistaken when: the other process is a service the job talks to (a display, MPS, an inference server it started).
Do:            end that process, or give the job another GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..confidence import PROVEN, WEAK, Ground
from ..facts.accounts.gpu import NO_GPU, Oom
from ..facts.case import Case
from ..facts.series.arithmetic import Floats, level_at
from ..facts.tables import int_of, only, text_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ASIDE
from ..storage import Rows
from ..units import FULL, SOME, GiB, format_bytes

NEEDS = ()
TELLS = (ASIDE,)
_KIND = "gpu-other-process"
_CONTEXT_BYTES = 1 * GiB  # of each process beside torch's allocator: context, NCCL, kernels; 0.3 to 0.6 is usual
_SAMPLE_S = 3.0  # GPUs are sampled every 2 s


def findings(
    case: Case,
    *,
    min_fraction: float = SOME,  # of the device: a display takes a few percent
    full_fraction: float = FULL,  # of the device in use: the next large batch may not fit
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per GPU of the job that others fill."""
    samples = case.rows("gpu_samples")
    if not len(samples):
        is_known = case.device_uses or case.gpu_budgets
        yield Skipped(_KIND, "GPUs were not sampled from outside" if is_known else NO_GPU, applies=bool(is_known))
        return
    ooms = [oom for oom in case.gpu_ooms if not oom.is_own_limit]
    ours = only(samples, samples["is_ours"].fillna(False))
    for uuid in ours["gpu_uuid"].dropna().unique():
        gpu = _Gpu(only(samples, samples["gpu_uuid"] == uuid), min_fraction, full_fraction)
        pids = set(ours["pid"][ours["gpu_uuid"] == uuid].dropna())
        yield gpu.answer(case, gpu.known_others(), [oom for oom in ooms if oom.pid in pids])
    # In a container pids tell nothing: there it is what is used less what torch holds, if there is but one GPU.
    if not len(ours) and (samples["gpu_uuid"].nunique() != 1 or not case.device_uses):
        yield Skipped(_KIND, "processes on the GPU could not be identified: their pids are not visible here")
    elif not len(ours):
        gpu = _Gpu(samples, min_fraction, full_fraction)
        held = np.zeros_like(gpu.time_s)
        for use in case.device_uses:
            reserved = use.figures("reserved_bytes")
            held += [level_at(use.time_s, reserved, at_s) + _CONTEXT_BYTES for at_s in gpu.time_s]
        yield gpu.answer(case, np.maximum(gpu.used_bytes - held, 0.0), ooms, estimated=True)


class _Gpu:
    """One device: its samples and, beside each, what processes held. **Units** bytes, one value a sample."""

    def __init__(self, rows: Rows, min_fraction: float, full_fraction: float) -> None:
        self._least, self._full = min_fraction, full_fraction
        device = only(rows, rows["gpu_total_bytes"].notna()).sort_values("time_s")
        self.time_s: Floats = device["time_s"].to_numpy(dtype=np.float64)
        self.used_bytes: Floats = device["gpu_used_bytes"].to_numpy(dtype=np.float64, na_value=0.0)
        self.total_bytes = int(device["gpu_total_bytes"].max()) if len(device) else 0
        row = device.iloc[-1] if len(device) else None
        self.name = f"GPU {int_of(row, 'gpu_index')} ({text_of(row, 'gpu_name') or 'unnamed'})"
        self.processes = only(rows, rows["gpu_total_bytes"].isna())

    def known_others(self) -> Floats:
        """What processes that are not ours held at each sample; a size the driver hid is 0."""
        others = self.processes[~self.processes["is_ours"].fillna(True)]
        held = np.zeros_like(self.time_s)
        if held.size:
            nearest = np.abs(others["time_s"].to_numpy(dtype=np.float64)[:, None] - self.time_s).argmin(axis=1)
            np.add.at(held, nearest, others["gpu_used_bytes"].to_numpy(dtype=np.float64, na_value=0.0))
        return held

    def answer(self, case: Case, others: Floats, ooms: Sequence[Oom], *, estimated: bool = False) -> Finding | RuledOut:
        """The finding, judged at the samples that matter: near a failed allocation, or with the device almost full."""
        near_oom = np.zeros(self.time_s.size, dtype=bool)
        for oom in ooms:
            near_oom |= np.abs(self.time_s - oom.time_s) <= _SAMPLE_S
        matters = near_oom if near_oom.any() else self.used_bytes >= self._full * self.total_bytes
        most = int(others[matters].max()) if matters.any() else 0
        if not most or most < self._least * self.total_bytes:
            return self._ruled_out(others, bool(matters.any()))
        at = int(np.flatnonzero(matters)[others[matters].argmax()])
        return self._finding(case, most, at, ooms if near_oom.any() else (), estimated)

    def _finding(self, case: Case, most: int, at: int, ooms: Sequence[Oom], estimated: bool) -> Finding:
        total, used = format_bytes(self.total_bytes), format_bytes(self.used_bytes[at])
        when = "when the job ran out of memory there" if ooms else f"while {used} of {total} were in use"
        pids = [] if estimated else self._largest_others()
        called = {pid: self._called(pid) for pid, _ in pids}
        who = ", ".join(f"{called[pid]} held up to {format_bytes(held)}" for pid, held in pids)
        names = ", ".join(called.values())
        size, it_is = format_bytes(most), "they are" if len(pids) > 1 else "it is"
        hidden = "their pids are not visible in this container: the figure is all use minus what torch and its contexts"
        theirs = f"{size} of the {total} of {self.name} belonged to processes outside the job {when}"
        figures = {"other_bytes": most, "used_bytes": int(self.used_bytes[at]), "total_bytes": self.total_bytes}
        left = Ground("what is left over when ours is taken away", WEAK)
        return case.finding(
            _KIND,
            f"Other processes hold {size} of {self.name}",
            severity="critical" if ooms else "warning",
            grounds=[left if estimated else Ground("the driver says who holds it", PROVEN)],
            bytes=most,
            device=self.name,
            holder=names or "processes outside the job",
            evidence=[
                Evidence(theirs, figures),
                Evidence(who, {"pids": [pid for pid, _ in pids]}) if who else None,
                *(
                    Evidence(
                        f"{format_bytes(oom.requested_bytes)} could not be allocated{oom.place}: {oom.room}",
                        {"requested_bytes": oom.requested_bytes, "device_free_bytes": oom.free_bytes},
                    )
                    for oom in ooms[-1:]
                ),
            ],
            doubts=[f"{hidden} held" if estimated else None],
            remedy=[f"end {names} if {it_is} not needed, or choose another GPU: frees about {size}" if pids else None],
        )

    def _called(self, pid: int) -> str:
        """``pid 42 (python3)``; without its name where nobody could read it."""
        rows = self.processes[self.processes["pid"] == pid]
        names = rows["comm"].dropna()
        return f"pid {pid} ({names.iloc[-1]})" if len(names) else f"pid {pid}"

    def _largest_others(self) -> list[tuple[int, int]]:
        """(pid, most bytes) of up to five processes."""
        others = self.processes[~self.processes["is_ours"].fillna(True)]
        most = ((int(pid), own["gpu_used_bytes"].max()) for pid, own in others.groupby("pid"))
        return sorted(((pid, int(one)) for pid, one in most if one > 0), key=lambda one: -one[1])[:5]

    def _ruled_out(self, others: Floats, mattered: bool) -> RuledOut:
        most = int(others.max()) if others.size else 0
        used = int(self.used_bytes.max()) if self.used_bytes.size else 0
        figures = {"most_other_bytes": most, "most_used_bytes": used, "total_bytes": self.total_bytes}
        if mattered:
            return RuledOut(_KIND, f"other processes held at most {format_bytes(most)} of {self.name}", figures)
        full = f"at most {format_bytes(used)} of {format_bytes(self.total_bytes)} were in use"
        return RuledOut(_KIND, f"{self.name} never ran short: {full}", figures)
