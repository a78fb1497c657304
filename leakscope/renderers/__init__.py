"""From a report to text: one file per output, found by its name. A renderer decides nothing and writes no file."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..findings import Report

if TYPE_CHECKING:
    from ..pages.plots import Plot


def render(report: Report, name: str, **options: Any) -> str:
    """``report`` as ``terminal``, ``json`` or another of ``names()``. **Errors** BadInput for any other name."""
    if name not in names():
        raise BadInput(f"there is no format {name!r}: there are {', '.join(names())}")
    text: str = importlib.import_module(f"{__name__}.{name}").render(report, **options)
    return text


def plots(report: Report) -> dict[str, Plot]:
    """The charts of a report by their place in its page: timeline, laps, levels, device-0, holders-0, ..."""
    from ._plots import views

    return views(report)


def names() -> list[str]:
    """Every renderer there is."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
