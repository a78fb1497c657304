"""`ps` in a loop (`ps aux`, `ps -o pid,rss,...`), with the output of `date` above each table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ._days import Days
from ._facts import ELAPSED, Fact, NotThisFormat
from ._figures import KIB, amount, number, whole
from ._source import Source

LACKS = "has sizes of processes as ps prints them, not what is in them"
_LAST = ("COMMAND", "CMD", "ARGS")
_COLUMNS = {
    "RSS": "rss_bytes", "RSZ": "rss_bytes", "VSZ": "virtual_bytes", "SIZE": "", "PSS": "pss_bytes", "USS": "uss_bytes",
}  # fmt: skip
_LONG_START = re.compile(r"[A-Z][a-z]{2} +[A-Z][a-z]{2} +\d+ +\d\d:\d\d:\d\d +\d{4}")
_LASTED = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d\d):(\d\d)")


def sniff(head: bytes, name: str) -> bool:
    return any(_header(line) for line in head.decode("utf-8", "replace").split("\n")[:400])


def read(source: Source) -> Iterator[Fact]:
    """Without any date, how long a process has run (ETIME) tells when."""
    source.tool = "ps"
    source.meta |= {"whole_machine": True, "sees_ends": True}
    days, header, at_s, unsaid = Days(source), [], None, 0
    for line in source.lines():
        found = _header(line)
        if found:
            header, at_s = found, days.at_s()
            unsaid += at_s is None
        elif not header:
            days.look_at(line)
        elif line.strip():
            yield from _row(source, header, line, at_s, days)
        else:
            header = []
    if days.last is None and unsaid > 1 and source.clock != ELAPSED:
        raise NotThisFormat("does not say when each table of ps was printed: print `date` before each")
    if source.clock == ELAPSED:  # each row says how long its process has run
        source.undated_tables = 0
    if len(source.about) <= 20:
        source.meta.pop("whole_machine")


def _row(source: Source, header: list[str], line: str, at_s: float | None, days: Days) -> Iterator[Fact]:
    text = line
    if "STARTED" in header and (match := _LONG_START.search(text)):
        text = text[: match.start()] + match[0].replace(" ", "_") + text[match.end() :]
    words = text.split(None, len(header) - 1)
    row = dict(zip(header, words))
    pid, rss = whole(row.get("PID")), amount(row.get("RSS", row.get("RSZ")), KIB)
    if pid is None or rss is None or len(words) < len(header):
        days.look_at(line)  # the date of the next table
        return
    if at_s is None:
        at_s = _lasted_s(row.get("ELAPSED", ""))
        if at_s is None:
            return
        source.clock = ELAPSED
    if not rss:  # of the kernel, or ended
        return
    command = next((row[name] for name in _LAST if name in row), "").strip()
    is_whole = " " in command or "/" in command
    source.knows(
        pid,
        comm=command.split(" ")[0].rsplit("/", 1)[-1][:15],
        cmdline=command if is_whole else None,
        ppid=whole(row.get("PPID")),
    )
    sample = {column: amount(row[name], KIB) for name, column in _COLUMNS.items() if name in row and column}
    sample["thread_count"] = whole(row.get("NLWP", row.get("THCNT")))
    yield Fact("process_samples", at_s, {"pid": pid, **sample, "state": (row.get("STAT") or row.get("S") or "")[:1]})


def _lasted_s(text: str) -> float | None:
    if match := _LASTED.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)
    return number(text)


def _header(line: str) -> list[str]:
    """Names of columns, where the last may have blanks in it."""
    words = line.split()
    is_one = "PID" in words and ("RSS" in words or "RSZ" in words) and "RES" not in words and "Time" not in words
    return words if is_one and all(word.upper() == word for word in words) else []
