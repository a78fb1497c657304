"""Strings of the job inside markdown: shown as they are, never read as markup, nobody is pinged, nothing is linked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..words import in_markdown, printable

_BLOCK = re.compile(r"(?:[-+=#]|\d+(?=[.)]))")  # at the start of a line: lists, headings, rules
_BACKTICKS = re.compile("`+")


def text(string: str, most: int = 300) -> str:
    """A sentence, cut after ``most`` characters."""
    string = _clipped(string.strip(), most)
    opening = _BLOCK.match(string)
    number = opening.end() if opening and opening[0].isdigit() else 0
    return string[:number] + ("\\" if opening else "") + in_markdown(string[number:])


def code(string: str, most: int = 300) -> str:
    """A name, path or command to be copied: nothing in it is changed, but it is cut after ``most`` characters."""
    string = _clipped(string, most)
    if not string:
        return ""
    fence = _fence(string, 1)
    padding = " " if string.startswith(("`", " ")) or string.endswith(("`", " ")) else ""
    return f"{fence}{padding}{string}{padding}{fence}"


def block(lines: Iterable[str], language: str = "python") -> str:
    """Lines of code as they are, up to 200 columns of each."""
    shown = [_clipped(line.expandtabs(4), 200) for line in lines]
    fence = _fence("\n".join(shown), 3)
    return "\n".join([f"{fence}{language}", *shown, fence])


def head(titles: Sequence[str]) -> str:
    """The first two lines of a table. Columns whose title begins with a blank are figures."""
    return row(titles) + "\n" + row(["---:" if title.startswith(" ") else "---" for title in titles])


def row(cells: Iterable[str]) -> str:
    """A line of a table; cells are markdown already. Pipes part cells even inside code, unless they are escaped."""
    return "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in cells) + " |"


def folded(summary: str, body: str) -> str:
    """A part that is shown on a click; ``summary`` is our own words."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _clipped(string: str, most: int) -> str:
    string = printable(string[: most + 1])
    return string if len(string) <= most else string[: most - 1] + "…"


def _fence(string: str, least: int) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(string)), default=0)
    return "`" * max(least, longest + 1)
