"""Kernel logs and logs of killers: dmesg, journalctl (text, json, export), syslog, earlyoom, systemd-oomd, Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from .. import oom
from ..oom import carriers
from ..oom.records import Record
from ..units import KiB
from ._facts import BOOT, Fact, NotThisFormat
from ._figures import Moment, moment, unix
from ._source import Source

LACKS = "says who was killed and what the kernel saw then, not how memory got there"
YIELDS = True  # words of kills are in many a file: one that another format knows is of that
_EVIDENCE = re.compile(
    r"invoked oom-killer|Out of memory|out of memory: Kill|Killed process \d|oom-kill:|oom_reaper|OOM ?Kill|killed by "
    r"the OOM killer|oom-kill|OOM encountered|oom[_-]kill event|early"
    r"oom|systemd-oomd|[Ss]ending SIG(KILL|TERM) to (the )?|lowmemorykiller|\blmkd\b|memory limit.* killed",
)
_MOST_LINES, _REPORT_LINES = 20_000, 1500
_MOST_BYTES = 64 << 20  # of a log that is one JSON document
_DAY_S = 86400.0
_JSON_STARTS = (b"{", b"[", b"\x1e{")


def sniff(head: bytes, name: str) -> bool:
    if not _EVIDENCE.search(head.decode("utf-8", "replace")) and not _looks_like_log(head, name):
        return False
    text = head.lstrip()[:200]
    return not any(word in text for word in (b'"kind"', b'"apiVersion"', b"Name:  ", b'"status":"success"'))


def read(source: Source) -> Iterator[Fact]:
    """The lines of each report of a kill, and who was killed as a process that ended then."""
    source.tool = "kernel"
    text = _evidence(source)
    records = list(carriers.records(text))
    reading = oom.read(text)
    if reading.unread_lines:
        source.notes.append(f"{len(reading.unread_lines):,} lines speak of kills in words that are not read yet")
    if not reading.events:
        raise NotThisFormat("names no process that was killed for memory: " + reading.notes[-1])
    last = datetime.fromtimestamp(source.path.stat().st_mtime, timezone.utc)
    clock = _clock(source, reading.events, last)
    for event in reading.events:
        at_s = _at_s(event, clock, last)
        if at_s is None:
            source.left_out += 1
            continue
        for line in _report(records, event):
            yield Fact("kernel_log", at_s, {"log_source": "file", "text": line})
        yield from victim(source, event, at_s)


def _looks_like_log(head: bytes, name: str) -> bool:
    """One that has no kill in its beginning: read, so that its answer is about kills."""
    known = re.match(r"(dmesg|kern|kmsg|messages|syslog|journal|earlyoom)", name) is not None
    return (
        known
        and re.search(rb"^(?:\[ *\d+\.\d+\]|[A-Z][a-z]{2} +\d{1,2} \d\d:|\d{4}-\d\d-\d\d[T ])", head, re.M) is not None
    )


def _evidence(source: Source) -> bytes:
    """What tells of kills: all of a JSON document or an export, of other logs the lines round the evidence."""
    head = source.head()
    if head.lstrip().startswith(_JSON_STARTS) or head.startswith((b"__CURSOR", b"__REALTIME")):
        return source.content(_MOST_BYTES)
    kept: list[str] = []
    left = 0
    before: list[str] = []
    for line in source.lines():
        if _EVIDENCE.search(line):
            kept += before
            before = []
            left = max(left, _REPORT_LINES if "invoked oom-killer" in line else 4)
        if left > 0:
            kept.append(line)
            left -= 1
        else:
            before = [*before, line][-3:]
        if len(kept) > _MOST_LINES:
            source.notes.append("it has more kills than are read: the first are")
            break
    return "\n".join(kept).encode("utf-8", "replace")


def _clock(source: Source, events: Sequence[oom.OomEvent], last: datetime) -> str:
    """Dates, where all kills have them; else seconds since boot, which a log that has both tells of itself."""
    dated = [_dated(event, last) for event in events]
    known = [found for found in dated if found is not None]
    seconds = [event.kernel_time_s for event in events if event.kernel_time_s is not None]
    if len(known) == len(events) or (known and not seconds):
        source.clock = known[0][1]
        for event, found in zip(events, dated):
            if event.kernel_time_s is not None and found is not None:
                source.meta["boot_at_s"] = found[0] - event.kernel_time_s
        return source.clock
    if not seconds:
        unread = next((event.time for event in events if event.time is not None), None)
        why = f"has kills with times that cannot be read ({unread!r})" if unread else "has kills without a time"
        raise NotThisFormat(f"{why}: copy it with the times (dmesg, journalctl -o short-iso)")
    source.clock = BOOT
    return BOOT


def _at_s(event: oom.OomEvent, clock: str, last: datetime) -> float | None:
    if clock == BOOT:
        return event.kernel_time_s
    found = _dated(event, last)
    return found[0] if found is not None and found[1] == clock else None


def _dated(event: oom.OomEvent, last: datetime) -> Moment | None:
    if event.time is None or event.time_kind in ("none", "kernel_seconds", "kmsg_microseconds", "reltime"):
        return None
    if event.time.isdigit() and (at_s := unix(event.time)) is not None:
        return at_s, "unix"
    if event.time_kind in ("syslog", "logcat") and not re.search(r"\b\d{4}\b", event.time):
        found = _in_year(event, last.year)
        if found is not None and found[0] > last.timestamp() + _DAY_S:  # of December, copied in January
            found = _in_year(event, last.year - 1)
        return found
    return moment(event.time)


def _in_year(event: oom.OomEvent, year: int) -> Moment | None:
    if event.time_kind == "logcat":
        return moment(f"{year}-{event.time}")
    return moment(re.sub(r"(:\d\d)\.\d+", r"\1", f"{event.time} {year}"))


def _report(records: Sequence[Record], event: oom.OomEvent) -> list[str]:
    """Texts from where the kernel began to tell of it, at most so many lines before, down to the kill."""
    at = next((i for i, record in enumerate(records) if record.line_number == event.line_number), None)
    if at is None:
        return [event.text]
    begin = next((i for i in range(at, max(-1, at - _REPORT_LINES), -1) if "invoked oom-killer" in records[i].text), at)
    ended = any("Killed process" in record.text for record in records[begin:at])
    first = at if ended else begin
    return [record.text for record in records[first : at + 1] if record.text] or [event.text]


def victim(source: Source, event: oom.OomEvent, at_s: float) -> Iterator[Fact]:
    if event.pid is None or event.pid_is_intended_only or event.comm is None:
        return
    known = {"comm": event.comm, "cgroup": event.cgroup, "exit_signal": 9, "died_s": at_s}
    source.knows(event.pid, **known)
    anon, file, shmem = (kb * KiB if kb is not None else None for kb in _sizes_kb(event))
    if anon is not None:
        virtual = event.total_vm_kb * KiB if event.total_vm_kb is not None else None
        row = {"pid": event.pid, "rss_bytes": anon + (file or 0) + (shmem or 0), "anon_bytes": anon}
        yield Fact("process_samples", at_s, {**row, "file_bytes": file, "shmem_bytes": shmem, "virtual_bytes": virtual})


def _sizes_kb(event: oom.OomEvent) -> tuple[int | None, int | None, int | None]:
    return event.anon_rss_kb, event.file_rss_kb, event.shmem_rss_kb
