"""guppy3, as its documentation finds leaks: a reference point, then the new objects by where they are referred from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from leakbench.answer import HOLDER, Answer
from leakbench.inside import left_in, running

OFFERS = frozenset({HOLDER})
REQUIRES = ("guppy",)
HOW = "`hpy().setref()` at 0.4 of the run, at 0.75 the largest sets of new objects, `byvia` and `shpaths`"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return running(__name__, program, seconds, folder)


def start() -> None:
    pass


def look(earlier: Any, program: Path) -> Any:
    from guppy import hpy  # type: ignore[import-untyped]

    if earlier is None:
        heapy = hpy()
        heapy.setref()
        return heapy
    new = earlier.heap()
    names: list[str] = []
    for row in range(min(3, len(new))):  # the three largest types of new objects
        names += _names_in(f"{new[row].byvia}") + _names_in(f"{new[row].byid[0].shpaths}")
    return {"holders": list(dict.fromkeys(names))[:10]}


def _names_in(told: str) -> list[str]:
    """Attributes and keys in what guppy3 prints: ``.history``, ``['history']``; frames are its way there."""
    names = [attribute or key for attribute, key in re.findall(r"\.(\w+)|\['(\w+)'\]", told[:4000])]
    return [name for name in names if not name.startswith(("f_", "__"))]


def answer(folder: Path, program: Path) -> Answer:
    return Answer.of(left_in(folder))
