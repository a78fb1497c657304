"""``python -m tests.bench.fleet``: what an index, a query and a report of a fleet cost, as curves (`make bench-fleet`).

Recordings are synthetic (tests.fleet.synthetic) and lie below ``--folder``, which is made once and kept until
``--clean``. Each figure is of a process of its own, so that its most memory is its own too. A whole fleet day of
samples is 400 recordings under 3,412 names: hard links, as 9 GB of distinct bytes would measure the disk. CPU is of all
processes that took part, and memory of the largest of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.forkserver import _forkserver
from pathlib import Path
from typing import Any

from leakscope.fleet import demo
from tests.fleet import synthetic
from tests.fleet.synthetic import faults, plan

RESULTS = Path(__file__).with_name("fleet.json")
SIZES = (400, 4_000, 40_960)  # recordings
FILES, PROCESSES, SAMPLES = 400, 10, 10_375  # 41.5 million rows
DAY_FILES = 3_412  # 354 million
SEED = 7


def growth_by_duckdb(index: Path) -> int:
    """Slope and peak of each process; how many processes."""
    from leakscope.fleet.asking import Asked

    with Asked(index, threads=os.cpu_count()) as asked:
        frame = asked.frame("SELECT count(*) AS n, sum(samples) AS rows, max(peak_bytes) AS peak FROM process_growth")
    return int(frame["n"][0])


# Engine -> function of an index. Engines beside DuckDB join here.
ENGINES: dict[str, Callable[[Path], int]] = {"duckdb": growth_by_duckdb}


def measured(part: str, folder: str, size: str) -> None:
    """In a process of its own: do one thing and print its figures as JSON."""
    base, count = Path(folder), int(size)
    before, cpu = time.perf_counter(), time.process_time()
    if part == "index":
        from leakscope.fleet.index import index

        output = base / f"index-{count}.parquet"
        output.unlink(missing_ok=True)
        done = index([str(base / f"small-{count}")], output)
        answer = done.total
    elif part == "again":
        from leakscope.fleet.index import index

        answer = index([str(base / f"small-{count}")], base / f"index-{count}.parquet").total
    elif part == "report":
        from leakscope.fleet.index import read_index
        from leakscope.fleet.rendering import render
        from leakscope.fleet.report import report_of

        answer = len(render(report_of(read_index(base / f"index-{count}.parquet")), "html"))
    else:
        answer = ENGINES[part](base / f"samples-{count}.parquet")
    wall, used = time.perf_counter() - before, time.process_time() - cpu
    _forkserver._stop()  # or nobody has counted what its workers used
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    used += others.ru_utime + others.ru_stime
    most = max(own.ru_maxrss, others.ru_maxrss) * 1024
    print(json.dumps({"answer": answer, "wall_s": wall, "cpu_s": used, "memory_bytes": most}))


def run(part: str, folder: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.fleet", "--measure", part, str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"part": part, "count": count, **json.loads(done.stdout.splitlines()[-1])}


def small(folder: Path, count: int) -> None:
    """So many recordings: each has a footer of its own, and the few samples of one that was written."""
    target = folder / f"small-{count}"
    if (target / "done").exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    runs: list[plan.Run] = []
    for seed in itertools.count(SEED):
        if len(runs) >= count:
            break
        fleet = plan.healthy(max(4, min(512, (count - len(runs)) // 30)), 8, seed, 24.0)
        faults.planted(fleet, seed, list(faults.STANDARD))
        runs += [replace(run, path=f"fleet-{seed}/{run.path}") for run in fleet.runs if run.fate in ("final", "lost")]
    first = replace(runs[0], path="first.parquet")
    demo.write_one(first, target, 10.0, 2, SEED, most_samples=4)
    whole = (target / first.path).read_bytes()
    (target / first.path).unlink()
    for run in runs[:count]:
        path = target / run.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(with_footer(whole, synthetic.footer_of(run, interval_s=10.0, processes=2, seed=SEED) or {}))
    (target / "done").touch()


def with_footer(whole: bytes, said: dict[str, Any]) -> bytes:
    """A recording with other words of leakscope's in its footer: a hundred times as fast as to write it anew."""
    size = int.from_bytes(whole[-8:-4], "little")
    body, old = whole[: -8 - size], whole[-8 - size : -8]
    mark = b"\x18\x09leakscope\x18"
    start = end = old.rindex(mark) + len(mark)
    length = shift = 0
    while True:  # a varint, as thrift has it
        byte, end = old[end], end + 1
        length, shift = length | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            break
    text = json.dumps({**json.loads(old[end : end + length]), **said}).encode()
    left, prefix = len(text), bytearray()
    while left >= 0x80:
        prefix.append(left & 0x7F | 0x80)
        left >>= 7
    new = old[:start] + bytes([*prefix, left]) + text + old[end + length :]
    return body + new + len(new).to_bytes(4, "little") + whole[-4:]


