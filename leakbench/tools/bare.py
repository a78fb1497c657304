"""No tool at all: what the others' time and memory are held against."""

from __future__ import annotations

import sys
from pathlib import Path

from leakbench.answer import Answer

OFFERS: frozenset[str] = frozenset()
REQUIRES = ()
HOW = "the program alone"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return [sys.executable, str(program), f"{seconds:g}"]


def answer(folder: Path, program: Path) -> Answer:
    return Answer()
