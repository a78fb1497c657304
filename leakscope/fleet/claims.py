"""What a report of a fleet says: frozen values of the JSON contract ``leakscope.fleet/1``, and words for conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..units import format_bytes, spans
from .explaining import BEFORE, NOT_IN, SINCE, Condition

LEAK, ODD, KILLS, LOST, COMMIT, STAGE = "leak", "odd", "kills", "lost", "commit", "stage"
_NAMED = 6  # values that a sentence names
_WORDS = {  # attribute -> (one, several)
    "job": ("job", "jobs"), "node": ("node", "nodes"), "rank": ("rank", "ranks"),
    "local_rank": ("local rank", "local ranks"), "attempt": ("attempt", "attempts"), "commit": ("commit", "commits"),
    "gpu_driver": ("driver", "drivers"), "gpu_name": ("GPU", "GPUs"), "pod": ("pod", "pods"),
    "namespace": ("namespace", "namespaces"), "container": ("container", "containers"),
    "restart_count": ("restart", "restarts"), "limit_bytes": ("a limit of", "limits of"),
    "leakscope_version": ("leakscope", "leakscope"), "scheduler": ("scheduler", "schedulers"),
    "command": ("command", "commands"),
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One thing the data says about the fleet, with its figures.

    ``kind``: leak, odd, kills, lost, commit, or stage (ranks that differ, as a stage of a pipeline does).
    ``recordings`` of ``of`` have it; ``inside`` recordings meet all ``conditions``, ``hit`` of them have it, and
    ``missed`` recordings elsewhere. ``facts``: what those that have it share: ranks, nodes and so on, shortened.
    ``is_new``: none was in the index before its last run.
    """

    kind: str
    severity: str
    says: str
    recordings: int
    of: int
    conditions: Sequence[Condition] = ()
    hit: int = 0
    inside: int = 0
    missed: int = 0
    outside: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    finding: Mapping[str, Any] = field(default_factory=dict)
    is_new: bool = False
    urls: Sequence[str] = ()
    rows: Any = field(default=None, repr=False, compare=False, metadata={"json": False})  # all of them, as positions


def where(conditions: Sequence[Condition]) -> str:
    """``in job pretrain-7b, since attempt 3, not on driver 550.54``; empty for no condition."""
    order = {"job": 0, "namespace": 1, "attempt": 2, "commit": 2}
    return ", ".join(phrase(one) for one in sorted(conditions, key=lambda one: order.get(one.attribute, 3)))


def phrase(one: Condition) -> str:
    """One condition, and those that the data cannot tell from it."""
    same = [_phrase(other) for other in one.same]
    return f"{_phrase(one)} (or {' or '.join(same)}: the same recordings)" if same else _phrase(one)


def _phrase(one: Condition) -> str:
    label = one.attribute.startswith("label_")
    single, several = (f"{one.attribute[6:]}=", f"{one.attribute[6:]} =") if label else _WORDS[one.attribute]
    values = [_value(one.attribute, value) for value in one.values]
    if one.op in (SINCE, BEFORE):
        word = "since" if one.op == SINCE else "before"
        return f"{word} {single} {values[0]}"
    names = shortened(values)
    if len(values) > _NAMED and one.attribute != "rank":
        names = f"{len(values)} {several} ({names})"
        several = ""
    gap = "" if label and len(values) == 1 else " "
    noun = f"{single if len(values) == 1 else several}{gap if single or several else ''}{names}".strip()
    preposition = "with" if one.attribute == "limit_bytes" or label else "in" if one.attribute in _IN else "on"
    return f"not {preposition} {noun}" if one.op == NOT_IN else f"{preposition} {noun}"


_IN = ("job", "namespace", "container", "attempt")


def _value(name: str, value: Any) -> str:
    if name == "limit_bytes":
        return format_bytes(float(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def shortened(values: Iterable[Any]) -> str:
    """``0-7, 12`` for numbers, the first names for others."""
    found = list(values)
    try:
        numbers = sorted({int(value) for value in found})
    except (TypeError, ValueError):
        names = sorted({str(value) for value in found})
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more
    parts = spans(numbers)
    words = [f"{first}-{last}" if last > first else str(first) for first, last in parts]
    more = (
        f" and {len(numbers) - sum(b - a + 1 for a, b in parts[: 2 * _NAMED])} more" if len(words) > 2 * _NAMED else ""
    )
    return ", ".join(words[: 2 * _NAMED]) + more
