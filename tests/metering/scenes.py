"""Scenes for metrics, built from rows as a recorder writes them."""

from __future__ import annotations

from typing import Any

from leakscope.metering.readings import Reading, Readings
from leakscope.metering.totals import Floors, Totals
from leakscope.units import MiB
from leakscope.watching.holders import Holder
from leakscope.watching.scene import Scene

META = {
    "command": ["python", "train.py"],
    "start_unix_ns": 1_700_000_000 * 10**9,
    "labels": {"team": "vision", "cost-center": 'a "quoted" \\ one\n'},
}


class Run:
    """A recording that goes on, without files."""

    def __init__(self, meta: dict[str, Any] | None = None) -> None:
        self.scene, self.totals, self.floors = Scene(0), Totals(), Floors()
        self.readings = Readings(META if meta is None else meta, "run.parquet")
        self.now_s = 0.0

    def rows(self, *rows: tuple[str, dict[str, Any]]) -> None:
        dated = [(table, {"time_mono_ns": int(self.now_s * 1e9) + 1, **row}) for table, row in rows]
        for table, row in dated:
            self.totals.take_in(table, row)
        self.scene.take_in(dated)
        self.floors.add(self.now_s, self.scene.figures.last_bytes)

    def told(self) -> list[Reading]:
        return self.readings.of(self.scene, self.totals, self.floors)

    def value(self, name: str, **labels: str) -> float | None:
        found = [r.value for r in self.told() if r.family.sample_name == name and dict(r.labels) == labels]
        assert len(found) <= 1
        return found[0] if found else None


def born(pid: int, role: str = "trainer") -> tuple[str, dict[str, Any]]:
    return "processes", {"pid": pid, "start_ticks": pid, "role": role, "cmdline": "python train.py", "comm": "python"}


def died(pid: int, role: str = "trainer") -> tuple[str, dict[str, Any]]:
    table, row = born(pid, role)
    return table, {**row, "died_mono_ns": 1, "exit_code": 0}


def memory(pid: int, bytes: int, **more: Any) -> tuple[str, dict[str, Any]]:
    return "process_samples", {"pid": pid, "start_ticks": pid, "rss_bytes": bytes, "anon_bytes": bytes, **more}


def snapshot(
    pid: int, take: int, holders: dict[str, int], first: dict[str, int] | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """``first``: what they held in the first snapshot."""
    process = {"pid": pid, "start_ticks": pid, "take": take}
    told = [
        Holder((pid, pid), path, "list", 3, size, None if first is None else size - first.get(path, 0))
        for path, size in holders.items()
    ]
    return [
        ("takes", {**process, "duration_s": 0.02, "reason": "schedule"}),
        ("holders", {**process, "holders": lambda: told}),
    ]


def growing(seconds: int = 60) -> Run:
    """A trainer that gains 1 MiB a second, with a worker, a limit, a GPU, steps and a holder."""
    run = Run()
    run.rows(born(10), born(11, "dataloader-worker"))
    for second in range(seconds):
        run.now_s = float(second)
        run.rows(
            memory(10, (100 + second) * MiB, uss_bytes=(90 + second) * MiB, swap_bytes=MiB),
            memory(11, 50 * MiB),
            ("host_samples", {"mem_total_bytes": 1000 * MiB, "mem_available_bytes": (800 - second) * MiB}),
            ("gpu_samples", {"gpu_uuid": "GPU-1", "gpu_index": 0, "gpu_name": "H100", "gpu_total_bytes": 80 * MiB,
                             "gpu_used_bytes": 30 * MiB}),
            ("gpu_samples", {"gpu_uuid": "GPU-1", "gpu_index": 0, "gpu_used_bytes": 20 * MiB, "pid": 10,
                             "is_ours": True}),
            ("sentinels", {"pid": 10, "start_ticks": 10, "step": second * 2}),
            ("recorder_samples", {"cpu_s": 0.5, "rss_bytes": 17 * MiB, "sample_duration_s": 0.01, "journal_bytes": 9}),
        )  # fmt: skip
    first = {"Trainer.predictions": 10 * MiB, "cache": MiB}
    run.rows(*snapshot(10, 1, first))
    run.rows(*snapshot(10, 2, {"Trainer.predictions": 60 * MiB, "cache": MiB}, first))
    return run
