"""``python -m tests.bench [--only PART] [--seconds N]``: measure, print, and after a whole run renew what shows it.

Default settings, takes and the answer included. A whole run is all parts but `heap`, and takes less than 25 minutes.
After each part it writes results.json beside this file, in the end bench.svg in docs/development; `make docs` then puts
the table into costs.md there. What failed stands among what was skipped. The parts `heap` and `sampling` have files of
their own, which `--only heap` and `--only sampling` renew; their tables: heap-graph.md and costs.md.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from . import heap, jobs, picture, recorders, recordings, sampling, service, takes
from .figures import RESULTS, Figure, Results, as_text, number
from .runs import ROOT

PARTS = ("jobs", "recorder", "recordings", "takes", "heap", "sampling", "service")
FAILED = "the rest of"
# Measured with the others, and shown on pages of their own.
APART = {heap.PER: heap.RESULTS, sampling.PER: sampling.RESULTS}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--seconds", type=float, default=60.0, help="bare length of a job (default 60)")
    parser.add_argument("--repeats", type=int, default=2, help="pairs of runs, bare and recorded (default 2)")
    parser.add_argument("--output", type=Path, help="where to write the results as JSON (default: after a whole run)")
    options = parser.parse_args()
    # As an installed package is: otherwise each process of a job compiles what was edited since.
    compileall.compile_dir(str(ROOT / "leakscope"), quiet=1)
    whole = [part for part in PARTS if part != "heap"]  # which has a page of its own
    output = options.output or (None if options.only else RESULTS)
    for results in measure(options.only or whole, options.seconds, options.repeats):
        kept = results if options.output is not None else _kept_apart(results)
        if output is not None:
            kept.save(output)
    print(as_text(results))
    if output == RESULTS:
        picture.draw(kept)
    failed = [reason for reason in results.skipped if reason.startswith(FAILED)]
    sys.exit("\n".join(failed) if failed else 0)


def _kept_apart(results: Results) -> Results:
    """Without the figures that pages of their own show."""
    for per, path in APART.items():
        figures = [figure for figure in results.figures if figure.per == per]
        if figures:
            results._replace(figures=figures, skipped=()).save(path)
    return results._replace(figures=[figure for figure in results.figures if figure.per not in APART])


def measure(parts: list[str] | tuple[str, ...], seconds: float, repeats: int) -> Iterator[Results]:
    """What is known after each part."""
    figures: list[Figure] = []
    skipped: list[str] = []
    before = _processor_ticks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = {
            "jobs": lambda: jobs.measure(folder, seconds, repeats, skipped),
            "recorder": lambda: recorders.measure(folder, seconds / 5),
            "recordings": lambda: recordings.measure(folder),
            "takes": lambda: takes.measure(folder, skipped),
            "heap": lambda: heap.measure(skipped),
            "sampling": lambda: sampling.measure(skipped),
            "service": lambda: service.measure(folder),
        }
        for part in PARTS:
            if part in parts:
                began_s = time.monotonic()
                print(f"== {part}", file=sys.stderr)
                try:
                    for figure in steps[part]():
                        figures.append(figure)
                        print(f"{figure.what}: {number(figure)} {figure.unit}", file=sys.stderr, flush=True)
                except (Exception, SystemExit) as error:  # what was measured is not lost for it
                    traceback.print_exc()
                    skipped.append(f"{FAILED} {part} ({str(error).splitlines()[-1] if str(error) else repr(error)})")
                print(f"== {part} took {time.monotonic() - began_s:.0f} s", file=sys.stderr)
                total, stolen = (after - earlier for after, earlier in zip(_processor_ticks(), before))
                machine = _machine(stolen / max(total, 1))
                yield Results(time.strftime("%Y-%m-%d"), machine, list(figures), list(skipped))


def _processor_ticks() -> tuple[int, int]:
    """Of all processors since the start: in which there was work, and of them those that the host gave to others."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + irq + softirq + steal, steal


def _machine(stolen: float) -> str:
    """``stolen``: a virtual machine waits while others of its host run, and whatever is timed then waits with it."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    state = f"load {load:.1f} at the end, its host took {stolen:.0%} of its time for others"
    return f"{cores} cores of {model}, {gib:.0f} GiB, Python {platform.python_version()}, {state}"


if __name__ == "__main__":
    main()
