"""What nothing reads any more is given up behind the statement that read it last, and the program does as before."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence

import pytest

from leakscope.facts.code.edits import Edited, Piece, Unsure, let_go
from leakscope.facts.code.index import Source

FILE = "/job/train.py"
PROGRAM = """
class Rows(list):
    pass


class Job:
    def __init__(self):
        self.raw = Rows(range(9))
        told(self.raw)
        self.clean = Rows(row * 2 for row in self.raw)  # raw

    def prepare(self, first):
        told(self.clean)
        total = 0
        for epoch in range(2):
            for row in self.clean:
                total += row  # clean
        return total + first


def main(stages):
    table = Rows(range(5))
    told(table)
    if len(table):
        small = sum(
            table,
        )  # table
    stages["first"] = Rows([small])
    told(stages["first"])
    last = stages["first"][0]  # first
    job = Job()
    return job.prepare(last), small, gone()
"""
PIECES = ("raw", "clean", "table", "first")


def line_of(text: str, marked: str) -> int:
    return next(number for number, one in enumerate(text.split("\n"), 1) if f"# {marked}" in one)


def piece(text: str, name: str) -> Piece:
    key = name if name == "first" else None
    return Piece(FILE, line_of(text, name), "stages" if key else name, key, is_local=name == "table")


def edited(text: str, pieces: Sequence[Piece]) -> Edited | Unsure:
    return let_go([Source("__main__", FILE, text)], pieces)


def ran(text: str) -> tuple[tuple[int, int], list[bool]]:
    """What the program returns, and of each of the four whether it was gone by then."""
    seen: list[weakref.ref[object]] = []
    names: dict[str, object] = {
        "told": lambda one: seen.append(weakref.ref(one)),
        "gone": lambda: [one() is None for one in seen],
    }
    exec(compile(text, FILE, "exec"), names)
    total, small, gone = names["main"]({})  # type: ignore[operator]
    return (total, small), gone


def test_each_goes_where_it_was_read_for_the_last_time_and_the_result_stays() -> None:
    found = edited(PROGRAM, [piece(PROGRAM, name) for name in PIECES])
    assert isinstance(found, Edited) and found.before == PROGRAM
    (result, gone), (result_after, gone_after) = ran(PROGRAM), ran(found.text)
    assert result == result_after
    assert gone == [False] * 4 and gone_after == [True] * 4


@pytest.mark.parametrize("name", PIECES)
def test_of_one_alone_nothing_else_is_touched(name: str) -> None:
    found = edited(PROGRAM, [piece(PROGRAM, name)])
    assert isinstance(found, Edited)
    lines = found.text.split("\n")
    came = [one.strip() for one in lines if one not in PROGRAM.split("\n")]
    assert came in ([f"self.{name} = None"], [f"del {name}"], [f'del stages["{name}"]'])
    assert [one for one in lines if one in PROGRAM.split("\n")] == PROGRAM.split("\n")
    ast.parse(found.text)


@pytest.mark.parametrize(
    ("body", "name", "why"),
    [
        ("def f(table):\n    return sum(table)  # it\n", "table", "the function ends where it is read last"),
        ("def f(table):\n    table = sorted(table)  # it\n    g()\n", "table", "also gives it a new value"),
        ("def f(rows):\n    x = sum(rows)  # it\n    g()\n", "table", "does not call it table"),
        ("def f(x):\n    if x:\n        table = []\n    sum(table)  # it\n    g()\n", "table", "is bound whenever"),
        ("def f(x):\n    sum(x[0].table)  # it\n    g()\n", ".table", "may be another object each time"),
        ("table = []\ndef f():\n    sum(table)  # it\n    g()\n", ".table", "a variable of the module"),
        ("def f(a, b):\n    sum(a.table, b.table)  # it\n    g()\n", ".table", "which of a.table and b.table it is"),
        ("def f(table): sum(table)  # it\n", "table", "shares its line"),
    ],
)
def test_where_it_is_not_sure_what_goes_nothing_is_edited(body: str, name: str, why: str) -> None:
    found = edited(body, [Piece(FILE, line_of(body, "it"), name.lstrip("."), is_local=not name.startswith("."))])
    assert isinstance(found, Unsure) and why in found.why


@pytest.mark.parametrize(("line", "is_sure"), [("g(other['raw'], stages['raw'])", True), ("g(other['raw'])", False)])
def test_a_key_of_another_dict_is_another_thing(line: str, is_sure: bool) -> None:
    found = edited(f"def f(other, stages):\n    {line}  # it\n    g()\n", [Piece(FILE, 2, "stages", "raw")])
    assert isinstance(found, Edited) == is_sure
    assert not isinstance(found, Edited) or "    del stages['raw']\n" in found.text
