"""``python -m leakbench``: programs with a known leak, run under every tool that is installed, and what each says.

By default as many of a sample as there is time for in an hour, whatever the machine; ``--all`` takes a night;
``--sealed`` are those by which nothing is fixed, for a release. ``make soak`` runs programs of 20 minutes and
gigabytes. Every run that is finished stays in the folder, so that a bench that was stopped goes on with ``--keep``, and
a miss can be looked at. At the end there are ``results.json`` and ``page.html`` in the folder: every
miss of every tool, ours first.

``make leakbench`` runs leakscope alone, on all programs, and renews the committed figures.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from leakbench import UNSEEN_S, all_programs, is_snapshot, sample, sealed_programs, unseen_programs
from leakbench.score import Score, score, score_of
from leakbench.table import BUSY, PEERS, REPEATED, RESULTS, SEALED, UNSEEN, added, markdown, page, read, write
from leakbench.tools import Tool, tools
from leakbench.tools.leakscope import removed_by_edit
from tests.bench.runs import Spent, spent_by
from tests.end_to_end.cgroups import Cgroup, NoCgroup
from tests.end_to_end.programs import LONGEST_S, Program, report

ROOT = Path(__file__).parents[1]
SAMPLE = 16  # more than a quiet machine has time for in an hour, with every tool


def main() -> None:
    every = tools()
    parser = argparse.ArgumentParser(prog="python -m leakbench", description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--all", action="store_true", help="every program, not a sample in the field's proportions")
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"so many leaky ones of them (default {SAMPLE})")
    parser.add_argument("--minutes", type=float, default=60.0, help="no program of a sample begins later (default 60)")
    parser.add_argument("--unseen", action="store_true", help="those of fixtures/unseen, which are only run")
    parser.add_argument("--sealed", action="store_true", help="those of fixtures/sealed: for a release")
    parser.add_argument("--tools", default=",".join(every), help=f"some of {', '.join(every)} (default all)")
    parser.add_argument("--seconds", type=float, help=f"how long each runs (default 14; {UNSEEN_S:g} of the unseen)")
    parser.add_argument("--at-once", type=int, default=1, help="how many run at once (default 1)")
    parser.add_argument("--times", type=int, default=1, help="how often each runs: do its answers agree? (default 1)")
    parser.add_argument("--load", type=int, default=0, help="so many loops beside it that eat a core each (default 0)")
    parser.add_argument("--folder", type=Path, default=ROOT / "leakbench-output", help="where runs and results go")
    parser.add_argument("--keep", action="store_true", help="do not run again what the folder has")
    parser.add_argument("--prove", action="store_true", help="record again with the edit of the first advice")
    parser.add_argument("--commit", action="store_true", help="renew the figures in the repository (of a whole run)")
    options = parser.parse_args()

    unknown = [name for name in options.tools.split(",") if name not in every]
    if unknown:
        parser.error(f"no tool named {unknown[0]}; there are {', '.join(every)}")
    chosen = [every[name] for name in every if name in options.tools.split(",")]
    ours = [tool.name for tool in chosen] == ["leakscope"]
    options.seconds = options.seconds or (UNSEEN_S if options.unseen else 14.0)
    programs = unseen_programs() if options.unseen else sealed_programs() if options.sealed else all_programs()
    if options.only:
        programs = [p for p in programs if any(part in p.name for part in options.only)]
    is_sample = not (options.only or options.all or options.unseen or options.sealed)
    if is_sample:
        programs = sample(programs, options.sample * 2)
    begins = Begins(options.minutes * 60 if is_sample else float("inf"))
    is_added = options.commit and len(chosen) < len(every) and not (ours or options.unseen or options.sealed)
    if is_added:  # beside those that ran before
        beside = {s.program for s in read(PEERS)[0]}
        programs = [p for p in all_programs() if f"{p.path.parent.name}/{p.path.name}" in beside]
    if not programs:
        parser.error(f"no program's name contains {' or '.join(options.only)}")

    options.folder.mkdir(parents=True, exist_ok=True)
    jobs: list[tuple[Program, Tool, int]] = [
        (program, tool, number)
        for program in programs
        for number in range(1, options.times + 1)
        for tool in chosen
        if (tool.reading if is_snapshot(program) else tool.command)
    ]
    scores: list[Score] = []
    loads: dict[str, list[float]] = {}
    with _busy(options.load), ThreadPoolExecutor(options.at_once) as pool:
        try:
            for scored in pool.map(lambda job: judge(job[0], job[1], job[2], begins, options), jobs):
                if scored is None:
                    continue
                print(line(scored), flush=True)
                scores.append(scored)
                loads.setdefault(scored.tool, []).append(os.getloadavg()[0])
        except KeyboardInterrupt:  # what has run by now is worth a table
            pool.shutdown(wait=False, cancel_futures=True)
            for program, tool, _ in jobs[len(scores) :]:
                scores.append(score_of(program, None, tool.offers, tool.name, "the bench was stopped before"))
        about = {**circumstances(chosen, loads), "seconds": options.seconds, "at_once": options.at_once}
        about |= {"minutes": options.minutes, "not_begun": len(begins.too_late)} if begins.too_late else {}
    print("\n" + markdown(scores, about))
    write(scores, about, options.folder / "results.json")
    (options.folder / "page.html").write_text(page(scores, about), encoding="utf-8")
    print(f"== {options.folder / 'page.html'}")
    if options.commit and not options.only:
        again = ours and options.times > 1
        parts = {UNSEEN: options.unseen, SEALED: options.sealed, BUSY: again and options.load > 0, REPEATED: again}
        parts[RESULTS] = ours
        path = next((path for path, is_it in parts.items() if is_it), PEERS)
        if is_added:
            scores, about = added(scores, about, path)
        write(scores, about, path)


class Begins:
    """Which programs begin within so many seconds; one that has begun is run under every tool."""

    def __init__(self, within_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s, self._until_s = clock_s, clock_s() + within_s
        self._lock = threading.Lock()
        self._begun: set[Path] = set()
        self.too_late: set[Path] = set()

    def in_time(self, program: Program) -> bool:
        with self._lock:
            is_late = self.too_late or self._clock_s() > self._until_s
            if program.path not in self._begun:
                (self.too_late if is_late else self._begun).add(program.path)
            return program.path in self._begun


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Beside so many loops that eat a core each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def judge(program: Program, tool: Tool, number: int, begins: Begins, options: argparse.Namespace) -> Score | None:
    """One program under one tool, for the ``number``-th time; None: it was too late to begin."""
    if not begins.in_time(program):
        return None
    absent = [package for package in program.requires if importlib.util.find_spec(package) is None] or tool.missing
    if absent:
        return score_of(program, None, tool.offers, tool.name, f"{' and '.join(absent)} not installed")
    folder = options.folder / tool.name / program.name / str(number)
    try:
        spent = run(program, tool, options, folder)
        answer = tool.answer(folder, program.path)
    except (AssertionError, NoCgroup, OSError, ValueError, LookupError, SubprocessError, SystemExit) as failure:
        last = (str(failure).strip() or type(failure).__name__).splitlines()[-1]
        return score_of(program, None, tool.offers, tool.name, f"failed: {last}")
    scored = score_of(program, answer, tool.offers, tool.name)
    if tool.name == "leakscope" and program.places:
        scored = scored._replace(advice=score(program, report(folder / "run.parquet")).advice)
        if options.prove:
            scored = scored._replace(removed=removed_by_edit(folder))
    return scored._replace(
        run=number,
        wall_s=round(spent.wall_s, 2),
        cpu_s=round(spent.cpu_s, 2),
        peak_bytes=spent.peak_rss_bytes,
        duration_s=round(spent.wall_s, 3),
    )


def run(program: Program, tool: Tool, options: argparse.Namespace, folder: Path) -> Spent:
    """What the run took; a run that was stopped leaves nothing for ``--keep`` to take. **Errors** SystemExit."""
    ended = folder / "spent.json"
    if options.keep and ended.exists():
        return Spent(*json.loads(ended.read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    most_s = LONGEST_S + options.seconds
    if is_snapshot(program):
        assert tool.reading is not None
        snapshot = folder / "snapshot.pickle"
        snapshot.write_bytes(gzip.decompress(program.path.read_bytes()))
        spent = spent_by(tool.reading(snapshot, folder), most_s=most_s)
    else:
        assert tool.command is not None
        command = tool.command(program.path, max(options.seconds, program.seconds), folder)
        with _limited(program) as enter:
            status = None if enter else program.exit_status  # how a tool ends whose job was killed is its own affair
            spent = spent_by(command, most_s=most_s, status=status, enter=enter)
    ended.write_text(json.dumps(spent))
    return spent


@contextmanager
def _limited(program: Program) -> Iterator[Callable[[], None] | None]:
    """What puts a process into the memory cgroup that a program is to die in. **Errors** NoCgroup: it needs root."""
    if program.limit_bytes is None:
        yield None
        return
    cgroup = Cgroup.made(f"leakbench-{os.getpid()}-{threading.get_ident()}")
    try:
        cgroup.limit(program.limit_bytes)
        yield cgroup.enter
    finally:
        cgroup.remove()


def line(scored: Score) -> str:
    mark = "skip" if scored.not_run else "ok  " if scored.right else "MISS"
    wanted = "" if scored.right else f" (expected: {scored.expected})"
    return f"{mark} {scored.wall_s or 0:5.1f} s  {scored.tool:11} {scored.program}: {scored.said}{wanted}"


def circumstances(chosen: list[Tool], loads: dict[str, list[float]]) -> dict[str, Any]:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = {"torch": "torch"} | {tool.name: tool.requires[0] for tool in chosen if tool.requires}
    versions = {tool: _version_of(package) for tool, package in packages.items()}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB",
        "loads": {name: round(sum(seen) / len(seen), 1) for name, seen in loads.items()},  # as its runs ended
        "python": platform.python_version(),
        "torch": versions.pop("torch"),
        "versions": versions,
        "how": {tool.name: tool.how for tool in chosen},
    }


def _version_of(package: str) -> str:
    distribution = {"guppy": "guppy3", "memory_profiler": "memory-profiler"}.get(package, package)
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    main()
