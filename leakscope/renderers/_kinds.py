"""What each kind of finding means, out of the docstrings of the analyzers, which are read and not imported."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_ANALYZERS = Path(__file__).parents[1] / "analyzers"
_HEADINGS = ("Looks for", "Why", "Decides by", "Mistaken when", "Do")
_HEADING = re.compile(rf"^({'|'.join(_HEADINGS)}):\s+", re.MULTILINE)


class Kind(NamedTuple):
    """A paragraph for each heading of an analyzer's docstring; ``remarks`` is what stands below them."""

    name: str
    summary: str
    looks_for: str
    why: str
    decides_by: str
    mistaken_when: str
    do: str
    remarks: str


@lru_cache(maxsize=1)
def kinds() -> dict[str, Kind]:
    """Every kind that has an analyzer, by name."""
    files = sorted(_ANALYZERS.glob("[a-z]*.py"))
    return {kind.name: kind for kind in (_read(file) for file in files)}


def _read(file: Path) -> Kind:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraphs = docstring.split("\n\n")
    pieces = _HEADING.split("".join(paragraphs[1:2]))
    said = dict(zip(pieces[1::2], map(_one_line, pieces[2::2])))
    looks_for, why, decides_by, mistaken_when, do = (said.get(heading, "") for heading in _HEADINGS)
    name, summary, remarks = file.stem.replace("_", "-"), _one_line(paragraphs[0]), _one_line(" ".join(paragraphs[2:]))
    return Kind(name, summary, looks_for, why, decides_by, mistaken_when, do, remarks)


def _one_line(paragraph: str) -> str:
    return " ".join(paragraph.replace("``", "`").split())
