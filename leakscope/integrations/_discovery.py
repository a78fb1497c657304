"""The callbacks without a line of code: for ``leakscope record --framework-logs``. Runs in the training process.

Both functions are found in every program that uses the framework, so unless asked for they do nothing, and import
nothing; a failure of ours is never the program's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

VARIABLE = "LEAKSCOPE_FRAMEWORK_LOGS"


def lightning_callbacks() -> list[Any]:
    """The factory behind Lightning's entry point: called each time a ``Trainer`` is made."""
    with suppress(Exception):
        if os.environ.get(VARIABLE) == "1":
            from .lightning import MemoryCallback

            return [MemoryCallback()]
    return []


def transformers_imported(trainer_module: Any) -> None:
    """To be called when ``transformers.trainer`` has been imported: it has no entry points to be found by."""
    with suppress(Exception):
        if os.environ.get(VARIABLE) == "1":
            from .transformers import install

            install()
