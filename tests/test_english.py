"""Words that only their authors use: in what the program says, in its pages, and in the guide. Kinds and columns keep
their names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "leakscope"
BANNED = re.compile(
    r"\b(mend(s|ed|ing)?|tells?|told|telling|beside|anew|at work|parted by|look whether|stands? (at|for|still)"
    r"|carries the history|holders? of yours|do not run out|longer run would|in a run of about|would have sufficed)\b",
    re.IGNORECASE,
)
ALLOWED = re.compile(r"\b(cannot|can not|can)[ -]tell\b|beside-ranks|leakscope\.beside", re.IGNORECASE)  # a verdict
ROOMS = ("how-to", "kinds", "reference", "tutorials")  # not development: that is for its developers
GUIDE = [
    ROOT / "README.md", *(ROOT / "docs").glob("*.md"),
    *(path for room in ROOMS for path in (ROOT / "docs" / room).glob("*.md")),
    *PACKAGE.glob("skills/**/*.md"),
]  # fmt: skip
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a source with a blank in them: what it may say, and neither names nor its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def banned(text: str) -> list[str]:
    return [match[0] for match in BANNED.finditer(ALLOWED.sub("", text))]


def test_what_the_program_says() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r} in {text.strip()[:60]!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in sentences(path)
        if " " in text.strip() and "|tell|" not in text
        for word in banned(text)
    ]
    assert not found, "\n".join(found)


def test_what_pages_say() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word!r}"
        for path in sorted((PACKAGE / "pages").glob("*.html"))
        for word in banned(
            re.sub(r"\{[%{#].*?[%}#]\}|<script.*?</script>|<[^>]*>", " ", path.read_text("utf-8"), flags=re.DOTALL)
        )
    ]
    assert not found, "\n".join(found)


def test_what_the_guide_says() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r} in {line.strip()[:80]!r}"
        for path in GUIDE
        for number, line in enumerate(CODE.sub(_blank, path.read_text("utf-8")).splitlines(), 1)
        for word in banned(line)
    ]
    assert not found, "\n".join(found)


def _blank(code: re.Match[str]) -> str:
    return "\n" * code[0].count("\n")
