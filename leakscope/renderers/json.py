"""The report for programs: JSON after the contract ``leakscope.report/1``.

Every key is always there, with null where nothing is known; sizes are whole bytes. The same report gives the same
bytes each time.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..findings import Report

SUFFIX = ".json"
SCHEMA = "leakscope.report/1"


def render(report: Report) -> str:
    """One JSON object, indented, ending with a newline."""
    return json.dumps(as_dict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The contract as plain values: for programs that have the report at hand."""
    return {"schema": SCHEMA, **_plain(report)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a file name that is no text has lone surrogates
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    number = value.item() if hasattr(value, "item") else value  # numpy's numbers are not JSON's
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    return number if isinstance(number, (bool, int)) else str(number)