def samples(folder: Path) -> Path:
    """400 recordings of 10 processes and 10,375 samples each."""
    target = folder / "samples"
    target.mkdir(parents=True, exist_ok=True)
    if not (target / "done").exists():
        node = plan.Node("gpu-0000", "550.54.15", "NVIDIA H100 80GB HBM3", 96 << 30)
        runs = [
            plan.Run(f"rank-{rank:05d}.parquet", ["torchrun", "train.py"], node, plan.START_UNIX_S, SAMPLES * 10.0,
                     (12 << 30) * (1 + rank % 7 / 100), 60 << 30, {"job": "day", "attempt": 1, "rank": rank},
                     growth_bytes_per_hour=(1 << 28) * (rank % 50 == 0))
            for rank in range(FILES)
        ]  # fmt: skip
        one = partial(demo.write_one, folder=target, interval_s=10.0, processes=PROCESSES, seed=SEED)
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(one, runs, chunksize=4))
        (target / "done").touch()
    return target


def index_of_samples(folder: Path, count: int) -> None:
    """An index of so many names of these recordings."""
    from leakscope.fleet.index import index

    source, output = samples(folder), folder / f"samples-{count}.parquet"
    named = folder / f"named-{count}"
    if not named.exists():
        named.mkdir()
        for number in range(count):
            os.link(source / f"rank-{number % FILES:05d}.parquet", named / f"rank-{number:05d}.parquet")
    output.unlink(missing_ok=True)
    index([str(named)], output)


def measure(folder: Path, engine: str, parts: list[str]) -> Iterator[dict[str, Any]]:
    if "index" in parts:
        for count in SIZES:
            small(folder, count)
            for part in ("index", "again", "report"):
                yield run(part, folder, count)
    if "query" in parts:
        for count in (100, 200, FILES, DAY_FILES):
            index_of_samples(folder, count)
            best = min(
                (run(engine, folder, count) for _ in range(3 if count <= FILES else 1)), key=lambda one: one["wall_s"]
            )
            size = sum(f.stat().st_size for f in (folder / f"named-{count}").iterdir())
            yield {**best, "rows": count * PROCESSES * SAMPLES, "bytes": size}


def as_markdown(results: dict[str, Any]) -> str:
    """The table of docs/reference/fleet.md."""
    names = {"index": "index, first time", "again": "index again, nothing new", "report": "report as a page"}
    lines = ["| what | of | wall | CPU | most memory |", "|---|---|---|---|---|"]
    for one in results["figures"]:
        of = f"{one['count']:,} recordings"
        if "rows" in one:
            of = f"{one['rows'] / 1e6:,.1f} M rows, {one['count']:,} files, {one['bytes'] / 1e9:.2f} GB"
        what = names.get(one["part"], f"slope and peak of each process, {one['part']}")
        most = f"{one['memory_bytes'] / 2**20:,.0f} MiB"
        lines.append(f"| {what} | {of} | {one['wall_s']:.2f} s | {one['cpu_s']:.2f} s | {most} |")
    return "\n".join([*lines, "", f"{results['machine']}, {results['date']}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "leakscope-bench-fleet")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="duckdb", help="who adds up the samples")
    parser.add_argument("--only", choices=("index", "query"), action="append", help="this part; repeatable")
    parser.add_argument("--clean", action="store_true", help="remove the recordings afterwards")
    parser.add_argument("--measure", nargs=3, metavar=("PART", "FOLDER", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measured(*options.measure)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    figures = []
    try:
        for one in measure(options.folder, options.engine, options.only or ["index", "query"]):
            print(json.dumps(one), file=sys.stderr, flush=True)
            figures.append(one)
    finally:
        if options.clean:
            shutil.rmtree(options.folder)
    # Beside other work the wall says more of that than of this: then CPU divided by cores is what to expect.
    load = f", load {os.getloadavg()[1]:.0f} (5 minutes)"
    machine = f"{os.cpu_count()} cores{load}, Python {platform.python_version()}"
    results = {"date": time.strftime("%Y-%m-%d"), "machine": machine, "figures": figures}
    print(as_markdown(results))
    if options.only is None and options.engine == "duckdb":
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
