"""``python -m tests.leakbench`` (``make leakbench``): record every program of fixtures/ and judge its report.

Records as a user would, under default settings. A whole run renews ``results.json``, from which the table of
docs/development/leakbench.md is made; a run of some programs only prints. Recordings stay, to look at misses, and
``--keep`` judges them anew without recording: after a change of an analyzer, or to go on where a run was stopped.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.end_to_end.programs import LONGEST_S, Program, record_command, report
from tests.leakbench import UNSEEN_S, all_programs, unseen_programs
from tests.leakbench.score import Score, score
from tests.leakbench.table import RESULTS, UNSEEN, markdown, write

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.leakbench", description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--unseen", action="store_true", help="those of fixtures/unseen, which are only run")
    parser.add_argument("--seconds", type=float, help=f"how long each runs (default 14; {UNSEEN_S:g} of the unseen)")
    parser.add_argument("--at-once", type=int, default=2, help="how many run at once (default 2)")
    parser.add_argument("--folder", type=Path, default=ROOT / "leakbench-output", help="where the recordings go")
    parser.add_argument("--keep", action="store_true", help="do not record again what is recorded in the folder")
    options = parser.parse_args()

    programs = unseen_programs() if options.unseen else all_programs()
    options.seconds = options.seconds or (UNSEEN_S if options.unseen else 14.0)
    chosen = [p for p in programs if not options.only or any(part in p.name for part in options.only)]
    if not chosen:
        parser.error(f"no program's name contains {' or '.join(options.only)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    scores: list[Score] = []
    with ThreadPoolExecutor(options.at_once) as pool:
        try:
            for scored in pool.map(lambda program: judge(program, options), chosen):
                print(line(scored), flush=True)
                scores.append(scored)
        except KeyboardInterrupt:  # what is recorded by now is worth a table
            pool.shutdown(wait=False, cancel_futures=True)
            scores += [score(program, None, not_run="the run was stopped before") for program in chosen[len(scores) :]]
    about = {**circumstances(), "seconds": options.seconds, "at_once": options.at_once}
    print("\n" + markdown(scores, about))
    if not options.only:
        write(scores, about, UNSEEN if options.unseen else RESULTS)


def judge(program: Program, options: argparse.Namespace) -> Score:
    """Record and report one program."""
    absent = [package for package in program.requires if importlib.util.find_spec(package) is None]
    if absent:
        return score(program, None, not_run=f"{' and '.join(absent)} not installed")
    output = options.folder / f"{program.name}.parquet"
    try:
        if not (options.keep and output.exists()):
            record(program, output, options.seconds)
        return score(program, report(output))
    except (AssertionError, subprocess.TimeoutExpired) as failure:
        return score(program, None, not_run=f"failed: {str(failure).strip().splitlines()[-1]}")


def record(program: Program, output: Path, seconds: float) -> None:
    """**Errors** AssertionError if the program does not end as it should."""
    partial = output.with_name(f"partial-{output.name}")  # a run that is stopped leaves nothing for --keep to take
    partial.unlink(missing_ok=True)
    command = record_command(partial, sys.executable, program.path, seconds)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S + seconds)
    said = done.stderr.strip() or "it said nothing"
    assert done.returncode == program.exit_status, f"{said} (status {done.returncode}, not {program.exit_status})"
    partial.replace(output)


def line(scored: Score) -> str:
    mark = "skip" if scored.not_run else "ok  " if scored.right else "MISS"
    wanted = "" if scored.right else f" (expected: {scored.expected})"
    return f"{mark} {scored.duration_s or 0:5.1f} s  {scored.program}: {scored.said}{wanted}"


def circumstances() -> dict[str, Any]:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "absent"
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB",
        "python": platform.python_version(),
        "torch": torch,
    }


if __name__ == "__main__":
    main()
