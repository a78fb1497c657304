"""The libraries of engines that are no part of leakscope."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import BadInput, to_install

EXTRAS = {"dask": "distributed", "ray": "ray", "spark": "pyspark"}  # with the module that has to be there


def imported(engine: str) -> Any:
    """The module of an engine. **Errors** BadInput with what to install where it is not there."""
    try:
        return importlib.import_module(EXTRAS[engine])
    except ImportError as error:
        missing = error.name or EXTRAS[engine]
        raise BadInput(f"--engine {engine} needs {missing}, which is not installed: {to_install(engine)}") from None
