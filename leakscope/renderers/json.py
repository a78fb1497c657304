"""The report for programs: JSON after the contract ``leakscope.report/1``.

Every key is always there, with null where nothing is known; sizes are whole bytes. The same report gives the same
bytes each time. What is there to be drawn (the timeline, laps, GPUs, the heap, series of findings) is most of a report:
it is empty unless ``--with-timeline`` asks for it, and ``left_out`` names it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..findings import Report, without_drawn

SUFFIX = ".json"
SCHEMA = "leakscope.report/1"
_PACKED = ("timeline", "laps", "devices", "heap")  # thousands of numbers that nobody reads line by line


def render(report: Report, with_timeline: bool = False) -> str:
    """One JSON object, indented but for what is drawn, ending with a newline."""
    report = report if with_timeline else without_drawn(report)
    entries = [f'  "{name}": {_text(value, name in _PACKED)}' for name, value in as_dict(report).items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The contract as plain values: for programs that have the report at hand."""
    return {"schema": SCHEMA, **plain(report)}


def _text(value: Any, packed: bool) -> str:
    text = json.dumps(value, indent=None if packed else 2, ensure_ascii=False, allow_nan=False)
    return text.replace("\n", "\n  ")  # JSON writes the line ends of strings as \\n: these are its own


def plain(value: Any) -> Any:
    """What the contracts of a report, a job and a fleet are made of, as JSON has it; no NaN, no lone surrogates."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = [field.name for field in dataclasses.fields(value) if field.metadata.get("json", True)]
        return {name: plain(getattr(value, name)) for name in told}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a file name that is no text has lone surrogates
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    number = value.item() if hasattr(value, "item") else value  # numpy's numbers are not JSON's
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    return number if isinstance(number, (bool, int)) else str(number)
