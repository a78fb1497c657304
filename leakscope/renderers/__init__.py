"""From a report to text: one file per output, found by its name. A renderer decides nothing and writes no file."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from ..errors import BadInput
from ..findings import Report


def render(report: Report, name: str, **options: Any) -> str:
    """``report`` as ``terminal``, ``json`` or another of ``names()``. **Errors** BadInput for any other name."""
    if name not in names():
        raise BadInput(f"there is no format {name!r}: there are {', '.join(names())}")
    text: str = importlib.import_module(f"{__name__}.{name}").render(report, **options)
    return text


def names() -> list[str]:
    """Every renderer there is."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
