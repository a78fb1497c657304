"""The outside tables, one file each: ``TABLE`` and ``rows(tree)``, which is called at each interval and at the end.

Runs in the recorder. A source that is dear to read sets ``PERIOD_S`` and is asked no sooner. A file without a leading
underscore is a source; there is no list to extend.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType


def load() -> list[ModuleType]:
    """Every source, by its file."""
    names = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return [import_module(f".{name}", __name__) for name in names if not name.startswith("_")]
