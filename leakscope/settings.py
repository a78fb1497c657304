"""What a project says of leakscope in its pyproject.toml."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import BadInput
from .units import parse_duration

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


def horizon_s(folder: Path, asked: str | None = None) -> float | None:
    """Seconds of ``--horizon`` as it was ``asked`` for, or of ``horizon`` there; None where neither says.

    **Errors** BadInput names the option or the file.
    """
    text, where = (asked, "--horizon") if asked is not None else (of_project(folder).get("horizon"), f"{FILE}: horizon")
    if text is None:
        return None
    try:
        seconds = parse_duration(str(text))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    if not seconds > 0:
        raise BadInput(f"{where}: {text!r} is no time to look ahead: write it like 12h or 7d")
    return seconds


def _toml() -> ModuleType | None:
    names = [name for name in ("tomllib", "tomli") if importlib.util.find_spec(name) is not None]
    return importlib.import_module(names[0]) if names else None
