"""The outcome of a check as text, one line a rule, or as JSON (``leakscope.check/1``)."""

from __future__ import annotations

import dataclasses
import json

from ._check import BROKEN, CANNOT_TELL, KEPT, Check, Outcome

FORMATS = ("terminal", "json")
SCHEMA = "leakscope.check/1"
_WORDS = {KEPT: "ok", BROKEN: "BROKEN", CANNOT_TELL: "cannot tell"}


def render(check: Check, format_name: str) -> str:
    """The broken rules first: a log is often cut off."""
    if format_name == "json":
        text = json.dumps({"schema": SCHEMA, **dataclasses.asdict(check)}, indent=2, ensure_ascii=False)
        return text.encode("utf-8", "replace").decode("utf-8") + "\n"
    order = (BROKEN, CANNOT_TELL, KEPT)
    return "".join(_line(outcome) for outcome in sorted(check.outcomes, key=lambda o: order.index(o.outcome)))


def _line(outcome: Outcome) -> str:
    place = ""
    if outcome.file is not None:
        place = f" ({outcome.file}:{outcome.line})" if outcome.line is not None else f" ({outcome.file})"
    return f"{_WORDS[outcome.outcome]}: {outcome.rule}: {outcome.text}{place}\n"
