"""The outcome of a check as text, one line a rule, or as JSON (``leakscope.check/1``)."""

from __future__ import annotations

import dataclasses
import json

from ..words import printable
from ._check import BROKEN, CANNOT_TELL, KEPT, NO_LEAK, Check, Outcome

FORMATS = ("terminal", "json")
SCHEMA = "leakscope.check/1"
_WORDS = {KEPT: "ok", BROKEN: "BROKEN", CANNOT_TELL: "cannot tell"}


def render(check: Check, format_name: str) -> str:
    """The broken rules first: a log is often cut off."""
    if format_name == "json":
        text = json.dumps({"schema": SCHEMA, **dataclasses.asdict(check)}, indent=2, ensure_ascii=False)
        return text.encode("utf-8", "replace").decode("utf-8") + "\n"
    order = (BROKEN, CANNOT_TELL, KEPT)
    lines = [_line(outcome) for outcome in sorted(check.outcomes, key=lambda o: order.index(o.outcome))]
    return "".join([*lines, *(f"ignored: {printable(text)}\n" for text in check.ignored), _count(check)])


def _count(check: Check) -> str:
    count = len(check.ignored)
    return f"{count} finding{'' if count == 1 else 's'} ignored by pyproject.toml\n" if count else ""


def _line(outcome: Outcome) -> str:
    place = ""
    if outcome.file is not None:
        place = f" ({outcome.file}:{outcome.line})" if outcome.line is not None else f" ({outcome.file})"
    rule = "" if outcome.rule == NO_LEAK else f"{outcome.rule}: "  # its text begins with the verdict
    return printable(f"{_WORDS[outcome.outcome]}: {rule}{outcome.text}{place}") + "\n"
