"""Fil, as its documentation says: ``fil-profile run``; what was held at the peak, by the program's innermost line."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from leakbench.answer import LINE, Answer

OFFERS = frozenset({LINE})  # who held memory at the peak; whether that grows it does not say
REQUIRES = ("filprofiler",)
HOW = "`fil-profile run`; the stacks of its peak by size, at the innermost frame of the program's own"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return [sys.executable, "-m", "filprofiler", "--no-browser", "-o", str(folder), "run", str(program), f"{seconds:g}"]


def answer(folder: Path, program: Path) -> Answer:
    sizes: Counter[tuple[str, int]] = Counter()
    for file in folder.glob("**/peak-memory.prof"):
        for row in file.read_text().splitlines():
            stack, _, size = row.rpartition(" ")
            own = re.findall(rf"([^;]*\b{re.escape(program.parent.name)}/[^;/]+\.py):(\d+) ", stack)
            if own:
                sizes[own[-1][0], int(own[-1][1])] += int(size)
    return Answer(lines=tuple(place for place, _ in sizes.most_common(10)))
