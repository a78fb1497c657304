"""Recordings of a trainer on one GPU, seen by torch's allocator and by NVML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builders import RecordingBuilder

GiB = 1024**3
MiB = 1024**2
PID = 4242
OTHER_PID = 777
SECONDS = 40
TOTAL = 80 * GiB


def trainer(folder: Path, allocated: list[int], **figures: Any) -> RecordingBuilder:
    """train.py for 40 seconds, a step each 0.1 s, the allocator read once a second; the host's memory is flat."""
    builder = RecordingBuilder(folder).process(PID, cmdline="python train.py")
    builder.samples(PID, [2 * GiB] * (SECONDS * 4), every_s=0.25)
    columns = {
        "device": "cuda:0",
        "allocated_bytes": allocated,
        "reserved_bytes": [a + 2 * GiB for a in allocated],
        "active_bytes": allocated,
        "inactive_split_bytes": 100 * MiB,
        "alloc_retry_count": 0,
        "device_oom_count": 0,
        "step": [10 * s for s in range(len(allocated))],
    }
    return builder.series("allocator", PID, from_s=1.0, **{**columns, **figures})


def flat(level: int = 10 * GiB) -> list[int]:
    return [level] * SECONDS


def growing(level: int = 10 * GiB, by: int = 100 * MiB) -> list[int]:
    return [level + by * s for s in range(SECONDS)]


def runs_out(builder: RecordingBuilder, at_s: float, requested: int, reserved: int, allocated: int) -> RecordingBuilder:
    """As the agent writes it: a note, and the figures of that moment."""
    text = (
        f"cuda:0: {requested} bytes asked for, {GiB} free of {TOTAL}, at /home/me/train.py:31 forward < /home/x.py:9 y"
    )
    builder.note(PID, at_s, "cuda-oom", text)
    figures = {"device": "cuda:0", "allocated_bytes": allocated, "active_bytes": allocated, "reserved_bytes": reserved}
    return builder.row("allocator", at_s + 0.001, PID, **figures)


def gpu(builder: RecordingBuilder, ours: list[int], others: list[int], *, visible: bool = True) -> RecordingBuilder:
    """NVML every 2 s; in a container the processes are not visible as such."""
    known = {"gpu_uuid": "GPU-1", "gpu_index": 3}
    for i, (own, other) in enumerate(zip(ours, others)):
        device = {"gpu_name": "NVIDIA X100", "gpu_total_bytes": TOTAL, "gpu_used_bytes": own + other + GiB // 2}
        builder.row("gpu_samples", 2.0 * i, **known, **device)
        for pid, is_ours, used in ((PID, True, own), (OTHER_PID, False, other)):
            if not used:
                continue
            who = {"is_ours": is_ours if visible else None}
            builder.row("gpu_samples", 2.0 * i, pid if visible else None, **known, **who, gpu_used_bytes=used)
    return builder
