"""Small recordings that several tests share: a trainer that leaks, or does not, seen from outside and inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builders import RecordingBuilder

MiB = 1024**2
PID = 4242
RUN_S = 20.0
LEAK_BYTES_PER_S = 10 * MiB


def trainer(folder: Path, *, leak: int = LEAK_BYTES_PER_S, run_s: float = RUN_S, **samples: Any) -> RecordingBuilder:
    """train.py for 20 seconds at 4 Hz: 100 MiB, and ``leak`` bytes more each second."""
    builder = RecordingBuilder(folder).process(PID, cmdline="/usr/bin/python3 -u /home/me/train.py --lr 1")
    rss = [round(100 * MiB + leak * i * 0.25) for i in range(int(run_s * 4))]
    return builder.samples(PID, rss, every_s=0.25, **samples)


def sentinels(builder: RecordingBuilder, *, in_use: int = LEAK_BYTES_PER_S, **columns: Any) -> RecordingBuilder:
    """The inside view: malloc hands out ``in_use`` bytes more each second; the collector is healthy by default."""
    seconds = range(int(RUN_S))
    healthy = {
        "malloc_in_use_bytes": [50 * MiB + in_use * s for s in seconds],
        "malloc_free_bytes": [MiB for _ in seconds],
        "gc_enabled": True,
        "gc_threshold": 700,
        "gc_collections": [100 + 10 * s for s in seconds],
        "gc_full_collections": [s // 4 for s in seconds],
        "gc_collected_count": [1000 + 20 * s for s in seconds],
        "gc_frozen_count": 0,
    }
    return builder.sentinels(PID, **{**healthy, **columns})
