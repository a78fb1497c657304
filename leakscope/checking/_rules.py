"""The rules of ``check``: options of the command line over ``[tool.leakscope.check]`` of a pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import analyzers
from ..errors import BadInput
from ..settings import FILE, of_project
from ..units import parse_bytes

_PER_HOUR = {"min": 60.0, "minute": 60.0, "h": 1.0, "hour": 1.0, "day": 1 / 24}
_PER = re.compile(r"([0-9][0-9_,]*)?\s*([a-z]+)", re.IGNORECASE)
_GROWTH_EXAMPLES = "5MB/1000steps, 20KB/step or 50MB/hour"
_SECTION = "[tool.leakscope.check]"


@dataclass(frozen=True)
class Growth:
    """So many bytes in ``per`` steps (``unit`` step) or hours (``unit`` hour); ``text`` is what the user wrote."""

    text: str
    bytes: float
    per: float
    unit: str


@dataclass(frozen=True)
class Rules:
    """What a recording is held to; None and empty are not asked. ``inconclusive`` is pass, fail or None."""

    max_growth: Growth | None = None
    max_rss_bytes: float | None = None
    max_workers: int | None = None
    no_findings: tuple[str, ...] = ()
    baseline: Path | None = None
    inconclusive: str | None = None

    @property
    def asks_nothing(self) -> bool:
        numbers = (self.max_growth, self.max_rss_bytes, self.max_workers, self.baseline)
        return not self.no_findings and all(number is None for number in numbers)


def read_rules(options: Mapping[str, Any], folder: Path) -> Rules:
    """``options`` by their names with dashes; None is not given. **Errors** BadInput names the option or the file."""
    given = {name: value for name, value in options.items() if value not in (None, False, ())}
    parsers = {**_PARSERS, **{kind.rule: _switch(name) for name, kind in analyzers.kinds().items() if kind.rule}}
    values: dict[str, Any] = {}
    for origin, settings in ((_SECTION, _from_pyproject(folder)), ("", given)):
        for name, value in settings.items():
            if name not in parsers:
                raise BadInput(f"{origin} has no setting {name!r}: there are {', '.join(parsers)}")
            try:
                field, parsed = parsers[name](value)
            except BadInput as error:
                raise BadInput(f"{origin or '--'}{' ' if origin else ''}{name}: {error}") from None
            values[field] = (*values.get(field, ()), *parsed) if field == "no_findings" else parsed
    return Rules(**values)


def parse_growth(text: str) -> Growth:
    """``5MB/1000steps``, ``20KB/step``, ``50MB/hour``. **Errors** BadInput."""
    size, slash, rest = str(text).partition("/")
    match = _PER.fullmatch(rest.strip())
    unit = match[2].lower() if match else ""
    if not slash or match is None:
        raise BadInput(f"{text!r} is not a growth: write it like {_GROWTH_EXAMPLES}")
    count = float(re.sub("[_,]", "", match[1])) if match[1] else 1.0
    if count <= 0:
        raise BadInput(f"{text!r} is not a growth: write it like {_GROWTH_EXAMPLES}")
    if unit in ("step", "steps", "request", "requests", "task", "tasks"):  # a recording counts one of them
        return Growth(str(text), parse_bytes(size), count, "step")
    for name in (unit, unit[:-1] if unit.endswith("s") else unit):
        if name in _PER_HOUR:
            return Growth(str(text), parse_bytes(size), count / _PER_HOUR[name], "hour")
    raise BadInput(f"{text!r} is not a growth per step or per time: write it like {_GROWTH_EXAMPLES}")


def _from_pyproject(folder: Path) -> dict[str, Any]:
    found = of_project(folder).get("check", {})
    if not isinstance(found, dict):
        raise BadInput(f"{folder / FILE}: {_SECTION} is not a table")
    return found


def _bytes(value: Any) -> float:
    return parse_bytes(str(value))


def _count(value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdecimal():
        raise BadInput(f"{value!r} is not a count")
    return int(value)


def _kinds(value: Any) -> tuple[str, ...]:
    kinds = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else (value,)
    known = analyzers.names()
    for kind in kinds:
        if kind not in known:
            raise BadInput(f"there is no kind {kind!r}: there are {', '.join(known)}")
    return kinds


def _switch(kind: str) -> Callable[[Any], tuple[str, Any]]:
    def parse(value: Any) -> tuple[str, Any]:
        if not isinstance(value, bool):
            raise BadInput(f"{value!r} is neither true nor false")
        return "no_findings", (kind,) if value else ()

    return parse


def _inconclusive(value: Any) -> str:
    if value not in ("pass", "fail"):
        raise BadInput(f"{value!r} is neither pass nor fail")
    return str(value)


# Name of the option and setting -> field of Rules and its value. A kind may have a switch of its own: its RULE.
_PARSERS: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "max-growth": lambda value: ("max_growth", parse_growth(value)),
    "max-rss": lambda value: ("max_rss_bytes", _bytes(value)),
    "max-workers": lambda value: ("max_workers", _count(value)),
    "no-findings": lambda value: ("no_findings", _kinds(value)),
    "baseline": lambda value: ("baseline", Path(str(value))),
    "inconclusive": lambda value: ("inconclusive", _inconclusive(value)),
}
