"""The recording of it: facts through a journal, as a recorder would write them, and finalised."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ..agent.journal import Journal
from ..agent.masking import Masker
from ..errors import LeakscopeError
from ..schema import SCHEMA_VERSION
from ..storage.finalize import JOURNAL_SUFFIX, finalize
from ..version import __version__
from ._facts import Fact
from ._joining import Joined

_FLUSH_ROWS = 4000


def write(joined: Joined, output: Path) -> int:
    """Returns how many rows were written. **Errors** LeakscopeError where it cannot be written."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            made = Path(folder) / output.name
            count = _journal(joined, made)
            finalize(made)
            os.replace(made, output)
    except OSError as error:
        raise LeakscopeError(f"cannot write {output}: {error.strerror or error}") from None
    return count


def _journal(joined: Joined, made: Path) -> int:
    folder = made.with_name(made.name + JOURNAL_SUFFIX)
    folder.mkdir()
    masker = Masker()
    (folder / "meta.json").write_text(json.dumps(masker.meta(_meta(joined))), encoding="utf-8")
    journal = Journal(str(folder), "import", masker)
    writer = _Writer(joined, journal)
    for part, fact in joined.facts():
        writer.add(fact, part.source.name)
    for pid, known in joined.processes.items():
        writer.process(pid, known)
    for part, shift in zip(joined.parts, joined.shift_s):
        row = {"format": part.format, "row_count": part.row_count, "clock": part.clock_used, "tool": part.source.tool}
        row["text"] = "; ".join(part.source.notes) or None
        writer.add(Fact("imports", part.first_s + shift, row), part.source.name)
    writer.add(Fact("events", joined.end_s, {"event": "end", "text": "the last moment of the files"}), None)
    journal.close()
    return writer.count


class _Writer:
    def __init__(self, joined: Joined, journal: Journal) -> None:
        self._joined, self._journal = joined, journal
        self.count = 0

    def add(self, fact: Fact, origin: str | None) -> None:
        mono_ns = round(fact.at_s * 1e9)
        row: dict[str, Any] = {**fact.row, "time_mono_ns": mono_ns, "time_boot_ns": mono_ns, "origin": origin}
        if self._joined.epoch_s is not None:
            row["time_unix_ns"] = round(self._joined.epoch_s * 1e9) + mono_ns
        if "pid" in row:
            row["start_ticks"] = 0
        if fact.table == "kernel_log":  # whatever clock the log was on, this is now the kernel's
            row["kernel_time_s"] = fact.at_s
        self._journal.add(fact.table, row)
        self.count += 1
        if self.count % _FLUSH_ROWS == 0:
            self._journal.flush()

    def process(self, pid: int, known: dict[str, Any]) -> None:
        aside = ("born_s", "last_s", "died_s", "peak_bytes", "is_unnamed")
        row = {column: value for column, value in known.items() if column not in aside}
        row |= {"pid": pid, "is_root": bool(known.get("is_root")), "born_mono_ns": round(known["born_s"] * 1e9)}
        self.add(Fact("processes", known["born_s"], dict(row)), None)
        if "died_s" in known:
            row["died_mono_ns"] = round(known["died_s"] * 1e9)
            self.add(Fact("processes", known["died_s"], row), None)


def _meta(joined: Joined) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "format_version": SCHEMA_VERSION,
        "command": [],
        "labels": {},
        "leakscope_version": __version__,
        "start_mono_ns": round(joined.start_s * 1e9),
        **joined.meta,
        "imports": [
            {"file": part.source.name, "format": part.format, "clock": part.clock_used, "lacks": part.lacks}
            for part in joined.parts
        ],
    }
    if joined.epoch_s is not None:
        began_s = joined.epoch_s + joined.start_s
        meta["start_unix_ns"] = round(began_s * 1e9)
        meta["started_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began_s))
    return meta
