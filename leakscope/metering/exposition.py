"""Readings as text: the Prometheus format 0.0.4, or OpenMetrics 1.0, whichever the reader asks for.

**Source** https://prometheus.io/docs/instrumenting/exposition_formats, and the OpenMetrics specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .families import COUNTER, FAMILIES, GAUGE, INFO, Family
from .readings import Reading

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPENMETRICS, _KNOWN_VERSIONS = "application/openmetrics-text", ("", "0.0.1", "1.0.0")


def prefers_openmetrics(accept: str) -> bool:
    """Whether an ``Accept`` header rates OpenMetrics at least as high as plain text."""
    best = {_OPENMETRICS: 0.0, "text/plain": 0.0}
    for part in accept.split(","):
        kind, *words = (word.strip().lower() for word in part.split(";"))
        told = dict(word.split("=", 1) for word in words if "=" in word)
        if kind in best and not (kind == _OPENMETRICS and told.get("version", "") not in _KNOWN_VERSIONS):
            best[kind] = max(best[kind], _quality(told.get("q", "1")))
    return best[_OPENMETRICS] > 0.0 and best[_OPENMETRICS] >= best["text/plain"]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def written(readings: Iterable[Reading], *, openmetrics: bool) -> str:
    """All of them, by family."""
    by_family: dict[Family, list[Reading]] = {}
    for reading in readings:
        by_family.setdefault(reading.family, []).append(reading)
    lines = [
        line for family in FAMILIES if family in by_family for line in _family(family, by_family[family], openmetrics)
    ]
    return "".join(f"{line}\n" for line in (*lines, *(["# EOF"] if openmetrics else ())))


def _family(family: Family, readings: list[Reading], openmetrics: bool) -> Iterator[str]:
    name = family.name if openmetrics else family.sample_name
    kind = GAUGE if family.kind == INFO and not openmetrics else family.kind
    yield f"# HELP {name} {_escaped(family.help, quotes=openmetrics)}"
    yield f"# TYPE {name} {kind}"
    if openmetrics and family.unit:
        yield f"# UNIT {name} {family.unit}"
    for reading in readings:
        yield f"{family.sample_name}{_labels(reading.labels)} {_value(reading.value, family)}"


def _labels(labels: Mapping[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _value(value: float, family: Family) -> str:
    return repr(float(value)) if family.kind == COUNTER else repr(value)


def _escaped(text: str, *, quotes: bool) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    if not escaped.isprintable():  # such as commands for a terminal, where somebody looks at it
        escaped = "".join(letter if letter.isprintable() else "?" for letter in escaped)
    return escaped.replace('"', '\\"') if quotes else escaped
