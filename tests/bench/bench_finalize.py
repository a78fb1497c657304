"""What finalising and reading a day costs: ``python tests/bench/bench_finalize.py [hours] [processes]``.

Writes a synthetic journal (page-quantised walks at 1 Hz, flushed every 5 s), finalises it in a process of its own and
prints seconds, peak RSS and bytes a row beside the goals. The journal takes half a minute to make for 24 hours.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from leakscope import schema
from leakscope.agent.journal import Journal

PAGE = 4096
GOALS = {"seconds": 20.0, "peak_rss_mb": 100.0, "file_mb": 60.0, "bytes_per_row": 30.0}


def write_journal(folder: Path, hours: float, processes: int) -> int:
    """A journal of ``hours`` at 1 Hz; returns its rows."""
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
            row.update((name, pages * PAGE) for name, pages in zip(names, walk))
            row.update(cpu_s=round(second * 0.8, 2), state="S")
            journal.add("process_samples", row)
        if second % 5 == 4:
            journal.flush()
    journal.close()
    return seconds * processes


def measured(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak RSS in MB of one child process."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments])
    _, status, usage = __import__("os").wait4(child.pid, 0)
    child.returncode = status
    if status:
        raise SystemExit(f"{arguments} failed")
    return time.perf_counter() - started, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    hours, processes = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0, int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run.parquet"
        row_count = write_journal(Path(f"{output}.journal"), hours, processes)
        journal_mb = sum(f.stat().st_size for f in Path(f"{output}.journal").iterdir()) / 1e6
        finalising = "import sys; from leakscope.cli import main; sys.exit(main(['finalize', '-q', sys.argv[1]]))"
        seconds, peak_rss_mb = measured(["-c", finalising, str(output)])
        size = output.stat().st_size
        reading = "import sys; from leakscope import open_recording; open_recording(sys.argv[1]).tables.process_samples"
        read_s, read_mb = measured(["-c", reading, str(output)])
    figures = {"seconds": seconds, "peak_rss_mb": peak_rss_mb, "file_mb": size / 1e6, "bytes_per_row": size / row_count}
    print(f"{row_count:,} rows, journal {journal_mb:.1f} MB, {resource.getpagesize()} byte pages")
    for name, value in figures.items():
        print(f"{name:14} {value:8.1f}   goal {GOALS[name]:.0f}")
    print(f"read the table {read_s:8.1f} s, {read_mb:.0f} MB")


if __name__ == "__main__":
    main()
