"""A footer to a row of the index: values of the wrong type are null, whoever wrote them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from .columns import BELONGS, FIGURES, FINDING, VERDICT, Column

MOST_FINDINGS = 10
_MOST_TEXT = 2000
_MOST_LABELS = 50


def row_of(footer: Mapping[str, Any]) -> dict[str, Any]:
    """What the footer of a recording, or the meta.json of a journal, says of the run."""
    belongs, verdict, figures = (_mapping(footer.get(key)) for key in ("belongs", "verdict", "figures"))
    row = {
        **_cells(BELONGS, belongs),
        **_cells(VERDICT, verdict),
        **_cells(FIGURES, {**_old_figures(footer), **figures}),
        "command": _command(footer.get("command")),
        "host": _text(footer.get("host")),
        "started_at": _time(footer.get("started_at"), footer.get("start_unix_ns")),
        "leakscope_version": _text(footer.get("leakscope_version")),
        "labels": _labels(footer.get("labels")),
        "sample_count": _whole(_mapping(footer.get("row_counts")).get("process_samples")),
        "complete": footer.get("complete") if isinstance(footer.get("complete"), bool) else None,
        "judged": bool(verdict),
        "findings": _findings(verdict.get("findings")),
    }
    row["node"] = row["node"] or row["host"]
    return row


def _old_figures(footer: Mapping[str, Any]) -> dict[str, Any]:
    """What a footer without figures says of them all the same."""
    first, last = (_whole(footer.get(key)) for key in ("start_mono_ns", "last_mono_ns"))
    ended = footer.get("ended")
    how, code, signal = ended if isinstance(ended, list) and len(ended) == 3 else (None, None, None)
    duration = (last - first) / 1e9 if first is not None and last is not None and last >= first else None
    return {"duration_s": duration, "ended": how, "exit_code": code, "signal": signal}


def _findings(found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        return []
    return [_cells(FINDING, one) for one in found[:MOST_FINDINGS] if isinstance(one, Mapping)]


def _cells(columns: Sequence[Column], values: Mapping[str, Any]) -> dict[str, Any]:
    return {column.name: _READERS[column.type](values.get(column.name)) for column in columns}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value) if abs(value) < 2**63 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 2**1000 else None  # False for NaN and for what is infinite


def _text(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # numbers of jobs
    if not isinstance(value, str) or not value:
        return None
    return value[:_MOST_TEXT].encode("utf-8", "replace").decode("utf-8")


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_READERS = {"int": _whole, "float": _number, "str": _text, "bool": _truth}


def _command(words: Any) -> str | None:
    return _text(" ".join(word for word in words if isinstance(word, str))) if isinstance(words, list) else None


def _labels(found: Any) -> list[tuple[str, str]] | None:
    if not isinstance(found, Mapping):
        return None
    pairs = [(_text(key), _text(value)) for key, value in found.items()]
    return [(key, value) for key, value in pairs if key is not None and value is not None][:_MOST_LABELS]


def _time(text: Any, unix_ns: Any) -> datetime | None:
    try:
        if isinstance(text, str):
            found = datetime.fromisoformat(text.replace("Z", "+00:00"))
            return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
        if isinstance(unix_ns, int):
            return datetime.fromtimestamp(unix_ns / 1e9, timezone.utc)
    except (ValueError, OverflowError, OSError):
        pass
    return None
