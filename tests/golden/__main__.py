"""``python -m tests.golden`` (``make golden``): golden recordings made anew, judged, compared; thresholds tried.

Without an option the programs are recorded, trimmed and judged, what differs from what was expected is shown, and what
is expected is written anew: look through the differences before you commit them.
"""

from __future__ import annotations

import argparse
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore

from tests.end_to_end.programs import Program

from . import MOST_BYTES, RECORDINGS, expected, golden_programs, judge, recording_of, told_wrong
from .compare import compare
from .noticed import notice
from .record import NotRecorded, absent, record
from .sweep import renew as renew_numbers
from .sweep import sweep

SECONDS = 14.0
LONGER_SECONDS = 20.0  # where the first recording is misjudged


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long each runs (default {SECONDS:g})")
    parser.add_argument("--at-once", type=int, default=2, help="how many run at once (default 2)")
    parser.add_argument("--missing", action="store_true", help="record only what has no golden recording yet")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--judge", action="store_true", help="record nothing: write anew what is expected")
    modes.add_argument("--compare", metavar="REVISION", help="whole reports, by the code of a git revision and by this")
    modes.add_argument("--sweep", metavar="FILE", nargs="?", const="", help="try other thresholds (of files named so)")
    modes.add_argument("--numbers", action="store_true", help="write anew which hand-set numbers there are; try none")
    modes.add_argument("--noticed", metavar="PATH", nargs="*", help="which thresholds the unit tests of a path notice")
    parser.add_argument("--minutes", type=float, help="with --sweep: stop after so long, and go on the next time")
    options = parser.parse_args()

    if options.numbers:
        renew_numbers()
        return
    if options.noticed is not None:
        raise SystemExit(notice(options.noticed))
    chosen = [p for p in golden_programs() if not options.only or any(part in p.name for part in options.only)]
    if not chosen:
        parser.error(f"no program's name contains {' or '.join(options.only)}")
    if options.compare:
        raise SystemExit(compare(options.compare, chosen))
    if options.sweep is not None:
        sweep(chosen, options.sweep, options.minutes, options.at_once)
        return
    if options.missing:
        chosen = [program for program in chosen if not recording_of(program).exists()]
    renew(chosen, None if options.judge else options.seconds, options.at_once)
    _say_size()


def renew(programs: list[Program], seconds: float | None, at_once: int) -> None:
    """Record (``seconds`` None: do not) and judge the programs, and write what is expected of them."""
    turns = Semaphore(at_once)  # so many run while others are judged
    with ThreadPoolExecutor(at_once + 1) as pool:
        try:
            for lines in pool.map(lambda program: _renewed(program, seconds, turns), programs):
                print("\n  ".join(lines), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)


def _renewed(program: Program, seconds: float | None, turns: Semaphore) -> list[str]:
    """What there is to say: the first line by itself, then what differs from what was expected."""
    if without := absent(program):
        return [f"skip  {program.name}: {without} not installed"]
    try:
        seconds = None if seconds is None else max(seconds, program.seconds)
        report = judge(recording_of(program)) if seconds is None else record(program, seconds, turns)
        if seconds is not None and told_wrong(program, report):
            report = record(program, max(seconds, LONGER_SECONDS), turns)
    except (NotRecorded, FileNotFoundError, subprocess.TimeoutExpired) as error:
        return [f"FAIL  {program.name}: {error}"]
    now, before = expected.expectation(report), expected.read(program)
    differing = [] if before is None else expected.differences(before, now)
    if before is None or differing:  # what moved within the tolerance is not worth a line in a commit
        same = [
            part for part in now if before is not None and not expected.differences(before.get(part), now[part], part)
        ]
        expected.write(program, {**now, **{part: before[part] for part in same if before is not None}})
    wrong = told_wrong(program, report)
    return [f"MISS  {program.name}: {wrong}" if wrong else f"ok    {program.name}", *differing]


def _say_size() -> None:
    sizes = [path.stat().st_size for path in Path(RECORDINGS).glob("*.parquet")]
    print(f"{len(sizes)} recordings of {sum(sizes) / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
