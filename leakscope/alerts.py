"""What a user writes for ``--alert`` and ``--webhook``: rules such as ``rss>40GB`` as figures to compare, addresses.

Standard library only: it is read before the job starts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import BadInput
from .units import BYTE_UNITS, format_duration

EXAMPLES = "rss>40GB, rss>90%, growth>100MB/min, oom_eta<30min, workers>16 or oom"
HYSTERESIS_FRACTION = 0.05  # a rule is over only once its figure is this much on the good side

_SIZES = {unit: size for unit, size in BYTE_UNITS.items() if unit}  # rss>40 would be bytes, which nobody means
_TIMES = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_RULE = re.compile(r"([a-z_]+)\s*([<>])\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z%]*(?:/[a-z]+)?)", re.IGNORECASE)

_BYTES = ("rss", "pss", "swap", "gpu")
_COUNTS = ("workers", "processes")
_ONE_EACH = {
    **dict.fromkeys(_BYTES, "{0}>40GB or {0}>90%"),
    **dict.fromkeys(_COUNTS, "{0}>16"),
    "growth": "growth>100MB/min",
    "oom_eta": "oom_eta<30min",
    "oom": "oom",
}


class Rule(NamedTuple):
    """One rule. **Units** ``threshold`` is bytes, bytes a second, seconds, a count, or a fraction (``is_fraction``)."""

    text: str
    metric: str
    threshold: float = 0.0
    is_fraction: bool = False
    unit: str = ""
    unit_size: float = 1.0

    @property
    def is_below(self) -> bool:
        """Too little is what it warns of: only so with the time that is left."""
        return self.metric == "oom_eta"

    @property
    def is_of_trend(self) -> bool:
        """Its figure is known only while memory grows steadily."""
        return self.metric in ("growth", "oom_eta")

    def holds(self, value: float) -> bool:
        return value < self.threshold if self.is_below else value > self.threshold

    def is_over(self, value: float | None) -> bool:
        """Clearly on the good side again; a figure that is not known (no trend, no GPU) is no reason to warn."""
        if value is None:
            return True
        if self.is_below:
            return value > self.threshold * (1 + HYSTERESIS_FRACTION)
        return value <= self.threshold * (1 - HYSTERESIS_FRACTION)

    def show(self, value: float) -> str:
        """A figure in the unit the rule was written in: ``40.2 GB`` for ``rss>40GB``."""
        if self.is_below:
            return format_duration(value)
        if self.is_fraction:
            return f"{value:.0%}"
        amount = value / self.unit_size
        return f"{amount:,.0f} {self.unit}".rstrip() if amount >= 100 or not self.unit else f"{amount:.3g} {self.unit}"


def parse_rule(text: str) -> Rule:
    """**Errors** BadInput, with how that rule is written."""
    text = text.strip()
    if text.lower() == "oom":
        return Rule("oom", "oom")
    match = _RULE.fullmatch(text)
    metric = match[1].lower() if match else re.split(r"[^a-z_]", text.lower(), maxsplit=1)[0]
    if metric not in _ONE_EACH:
        raise BadInput(f"{text!r} is not a rule: write {EXAMPLES}")
    if text.lower() == metric:
        example = _ONE_EACH[metric].format(metric).split()[0]
        raise BadInput(f"{text!r} is no whole rule: write '{example}', in quotes, since the shell takes > for itself")
    rule = _parsed(text, metric, *match.groups()[1:]) if match else None
    if rule is None:
        raise BadInput(f"{text!r} is not a rule: write {_ONE_EACH[metric].format(metric)}")
    return rule


def check_address(text: str) -> None:
    """**Errors** BadInput for what is no http address; it is not repeated, since it may hold a secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known or not (text.isascii() and text.isprintable()) or " " in text:
        raise BadInput("not an address that alerts can be sent to: write it like https://hooks.slack.com/services/...")


def _parsed(text: str, metric: str, sign: str, number: str, unit: str) -> Rule | None:
    if (sign == "<") != (metric == "oom_eta"):
        return None
    value, known = float(number), unit.lower()
    if metric in _COUNTS:
        return Rule(text, metric, value) if not unit and value == int(value) else None
    if metric == "oom_eta":
        return Rule(text, metric, value * _TIMES[known]) if known in _TIMES else None
    if metric == "growth":
        size, _, time = known.partition("/")
        if size not in _SIZES or time not in _TIMES:
            return None
        scale = _SIZES[size] / _TIMES[time]
        return Rule(text, metric, value * scale, unit=unit, unit_size=scale)
    if metric in _BYTES and unit == "%":
        return Rule(text, metric, value / 100, is_fraction=True) if 0 < value <= 100 else None
    if metric in _BYTES and known in _SIZES:
        return Rule(text, metric, value * _SIZES[known], unit=unit, unit_size=_SIZES[known])
    return None
