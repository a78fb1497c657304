"""Sentences and curves that several diagnoses show."""

from __future__ import annotations

from ..facts.code.adding import Line
from ..facts.series.arithmetic import Floats
from ..facts.where.stacks import GrowthLine
from ..findings import Evidence, Series

_POINTS = 2000  # of a curve, at most


def at_line(line: Line, does: str) -> Evidence:
    """``train.py:31 adds to it: history.append(loss)``."""
    return Evidence(f"{line.file}:{line.line} {does}: {line.text}", {"line": line.line})


def grew_at(line: GrowthLine, **figures: object) -> Evidence:
    """How much of the growth was seen to happen under a line."""
    text = f"{line.file}:{line.line}: {line.share:.0%} of the growth that was watched happened here"
    seen = {"line": line.line, "share": round(line.share, 3), **figures}
    return Evidence(f"{text}: {line.text}" if line.text else text, seen)


def imports_only(package: str) -> Evidence:
    """Why this package is blamed and no other."""
    return Evidence(f"{package} is the only package that the program's own modules import")


def curve(name: str, time_s: Floats, values: Floats, unit: str = "bytes") -> Series:
    """The beginning of a series, no longer than a report may be."""
    return Series(name, time_s.tolist()[:_POINTS], values.tolist()[:_POINTS], "s", unit)
