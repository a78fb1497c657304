"""Which recordings are meant: ``job=llm``, ``peak_bytes>40GiB``, ``node~gpu-1*``, ``leaking``, ``!killed``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd

from ..errors import BadInput
from ..units import parse_bytes
from .columns import COLUMNS, TYPES

_RULE = re.compile(r"(\w+)\s*(>=|<=|!=|=|>|<|~)(.*)")
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_UNITS = {column.name: column.unit for column in COLUMNS}
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def matching(frame: pd.DataFrame, rules: Sequence[str]) -> pd.DataFrame:
    """The rows for which all rules hold; a null fulfils none but ``=`` with nothing behind it. **Errors** BadInput."""
    keep = np.ones(len(frame), dtype=bool)
    for rule in rules:
        keep &= np.asarray(_holds(frame, rule), dtype=bool)
    return frame[keep]


def check_column(name: str) -> str:
    """**Errors** BadInput for a column that no index has."""
    if name not in TYPES:
        raise BadInput(f"an index has no column {name!r}: there are {', '.join(TYPES)}")
    return name


def _holds(frame: pd.DataFrame, rule: str) -> Any:
    match = _RULE.fullmatch(rule.strip())
    if match is None:
        return _flag(frame, rule)
    name, sign, text = match[1], match[2], match[3].strip()
    if name.startswith("label_"):
        label = name[len("label_") :]
        column = frame["labels"].map(lambda pairs: dict(pairs).get(label) if pairs is not None else None)
        return _compared(column, "str", sign, text, rule)
    kind = TYPES[check_column(name)]
    if not isinstance(kind, str) or kind == "texts":
        raise BadInput(f"{rule!r}: {name} is not one value: label_NAME=TEXT asks for a label")
    return _compared(frame[name], kind, sign, text, rule)


def _flag(frame: pd.DataFrame, rule: str) -> Any:
    name = rule.strip().lstrip("!")
    if TYPES.get(name) != "bool":
        raise BadInput(f"{rule!r} is not a rule: write it like job=llm, peak_bytes>40GiB, node~gpu-1* or leaking")
    return (frame[name] == (not rule.strip().startswith("!"))).fillna(False)


def _compared(column: Any, kind: str, sign: str, text: str, rule: str) -> Any:
    if text == "" and sign in ("=", "!="):
        return column.isna() if sign == "=" else column.notna()
    if sign == "~":
        return column.map(lambda value: isinstance(value, str) and fnmatchcase(value, text))
    value = _value(kind, text, rule, _UNITS.get(rule.split(sign)[0].strip(), ""))
    return _ORDER[sign](column, value).fillna(False)


def _value(kind: str, text: str, rule: str, unit: str) -> Any:
    if kind == "str":
        return text
    try:
        if kind == "bool":
            return _TRUTHS[text.lower()]
        if kind == "time":
            found = datetime.fromisoformat(text.replace("Z", "+00:00"))
            return pd.Timestamp(found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc))
        return parse_bytes(text) if unit.startswith("bytes") and not text.startswith("-") else float(text)
    except (ValueError, KeyError):
        example = "2026-11-25" if kind == "time" else "true" if kind == "bool" else "8"
        raise BadInput(f"{rule!r}: {text!r} is not a {kind}: write it like {example}") from None
