"""What a journal says of itself when its blocks are read one after another: how the run ended, and what was lost.

Whoever makes a parquet file of it asks this for the footer, with pyarrow (merge.py) or without (few_rows.py).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import schema
from ..agent.journal import open_regular, rows_of
from ..errors import UnreadableRecording
from .segments import Columns, Unread, read_segment, segments

VERDICT_FILE = "verdict.json"  # in a journal: what was found while the recording went on
_MOST_VERDICT_BYTES = 1 << 20
Row = dict[str, Any]


def verdict(journal: Path) -> dict[str, Any]:
    """What was found while it was recorded; empty where nobody looked, or what they left is damaged."""
    try:
        with os.fdopen(open_regular(journal / VERDICT_FILE), "rb") as stream:
            told = json.loads(stream.read(_MOST_VERDICT_BYTES))
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {key: told[key] for key in ("verdict", "figures") if isinstance(told.get(key), dict)}


def blocks(journal: Path, facts: Facts) -> Iterator[tuple[str, Columns]]:
    for segment in segments(journal):
        blocks = read_segment(segment)
        try:
            while True:
                table, columns = next(blocks)
                if isinstance(table, str) and any(columns.values()):
                    facts.look_at(table, columns)
                    yield table, columns
        except StopIteration as end:
            if end.value.bytes:
                facts.unread[segment] = end.value
        except OSError as error:
            facts.unread[segment] = Unread(segment.stat().st_size, None)
            facts.notes.append(f"{segment.name} could not be read: {error.strerror or error}")


class Facts:
    """What the footer says beside the rows: how it ended, when it began, what was lost."""

    def __init__(self) -> None:
        self.end_seen: bool = False
        self.end_value: float | None = None
        self.peak_bytes: int | None = None
        self.kill_count: int | None = None
        self.root: Row = {}
        self.first_mono_ns: int | None = None
        self.last_mono_ns: int | None = None
        self.unread: dict[Path, Unread] = {}
        self.gaps: list[str] = []
        self.notes: list[str] = []

    def look_at(self, table: str, columns: Columns) -> None:
        times = [time for time in columns.get("time_mono_ns", ()) if type(time) is int]
        if times:
            self.first_mono_ns = min(*times, self.first_mono_ns or times[0])
            self.last_mono_ns = max(*times, self.last_mono_ns or times[0])
        if table == "events":
            for row in rows_of(columns):
                if row.get("event") == "end":
                    self.end_seen, self.end_value = True, row.get("value")
                elif row.get("event") == "peak":
                    self.peak_bytes = _whole(row.get("value"))
                elif row.get("event") == "oom-kills":
                    self.kill_count = _whole(row.get("value"))
                elif row.get("event") == "output-lost":
                    self.gaps.append(f"rows are missing: {row.get('text')}")
        elif table == "processes":
            for row in rows_of(columns):
                if row.get("is_root") is True:
                    self.root = row

    def check_sound(self, journal: Path) -> None:
        """**Errors** UnreadableRecording if bytes were changed after they were written."""
        for path, unread in self.unread.items():
            if unread.damaged_at is not None:
                run = journal.with_suffix("")
                raise UnreadableRecording(
                    f"{path} is damaged at byte {unread.damaged_at:,}: `leakscope finalize {run}` makes a file of what "
                    "is sound, and says there what is lost"
                )

    def ended(self) -> tuple[str, int | None, int | None]:
        """(how, exit code, signal): the root's own status, else the figure of the end event (negative = signal)."""
        if not self.end_seen:
            return "lost", None, None
        signal, code = self.root.get("exit_signal"), self.root.get("exit_code")
        if signal is None and code is None and isinstance(self.end_value, (int, float)):
            status = int(self.end_value) if math.isfinite(self.end_value) else 0
            signal, code = (-status, None) if status < 0 else (None, status)
        return ("signal", None, signal) if signal is not None else ("exit", code, None)

    def footer(self, meta: Row, state: str, row_counts: Mapping[str, int], misfits: int) -> Row:
        notes = [*map(str, meta.get("notes") or ()), *self.notes, *self.gaps]
        if not meta:
            notes.append("meta.json is missing or damaged: command, host and start time are not known")
        if state == "final":
            notes += [
                f"{'the last ' if unread.damaged_at is None else ''}{unread.bytes:,} bytes of {path.name} are "
                f"{'torn or ' if unread.damaged_at is None else ''}damaged: the rows in them are lost"
                for path, unread in self.unread.items()
            ]
            if not self.end_seen:
                notes.append("the recorder did not end in order: the last seconds before its end may be missing")
        if misfits:
            notes.append(f"{misfits:,} values did not fit their column and were left out")
        return {
            "start_mono_ns": self.first_mono_ns or 0,
            **meta,
            "format_version": schema.SCHEMA_VERSION,
            "state": state,
            "complete": state == "final" and self.end_seen and not (self.unread or self.gaps),
            "ended": list(self.ended()),
            "peak_bytes": self.peak_bytes,
            "kill_count": self.kill_count,
            "last_mono_ns": self.last_mono_ns,
            "unreadable_bytes": sum(unread.bytes for unread in self.unread.values()),
            "row_counts": dict(sorted(row_counts.items())),
            "notes": notes,
        }


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
