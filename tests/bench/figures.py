"""What a benchmark measured: figures, the file they are kept in, and the tables that show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).with_name("results.json")
_WIDTH = 56


class Figure(NamedTuple):
    """One measured value. ``at``: where on a curve it lies, in ``per``; ``budget`` None: for comparison only.

    ``is_least``: it was stopped there, and would have been more.
    """

    what: str
    value: float
    unit: str
    budget: float | None = None
    at: float | None = None
    per: str = ""
    is_least: bool = False

    @property
    def is_kept(self) -> bool | None:
        return None if self.budget is None else self.value <= self.budget


class Results(NamedTuple):
    """A run of the benchmark; ``skipped`` says what was not measured, and why."""

    date: str
    machine: str
    figures: Sequence[Figure]
    skipped: Sequence[str]

    def save(self, path: Path) -> None:
        document = {**self._asdict(), "figures": [figure._asdict() for figure in self.figures]}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path = RESULTS) -> Results:
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**document, "figures": [Figure(**figure) for figure in document["figures"]]})


def curves(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    """Figures by what they are of, in the order they were measured."""
    grouped: dict[str, list[Figure]] = {}
    for figure in figures:
        grouped.setdefault(figure.what, []).append(figure)
    return grouped


def as_text(results: Results) -> str:
    """For a terminal: a line a figure."""
    lines = [f"{'what':{_WIDTH}} {'value':>9} {'':12} {'budget':>9}  kept", "-" * (_WIDTH + 40)]
    for f in results.figures:
        what = f.what if f.at is None else f"{f.what}, {_short(f.at)} {f.per}"
        budget = "" if f.budget is None else f"<= {f.budget:g}"
        kept = {None: "", True: "yes", False: "NO"}[f.is_kept]
        lines.append(f"{what:{_WIDTH}} {number(f):>9} {f.unit:12} {budget:>9}  {kept}")
    return "\n".join([*lines, *(f"skipped: {reason}" for reason in results.skipped)])


def as_markdown(results: Results) -> str:
    """For docs/development/costs.md: a line for each curve, its points behind one another."""
    rows = [("what", "measured", "budget"), ("---", "---", "---")]
    for what, points in curves(results.figures).items():
        first = points[0]
        if first.at is not None:
            what += f"; {', '.join(_short(p.at or 0.0) for p in points)} {first.per}"
        budgets = dict.fromkeys("none" if p.budget is None else f"{p.budget:g}" for p in points)
        budget = "" if set(budgets) == {"none"} else f"≤ {', '.join(budgets)}"
        rows.append((what, f"{', '.join(map(number, points))} {first.unit}", budget))
    lines = ["| " + " | ".join(row) + " |\n" for row in rows]
    skipped = f" Skipped: {'; '.join(results.skipped)}." if results.skipped else ""
    return "".join([*lines, f"\n{results.date}, {results.machine}.{skipped}\n"])


def number(figure: Figure) -> str:
    """The value with the digits that its unit deserves."""
    if figure.is_least:
        return f"> {figure.value:g}"
    if figure.unit.startswith("×"):
        return f"{figure.value:.3f}" if figure.value < 2 else f"{figure.value:.1f}"
    return f"{figure.value:.3g}" if figure.value < 100 else f"{figure.value:,.0f}"


def _short(value: float) -> str:
    """``5M``, ``10k``, ``0.5``."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
