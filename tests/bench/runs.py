"""Run a command and say what it took: bare, or under ``leakscope record``."""

from __future__ import annotations

import os
import secrets
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PYTHON = sys.executable
ROOT = Path(__file__).parents[2]
# A process that is started has, until its own program begins, the memory of who started it, and that counts for its
# peak. So a small one stands between. It has no site, and what it starts is not under its clock until it is started.
_LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_RDWR)
began_s = time.perf_counter()
actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""


_MARK = "LEAKSCOPE_BENCH_RUN"  # in the environment of all that belongs to a run


class TookTooLong(SystemExit):
    """A run that was stopped, with all that it had started."""


class Spent(NamedTuple):
    """What one run took. The CPU time is that of all its processes, and hardly depends on what else is running."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int  # of the largest of its processes


def spent_by(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    most_s: float | None = None,
    status: int | None = 0,
    enter: Callable[[], None] | None = None,
) -> Spent:
    """One run of a command that ends with ``status`` (None: somehow). ``enter`` is called in it before it begins.

    **Errors** SystemExit if it ends otherwise; TookTooLong if it takes longer than ``most_s``.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    run = subprocess.Popen(
        [PYTHON, "-S", "-c", _LAUNCHER, *command],
        env={**os.environ, "PYTHONPATH": path, **(environ or {}), _MARK: (mark := secrets.token_hex(8))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=enter,
    )
    try:
        told, complaint = run.communicate(timeout=most_s)
    except subprocess.TimeoutExpired:
        run.kill()
        _kill_all(mark)
        run.communicate()  # ends when nobody has its pipes any more
        raise TookTooLong(f"stopped after {most_s:.0f} s") from None
    if status is not None and run.returncode != status % 256:  # a benchmark of failures measures nothing
        named = " ".join([Path(command[0]).name, *command[1:3]])  # no folder of this machine stands in results
        raise SystemExit("\n".join([f"{named} failed", *filter(None, [complaint.strip()])]))
    wall_s, cpu_s, peak_kib = map(float, told.split())
    return Spent(wall_s, cpu_s, int(peak_kib) * 1024)


def _kill_all(mark: str) -> None:
    """Whoever has it in its environment, in whatever group or session: until nobody is left."""
    wanted = f"{_MARK}={mark}".encode()
    while True:
        found = 0
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found += 1
        if not found:
            return


def recorded(command: Sequence[str], output: Path, *options: str, is_told: bool = False) -> list[str]:
    """``is_told``: with the answer at the end, as a user has it."""
    quiet = [] if is_told else ["-q"]
    return [PYTHON, "-m", "leakscope", "record", *quiet, "-f", "-o", str(output), *options, "--", *command]


def in_pairs(bare: Sequence[str], watched: Sequence[str], repeats: int) -> list[tuple[Spent, Spent]]:
    """Cost of both, one right after the other; every other pair in reverse, so that neither always goes first.

    A machine that gets slower in between slows both: what counts is the median of the pairs' ratios.
    """
    pairs = []
    for repeat in range(repeats):
        if repeat % 2 == 0:
            plain = spent_by(bare)
            pairs.append((plain, spent_by(watched)))
        else:
            later = spent_by(watched)
            pairs.append((spent_by(bare), later))
    return pairs


def median_ratio(pairs: Sequence[tuple[Spent, Spent]], field: str) -> float:
    return statistics.median(getattr(watched, field) / getattr(plain, field) for plain, watched in pairs)
