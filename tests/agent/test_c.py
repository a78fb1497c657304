"""The C code as it is written: small functions, and parts that know of each other what their header says."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "leakscope"
MOST_LINES, MOST_BRANCHES = 80, 25

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_FUNCTION = re.compile(r"^(?!typedef|struct \w+ \{|enum)[A-Za-z_][^;{}=]*\)\s*\n\{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_BRANCH = re.compile(r"\b(?:if|for|while|case)\b|&&|\|\||\?")


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, lines, ways through it) of each function, whose braces stand alone at the left."""
    text = _LITERAL.sub('""', _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text))
    for found in _FUNCTION.finditer(text):
        name = re.search(r"(\w+)\s*\(", found[0])
        assert name is not None
        yield name[1], found[0].strip().count("\n") + 1, 1 + len(_BRANCH.findall(found[1]))


def test_no_function_is_too_long_or_has_too_many_ways() -> None:
    seen, wrong = 0, []
    for path in sorted(PACKAGE.rglob("*.[ch]")):
        for name, lines, ways in functions(path.read_text(encoding="utf-8")):
            seen += 1
            if lines > MOST_LINES or ways > MOST_BRANCHES:
                wrong.append(f"{path.relative_to(PACKAGE)}: {name} has {lines} lines and {ways} ways through it")
    assert seen > 500, "the pattern no longer finds functions as they are written"
    assert not wrong


ONE = """
static int one(int a)
{
    /* if (not) */
    for (;;)
        if (a && *"?")
            return a ? 1 : 2;
}
"""


def test_what_is_counted() -> None:
    assert list(functions(ONE)) == [("one", 7, 5)]


@pytest.mark.live
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_each_part_of_the_reader_stands_on_its_header() -> None:
    """Compiled alone it would not find what only another part, included before it, had declared."""
    parts = sorted((PACKAGE / "agent" / "graph" / "reader").glob("*.c"))
    checked = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *map(str, parts)]
    done = subprocess.run(checked, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(parts) > 20
