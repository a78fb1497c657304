"""What a project says of leakscope in its pyproject.toml."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import BadInput

FILE = "pyproject.toml"


def of_project(folder: Path) -> dict[str, Any]:
    """The table ``[tool.leakscope]`` of the pyproject.toml in ``folder``; empty without one. **Errors** BadInput."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if "leakscope" not in text:
        return {}
    toml = _toml()
    if toml is None:
        raise BadInput(f"{path} has settings of leakscope, but to read them needs Python 3.11 or `pip install tomli`")
    try:
        found: Any = toml.loads(text)
    except ValueError as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from None
    for name in ("tool", "leakscope"):
        found = found.get(name, {}) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: [tool.leakscope] is not a table")
    return found


def _toml() -> ModuleType | None:
    names = [name for name in ("tomllib", "tomli") if importlib.util.find_spec(name) is not None]
    return importlib.import_module(names[0]) if names else None
