"""One report that has something of everything, and one that has nothing."""

from __future__ import annotations

import math

from leakscope import analyzers
from leakscope.findings import (
    Band,
    BudgetRow,
    DeviceMemory,
    Evidence,
    Excerpt,
    Finding,
    GpuLine,
    HeapHolder,
    HeapTake,
    HeapView,
    Lap,
    Laps,
    LedgerRow,
    Moment,
    Outlook,
    RecordingFacts,
    Report,
    RuledOut,
    Series,
    Skipped,
    Subject,
    Timeline,
    Verdict,
)

MiB = 1024**2
GiB = 1024 * MiB


def lap(number: int) -> Lap:
    """One epoch of thirty seconds, 20 MiB above the last."""
    level = (700 + 20 * number) * MiB
    held = [level + round(abs(math.sin(i)) * 100) * MiB for i in range(30)]
    name = f"train {number}, from step {100 * number}"
    return Lap(name, 30.0 * number, 30.0 * number + 30, min(held), max(held), [float(i) for i in range(30)], held)


RETAINED = Finding(
    kind="retained-objects",
    means=analyzers.kinds()["retained-objects"],
    title="Trainer.history keeps every loss tensor",
    severity="critical",
    confidence=0.97,
    bytes=600 * MiB,
    bytes_per_hour=120 * 1024.0 * MiB,
    bytes_per_step=131072.0,
    subject=Subject(
        pid=4242,
        process="train.py",
        role="trainer",
        holder="Trainer.history (list)",
        variable="history",
        path="main() trainer.history[*]",
        type="torch.Tensor float32",
        file="train.py",
        line=88,
        function="Trainer.step",
    ),
    evidence=[Evidence("the list grew from 120 to 5,000 members", {"length": 5000})],
    doubts=["sizes are estimated from a sample of the members"],
    remedy=["store loss.item(): frees about 600 MiB"],
    series=[Series("length", [1.0, 2.0], [120.0, 5000.0], "s", "objects")],
)
DUPLICATE = Finding(
    kind="duplicate-model",
    title="The model's weights live twice",
    severity="note",
    confidence=0.8,
    bytes=200 * MiB,
    subject=Subject(process="train.py", pid=4242),
    wasted=True,
)
FULL = Report(
    recording=RecordingFacts(
        path="run.parquet",
        command=["python", "train.py"],
        started_at="2026-11-21T10:00:00Z",
        duration_s=21.4,
        ended="exit",
        exit_code=0,
        signal=None,
        process_count=3,
        agent_count=1,
        complete=True,
        notes=["output was lost after 3 s"],
        overhead={"recorder_cpu_fraction": 0.006, "take_fraction": 0.004, "recorder_rss_bytes": 12_000_000},
    ),
    verdict=Verdict(
        leaking=True,
        killed=False,
        headline="Memory leaks: Trainer.history keeps every loss tensor.",
        growth_bytes=642 * MiB,
        growth_bytes_per_hour=1e11,
        growth_bytes_per_step=131072.0,
        wasted_bytes=200 * MiB,
        limit="cgroup",
        seconds_to_limit=720.0,
    ),
    ledger=[
        LedgerRow("tensors", "train.py[4242]", 10 * MiB, 610 * MiB, 600 * MiB, estimated=True),
        LedgerRow("native", "train.py[4242]", 100 * MiB, 142 * MiB, 42 * MiB, estimated=True),
        LedgerRow("mapped-files", "train.py[4242]", 90 * MiB, 90 * MiB, 0),
    ],
    findings=[RETAINED, DUPLICATE],
    ruled_out=[RuledOut("cyclic-garbage", "calling gc.collect() will not help", {"gc_collections": 14})],
    skipped=[Skipped("gpu-fragmentation", "no GPU in this recording")],
    tensor_budget=[
        BudgetRow("train.py[4242]", "cpu", "end", "model", 400 * MiB),
        BudgetRow("train.py[4242]", "cpu", "end", "user-held", 600 * MiB),
        BudgetRow("train.py[4242]", "cpu", "peak", "model", 400 * MiB),
        BudgetRow("train.py[4242]", "cpu", "peak", "activations", 900 * MiB),
    ],
    gpu_lines=[
        GpuLine(
            "rank 0", "cuda:0", "activations", "/job/model.py:31", "/job/model.py", 31, "forward", 24, 900 * MiB, 0
        ),
        GpuLine("rank 0", "cuda:0", "before-recording", "no stack", None, None, None, 9, 400 * MiB, 400 * MiB),
    ],
    timeline=Timeline(
        time_s=[0.0, 10.0, 20.0],
        total_bytes=[200 * MiB, 500 * MiB, 842 * MiB],
        accounts=[
            Band("tensors", [10 * MiB, 300 * MiB, 610 * MiB], estimated=True),
            Band("native", [190 * MiB, 200 * MiB, 232 * MiB]),
        ],
        processes=[Band("train.py[4242]", [200 * MiB, 500 * MiB, 842 * MiB])],
        step=[None, 2400, 5000],
        moments=[
            Moment("phase", 10.0, "eval begins at step 2,400", "eval", 11.0),
            Moment("take", 12.0, "snapshot 1 of train.py[4242] (schedule, 80 ms)"),
            Moment("death", 20.4, "worker[4250] was ended by SIGKILL"),
        ],
        left_out={"phase": 7},
        outlook=Outlook(4.0, 20.0, 6.0, 300 * MiB, 840 * MiB, "cgroup", 1240 * MiB, 32.0),
    ),
    laps=Laps("train and eval", "s", [lap(n) for n in range(1, 13)]),
    devices=[
        DeviceMemory(
            "cuda:0 in train.py[4242]",
            [0.0, 10.0, 20.0],
            [10 * GiB, 30 * GiB, 60 * GiB],
            [20 * GiB, 40 * GiB, 78 * GiB],
            limit_bytes=80 * GiB,
            failures=[Moment("death", 20.0, "cuda:0 had no room for 4.0 GiB at train.py:31")],
        )
    ],
    heap=[
        HeapView(
            "train.py[4242]",
            [HeapTake(1, 5.0, 1200, "schedule", False), HeapTake(2, 18.0, 4500, "schedule", True)],
            [
                HeapHolder("main() trainer", None, "train.Trainer", [50 * MiB, 600 * MiB], [1, 1]),
                HeapHolder("main() config", None, "dict", [70 * MiB, 70 * MiB], [1, 1]),
                HeapHolder("main() trainer.history", 0, "list", [20 * MiB, 570 * MiB], [1, 1]),
                HeapHolder("main() trainer.history[*]", 2, "torch.Tensor", [20 * MiB, 569 * MiB], [120, 5000]),
            ],
            left_out_count=31,
            accounts=[
                Band("tensors", [60 * MiB, 600 * MiB], estimated=True),
                Band("python-objects", [70 * MiB, 80 * MiB], estimated=True),
                Band("native", [190 * MiB, 120 * MiB]),
            ],
        )
    ],
    excerpts=[
        Excerpt("train.py", 88, 87, ["    for batch in data:", "        self.history.append(loss)", "    done()"])
    ],
)
EMPTY = Report(
    recording=RecordingFacts("run.parquet", [], "", 0.0, "lost", None, None, 0, 0, False),
    verdict=Verdict(None, False, "Cannot tell whether memory leaks: no memory samples.", 0),
)
