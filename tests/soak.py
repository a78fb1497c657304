"""``make soak``: programs of the size and length of real ones, leaking and clean, and what is said of them by time.

    python -m tests.soak --minutes 20 --gib 4            # all four, one after the other
    python -m tests.soak --minutes 1 --gib 0.2 steps     # one of them, small

Prints a table: at each look the verdict, and what the first finding names. Status 1 if a clean one is called leaking,
or a leaking one is not, with its holder, from a half of the run after its onset on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = Path(__file__).parents[1] / "fixtures" / "soak" / "training.py"
LEAKSCOPE = (sys.executable, "-m", "leakscope")


class Case(NamedTuple):
    """What a program keeps, the name of its holder, and from which share of the run on."""

    leak: str
    holder: str
    onset: float = 0.0


CASES = (Case("none", ""), Case("steps", "history"), Case("late", "history", 0.5), Case("workers", "decoded"))


class Look(NamedTuple):
    """What a report said after so many minutes."""

    minutes: float
    leaking: bool | None
    named: str

    def is_right(self, case: Case) -> bool:
        if not case.holder:
            return self.leaking is not True
        return self.leaking is True and case.holder in self.named


def looks(case: Case, minutes: float, gib: float, folder: Path) -> Iterator[Look]:
    """Record it, and ask eight times while it runs and once at its end."""
    recording = folder / f"{case.leak}.parquet"
    asked = ("--minutes", str(minutes), "--gib", str(gib), "--leak", case.leak)
    began_s = time.monotonic()
    command = (*LEAKSCOPE, "record", "-q", "-o", str(recording), "--", sys.executable, str(PROGRAM), *asked)
    with subprocess.Popen(command) as job:
        while job.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(minutes * 60 / 8)
                break
            yield _look(recording, began_s)
    yield _look(recording, began_s)


def _look(recording: Path, began_s: float) -> Look:
    minutes = (time.monotonic() - began_s) / 60
    done = subprocess.run((*LEAKSCOPE, "report", str(recording), "-f", "json"), capture_output=True, check=False)
    if done.returncode != 0:
        return Look(minutes, None, f"no report: {done.stderr.decode()[-100:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    subject = (report["findings"] or [{}])[0].get("subject") or {}
    named = f"{subject.get('holder') or '-'} {Path(subject.get('file') or '-').name}:{subject.get('line')}"
    return Look(minutes, report["verdict"]["leaking"], named)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--gib", type=float, default=4.0)
    options.add_argument("leaks", nargs="*", metavar="LEAK", help="none, steps, late, workers; all unless named")
    asked = options.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="leakscope-soak-") as folder:
        for case in (case for case in CASES if not asked.leaks or case.leak in asked.leaks):
            due = 0.0 if not case.holder else asked.minutes * (case.onset + 1) / 2
            for look in looks(case, asked.minutes, asked.gib, Path(folder)):
                right = look.is_right(case)
                wrong += not right and look.minutes >= due
                verdict = {True: "LEAKING", False: "NOT LEAKING", None: "CANNOT TELL"}[look.leaking]
                mark = "" if right else "  (wrong)" if look.minutes >= due else "  (early)"
                print(f"{case.leak:8} {look.minutes:5.1f} min  {verdict:12} {look.named}{mark}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
