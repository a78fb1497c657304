"""One recording as one row, from its footer: values of the wrong type are null, whoever wrote them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..errors import UnreadableRecording
from ..findings import stands_for_all
from ..signals import Signal
from ..storage.footers import NotARecording, footer
from .columns import BELONGS, FIGURES, FINDING, VERDICT, Column
from .places import Place, Source

FINAL, UNFINISHED, UNREADABLE, FOREIGN, FAILED = "final", "unfinished", "unreadable", "foreign", "failed"

MOST_FINDINGS = 10
_LASTING = ("limit_bytes", "gpu_count", "gpu_name", "gpu_driver")  # the same at every moment of a run
_MOST_TEXT = 2000
_MOST_LABELS = 50


def rows_at(source: Source, places: Sequence[Place]) -> Iterator[dict[str, Any]]:
    """A row for each place of a source, also where nothing can be read; files first, then what is a journal alone."""
    for place, tail in source.tails([place for place in places if place.size_bytes is not None]):
        yield _where(place) | _of_file(source, place, tail)
    for place in places:
        if place.size_bytes is None:
            yield _where(place) | _of_journal(source, place, {})


def _where(place: Place) -> dict[str, Any]:
    return {"url": place.url, "size_bytes": place.size_bytes, "stamp": place.stamp}


def _of_file(source: Source, place: Place, tail: bytes | OSError) -> dict[str, Any]:
    try:
        if isinstance(tail, OSError):
            raise UnreadableRecording(f"{place.url} cannot be read: {tail.strerror or tail}")
        said, columns_id = footer(tail, place.size_bytes or 0, place.url)
    except NotARecording:
        return {"state": FOREIGN, "judged": False}
    except UnreadableRecording as error:
        return {"state": UNREADABLE, "problem": str(error), "judged": False}
    state = str(said.get("state"))
    row = row_of(said) | {"state": state, "columns_id": columns_id}
    if place.has_journal and state != FINAL:
        return row | _of_journal(source, place, said)
    notes = said.get("notes")
    return row | {"problem": notes[0][:500] if state == FINAL and notes and isinstance(notes[0], str) else None}


def _of_journal(source: Source, place: Place, said: Mapping[str, Any]) -> dict[str, Any]:
    """What its meta.json says. Its rows are read by `leakscope report`, which finalises it."""
    try:
        meta = json.loads(source.text_of(f"{place.url}.journal/meta.json"))
    except (OSError, ValueError):
        meta = {}
    known = row_of({**said, **(meta if isinstance(meta, dict) else {})})
    problem = "a journal that nobody finalised: still being recorded, or run `leakscope finalize` on it"
    return {**known, "ended": None, "duration_s": None, "state": UNFINISHED, "problem": problem}


def row_of(footer: Mapping[str, Any]) -> dict[str, Any]:
    """What the footer of a recording, or the meta.json of a journal, says of the run."""
    belongs, verdict, figures = (_mapping(footer.get(key)) for key in ("belongs", "verdict", "figures"))
    if "as_of_s" in verdict:  # what was known then does not count beside what the recorder knew at the end
        figures = {name: figures.get(name) for name in _LASTING}
    row = {
        **_cells(BELONGS, belongs),
        **_cells(VERDICT, verdict),
        **_cells(FIGURES, {**_of_recorder(footer), **figures}),
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
    if row["kill_count"] and (not row["judged"] or row["as_of_s"] is not None):  # of the end nobody has judged
        row["killed"] = True
    return row


def _of_recorder(footer: Mapping[str, Any]) -> dict[str, Any]:
    """What the recorder knew when the run was over, whoever judges it, or nobody."""
    first, last = (_whole(footer.get(key)) for key in ("start_mono_ns", "last_mono_ns"))
    ended, kill_count = footer.get("ended"), _whole(footer.get("kill_count"))
    how, code, number = ended if isinstance(ended, list) and len(ended) == 3 else (None, None, None)
    if how == "signal" and number == Signal.SIGKILL and kill_count:
        how = "oom-killed"
    duration = round((last - first) / 1e9, 3) if first is not None and last is not None and last >= first else None
    return {
        "duration_s": duration, "ended": how, "exit_code": code, "signal": number, "kill_count": kill_count,
        "peak_bytes": footer.get("peak_bytes"), "gpu_driver": footer.get("gpu_driver"),
    }  # fmt: skip


def _findings(found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        return []
    cells = [_cells(FINDING, one) for one in found[:MOST_FINDINGS] if isinstance(one, Mapping)]
    for one in cells:
        if one["kind"] is not None and one["fingerprint"] == stands_for_all(one["kind"]):
            one["fingerprint"] = None
    return cells


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
