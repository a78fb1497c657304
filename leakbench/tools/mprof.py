"""memory_profiler's ``mprof``, as its README says: a curve of memory, and its slope."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from leakbench.answer import VERDICT, Answer

OFFERS = frozenset({VERDICT})
REQUIRES = ("memory_profiler",)
HOW = "`mprof run --include-children`, `mprof plot --slope`: growing, if it gains 5 % of its level in the run"
_LEAST_SHARE = 0.05


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    output = folder / "mprofile.dat"
    return [sys.executable, "-m", "mprof", "run", "--include-children", "--interval", "0.2", "--output", str(output),
            sys.executable, str(program), f"{seconds:g}"]  # fmt: skip


def answer(folder: Path, program: Path) -> Answer:
    rows = [line.split() for line in (folder / "mprofile.dat").read_text().splitlines() if line.startswith("MEM ")]
    mib, time_s = np.array([[float(row[1]), float(row[2])] for row in rows]).T
    slope = np.polyfit(time_s - time_s[0], mib, 1)[0]
    leaking = bool(slope * (time_s[-1] - time_s[0]) > _LEAST_SHARE * np.median(mib))
    return Answer(leaking=leaking, alarmed=leaking)
