"""What finishing and reporting a recording costs, by its length: 20 processes at 1 Hz, made up."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from leakscope import schema
from leakscope.agent.journal import Journal

from .figures import Figure
from .runs import PYTHON, spent_by

HOURS = (1, 6, 24)
PROCESSES = 20
_PAGE = 4096
# As the recorder has it done.
_FINALIZE = """
import os, sys
from leakscope.recorder import finalizing
sys.exit(os.waitstatus_to_exitcode(os.waitpid(finalizing.start(sys.argv[1]), 0)[1]))
"""


def measure(folder: Path) -> Iterator[Figure]:
    finished: list[list[Figure]] = [[], [], [], [], [], [], []]
    for hours in HOURS:
        output = folder / "made.parquet"
        rows = write_journal(Path(f"{output}.journal"), hours)
        finalizing = spent_by([PYTHON, "-c", _FINALIZE, str(output)])
        report = spent_by([PYTHON, "-m", "leakscope", "report", str(output), "-f", "json"])
        watch = spent_by([PYTHON, "-m", "leakscope", "watch", "--plain", str(output)])
        size = output.stat().st_size
        day = hours / 24
        values = (
            ("size of a recording", size / 1e6, "MB", 60.0 * day),
            ("size of a row", size / rows, "bytes", 30.0),
            ("finishing the file", finalizing.wall_s, "s", 20.0),
            ("finishing the file: memory", finalizing.peak_rss_bytes / 1e6, "MB", 100.0),
            ("`leakscope report`: CPU time", report.cpu_s, "s", 3.0),
            ("`leakscope report`: memory", report.peak_rss_bytes / 1e6, "MB", 300.0),
            ("`leakscope watch`: memory", watch.peak_rss_bytes / 1e6, "MB", 150.0),
        )
        for figures, (what, value, unit, budget) in zip(finished, values):
            figures.append(Figure(what, value, unit, budget, hours, f"hours of {PROCESSES} processes"))
    for figures in finished:
        yield from figures


def write_journal(folder: Path, hours: float, processes: int = PROCESSES) -> int:
    """A journal of ``hours`` at 1 Hz, flushed every 5 s: walks by whole pages. Returns its rows; 2 s an hour."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps({"format_version": schema.SCHEMA_VERSION, "start_mono_ns": 0}))
    names = [c.name for c in schema.TABLES["process_samples"].columns if c.type == "int"][2:]
    random_ = random.Random(1)
    walks = {pid: [random_.randrange(10**5, 10**6) for _ in names] for pid in range(1000, 1000 + processes)}
    journal = Journal(str(folder), "recorder")
    seconds = round(hours * 3600)
    for second in range(seconds):
        now = second * 10**9 + random_.randrange(10**6)
        for pid, walk in walks.items():
            for i in range(len(walk)):
                if random_.random() < 0.3:
                    walk[i] = max(0, walk[i] + random_.randrange(-20, 25))
            row = {"time_unix_ns": now, "time_mono_ns": now, "time_boot_ns": now, "pid": pid, "start_ticks": pid * 7}
            row.update((name, pages * _PAGE) for name, pages in zip(names, walk))
            row.update(cpu_s=round(second * 0.8, 2), state="S")
            journal.add("process_samples", row)
        if second % 5 == 4:
            journal.flush()
    journal.close()
    return seconds * processes
