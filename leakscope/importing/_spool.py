"""A file that was read: its facts, on disk until the clock of all is known, and figures of them. Memory is bounded."""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..errors import LeakscopeError, UnreadableInput
from . import _apart
from ._facts import Fact, NotThisFormat
from ._formats import module_of
from ._source import Source

MOST_ROWS = 5_000_000  # of one file: two months of one process, once a second
_MOST_PROCESSES = 100_000
_LATEST_S = 8e9  # the year 2223: later is no moment


@dataclass
class Seen:
    """Of one process in one file: seconds of the file's clock, bytes."""

    first_s: float
    last_s: float
    peak_bytes: int = 0
    sample_count: int = 0


@dataclass
class Part:
    """One file of a recording."""

    source: Source
    format: str
    stream: IO[str]
    row_count: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf
    seen: dict[int, Seen] = field(default_factory=dict)
    tables: Counter[str] = field(default_factory=Counter)
    clock_used: str = ""

    def facts(self) -> Iterator[Fact]:
        self.stream.seek(0)
        for line in self.stream:
            yield Fact(*json.loads(line))

    def add(self, fact: Fact) -> None:
        self.stream.write(json.dumps(fact) + "\n")
        self.row_count += 1
        self.tables[fact.table] += 1
        self.first_s, self.last_s = min(self.first_s, fact.at_s), max(self.last_s, fact.at_s)
        pid = fact.row.get("pid")
        if pid is not None:
            seen = self.seen.setdefault(pid, Seen(fact.at_s, fact.at_s))
            seen.first_s, seen.last_s = min(seen.first_s, fact.at_s), max(seen.last_s, fact.at_s)
            if fact.table == "process_samples":
                seen.sample_count += 1
                seen.peak_bytes = max(seen.peak_bytes, fact.row.get("rss_bytes") or 0)

    @property
    def lacks(self) -> str:
        return str(module_of(self.format).LACKS)

    def close(self) -> None:
        self.stream.close()


def part_of(path: Path, name: str) -> Part:
    """Read one file. **Errors** UnreadableInput, with one line; LeakscopeError where an extra is not installed."""
    source = Source(path)
    part = Part(source, name, tempfile.TemporaryFile("w+", encoding="ascii"))  # noqa: SIM115
    try:
        _read(part)
    except NotThisFormat as error:
        part.close()
        raise UnreadableInput(f"{path} {error}") from None
    except LeakscopeError:
        part.close()
        raise
    except OSError as error:
        part.close()
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a shape that no reader foresaw: the file's fault or ours, the same line for the user
        part.close()
        raise UnreadableInput(
            f"{path} is damaged, or no {name} file: {type(error).__name__}: {_short(error)}"
        ) from None
    return part


def _read(part: Part) -> None:
    module = module_of(part.format)
    for fact in _apart.facts(part.format, part.source) if hasattr(module, "EXTRA") else module.read(part.source):
        if not abs(fact.at_s) <= _LATEST_S:  # nor is NaN
            part.source.left_out += 1
            continue
        part.add(fact)
        if part.row_count > MOST_ROWS:
            raise NotThisFormat(f"has more than {MOST_ROWS:,} figures: cut it into parts, or ask for less time")
        if len(part.seen) > _MOST_PROCESSES:
            raise NotThisFormat(f"names more than {_MOST_PROCESSES:,} processes: it is damaged")
    if not part.row_count:
        why = f" ({part.source.left_out:,} lines or values were no figures)" if part.source.left_out else ""
        told = "".join(f": {note}" for note in part.source.notes[:1])
        raise NotThisFormat(f"has no figure of {part.format} that can be read{why}{told}")
    if part.source.undated_tables:
        count = part.source.undated_tables
        tables = f"{count:,} tables do" if count > 1 else "a table does"
        part.source.notes.append(f"{tables} not say when and are left out: print `date` before each")
    if part.source.left_out:
        part.source.notes.append(f"{part.source.left_out:,} lines or values were no figures and are left out")


def _short(error: Any) -> str:
    text = " ".join(str(error).split())[:120]
    return "".join(character if character.isprintable() else "?" for character in text)
