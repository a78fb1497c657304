"""Modules that take seconds to import: not as the tests are collected, which those pay too who run others."""

from __future__ import annotations

import importlib
import sys
from typing import Any


class Late:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_" and name != "_C" and self._name not in sys.modules:
            raise AttributeError(name)  # pytest asks everything that it finds in a file what it is
        return getattr(importlib.import_module(self._name), name)


pymannkendall: Any = Late("pymannkendall")
stats: Any = Late("scipy.stats")
torch: Any = Late("torch")
