"""What a tool says of one run, in the only form that is scored."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

# What a tool may claim. What it does not claim is "not offered", and counts nowhere.
VERDICT, KIND, HOLDER, LINE = "verdict", "kind", "holder", "line"
CLAIMS = (VERDICT, KIND, HOLDER, LINE)


class Answer(NamedTuple):
    """A tool's answer, likeliest first.

    ``leaking``: does it say that memory keeps growing (None: it cannot tell). ``kinds``: in leakscope's words.
    ``holders``: names of variables or attributes, as the tool writes them. ``lines``: (file, line) in the user's own
    sources. ``confidence``: 0 to 1, of the first; ``grounds``: how sure each of its grounds alone
    makes, where they are told. ``alarmed``: it accuses something, whatever the verdict.
    """

    leaking: bool | None = None
    kinds: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    confidence: float | None = None
    alarmed: bool = False
    grounds: tuple[float, ...] = ()

    @staticmethod
    def of(row: dict[str, Any]) -> Answer:
        """From JSON, which knows no tuples."""
        lines = tuple((str(file), int(line)) for file, line in row.get("lines", ()))
        more = {name: tuple(row.get(name, ())) for name in ("kinds", "holders")}
        return Answer(**{**row, **more, "lines": lines})


def text_of(place: tuple[str, int], program: Path) -> str | None:
    """The text of a line of the program's own folder (the path may be of a copy); of a snapshot ``file:line``."""
    file, number = place
    if program.suffix != ".py":
        return f"{Path(file).name}:{number}"
    folder, name = ("", "", *Path(file).parts)[-2:]
    if folder != program.parent.name or not program.with_name(name).is_file():
        return None
    lines = program.with_name(name).read_text().splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else None


def function_of(place: tuple[str, int], program: Path) -> str | None:
    """``file:function`` round a line of the program's own; None outside of functions and of its folder."""
    file, number = place
    if program.suffix != ".py" or text_of(place, program) is None:
        return None
    own = program.with_name(Path(file).name)
    around = [
        node
        for node in ast.walk(ast.parse(own.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and _first(node) <= number <= (node.end_lineno or 0)
    ]
    return f"{own.name}:{max(around, key=_first).name}" if around else None


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def place_of(line_text: str, program: Path) -> tuple[str, int] | None:
    """Where a line that truth.json names stands."""
    for own in sorted(program.parent.glob("*.py")):
        if own.name in ("leaky.py", "clean.py") and own.name != program.name:
            continue
        for number, text in enumerate(own.read_text().splitlines(), start=1):
            if text.strip() == line_text:
                return str(own), number
    return None
