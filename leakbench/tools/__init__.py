"""The tools that are compared, a file each, found by its file. CONTRIBUTING.md says how to add one.

A file declares::

    OFFERS = frozenset({LINE})           # what it claims at all: of CLAIMS
    REQUIRES = ("memray",)               # packages without which it is not run
    HOW = "memray run --native; ..."     # how it is used, one sentence for the page
    def command(program: Path, seconds: float, folder: Path) -> list[str]: ...
    def answer(folder: Path, program: Path) -> Answer: ...

``command`` runs the program under the tool and leaves what ``answer`` reads in ``folder``. Only it is measured. A tool
for memory snapshots of torch has ``reading`` (the same of an unpacked snapshot), beside ``command`` or in its place.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from leakbench.answer import Answer


class Tool(NamedTuple):
    name: str
    offers: frozenset[str]
    requires: tuple[str, ...]
    how: str
    command: Callable[[Path, float, Path], list[str]] | None
    reading: Callable[[Path, Path], list[str]] | None
    answer: Callable[[Path, Path], Answer]

    @property
    def missing(self) -> list[str]:
        return [package for package in self.requires if importlib.util.find_spec(package) is None]


def tools() -> dict[str, Tool]:
    """All of them by name, ours first and the others by the alphabet."""
    found = {}
    names = sorted(file.name for file in pkgutil.iter_modules(__path__))
    for name in sorted(names, key=lambda name: name != "leakscope"):
        module = importlib.import_module(f"{__name__}.{name}")
        command, reading = getattr(module, "command", None), getattr(module, "reading", None)
        found[name] = Tool(name, module.OFFERS, module.REQUIRES, module.HOW, command, reading, module.answer)
    return found
