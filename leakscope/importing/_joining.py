"""Several files on one clock, with processes that several of them saw told once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from ..errors import BadInput
from ..units import MiB
from . import _same_curves
from ._facts import BOOT, CLOCKS, DAY, ELAPSED, LOCAL, UNIX, Fact
from ._source import Source
from ._spool import Part

_SMALL = 20 * MiB  # of a whole machine: a process that never had so much is nobody's question
_MOST_OF_A_MACHINE = 60  # processes
_SAME_ADDRESSES = 0.3  # of the smaller file's: what a job loads at first stays where it is
_DYING_S, _SLACK_S = 10.0, 2.0  # after the last sample of who was killed; clocks of logs are whole seconds
_LEAST_SHARE, _MOST_SHARE = 0.5, 1.25  # of what the kernel says it held: it grew since that sample


@dataclass(frozen=True)
class Placing:
    """Where clocks stand. ``zone``: of those that name none. ``offsets``: by a file's name ("" for all), either
    seconds to add, or the moment (seconds since 1970) at which the file's clock was 0.
    """

    zone: tzinfo = timezone.utc
    zone_name: str = "UTC"
    added_s: Mapping[str, float] = field(default_factory=dict)
    began_s: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Joined:
    """All that is written. ``shift_s``: of each part, to add to its moments. ``epoch_s``: seconds since 1970 at which
    the recording's clock is 0; None: nobody knows the date.
    """

    parts: Sequence[Part]
    shift_s: Sequence[float]
    epoch_s: float | None
    start_s: float
    end_s: float
    processes: dict[int, dict[str, Any]]
    meta: dict[str, Any]
    _pids: Sequence[Mapping[int, int]]
    _owners: Mapping[int, int]
    _left: frozenset[int]

    def facts(self) -> Iterator[tuple[Part, Fact]]:
        """Every fact on the recording's clock, with its pid. Samples of a process are those of one file."""
        takes = sorted(range(len(self.parts)), key=lambda index: self.parts[index].first_s + self.shift_s[index])
        for index, part in enumerate(self.parts):
            pids = self._pids[index]
            for fact in part.facts():
                pid = fact.row.get("pid")
                if pid is not None:
                    pid = pids[pid]
                    if pid in self._left or (fact.table == "process_samples" and self._owners.get(pid, index) != index):
                        continue
                    fact.row["pid"] = pid
                if "snapshot" in fact.row:  # a file is one
                    fact.row["snapshot"] = index + 1
                if "take" in fact.row:  # the same, of the heap of a process: they go by when they were made
                    fact.row["take"] = takes.index(index) + 1
                yield part, Fact(fact.table, fact.at_s + self.shift_s[index], fact.row)


def joined(parts: Sequence[Part], placing: Placing) -> Joined:
    """**Errors** BadInput where a clock cannot be placed beside the others."""
    pids = _pids(parts)
    unix = _unix_shifts(parts, placing, pids)
    known = [part.first_s + shift for part, shift in zip(parts, unix) if shift is not None]
    boot = next((p.source.boot_unix_s for p in parts if p.source.boot_unix_s is not None), None)
    if boot is None:  # the kernel's log was placed beside others
        boot = next(
            (shift for part, shift in zip(parts, unix) if part.source.clock == BOOT and shift is not None), None
        )
    epoch = None if not known else boot if boot is not None and boot <= min(known) else min(known) - 1.0
    shifts = _shifts(parts, placing, unix, epoch)
    _name_victims(parts, pids, shifts)
    _same_curves.name(parts, pids, shifts)
    start = min(part.first_s + shift for part, shift in zip(parts, shifts))
    end = max(part.last_s + shift for part, shift in zip(parts, shifts))
    owners = _owners(parts, pids)
    left = _left_out(parts, pids)
    recording = Joined(
        parts, shifts, epoch, start, end, _processes(parts, pids, shifts, left), _meta(parts), pids, owners, left
    )
    return recording


def _pids(parts: Sequence[Part]) -> list[dict[int, int]]:
    """Of each part, its pids as the recording has them: those that a file does not say are counted up from 1."""
    taken = {pid for part in parts for pid in (*part.seen, *part.source.about) if pid >= 0}
    unnamed: list[tuple[Source, int, int]] = []
    found: list[dict[int, int]] = []
    free = 1
    for part in parts:
        own = {}
        for pid in (*part.seen, *part.source.about):
            if pid >= 0:
                own[pid] = pid
            elif pid not in own:
                known = next((n for other, p, n in unnamed if _is_same(part.source, pid, other, p)), None)
                while known is None and free in taken:
                    free += 1
                own[pid] = free if known is None else known
                taken.add(own[pid])
                unnamed.append((part.source, pid, own[pid]))
        found.append(own)
    return found


def _is_same(one: Source, pid: int, other: Source, other_pid: int) -> bool:
    """Whether two files without pids are of one process: of one rank, or with memory at the same addresses."""
    if one is other:
        return False
    ranks = one.about.get(pid, {}).get("rank"), other.about.get(other_pid, {}).get("rank")
    if ranks != (None, None):
        return ranks[0] == ranks[1]
    shared = len(one.addresses & other.addresses)
    return shared > 0 and shared >= _SAME_ADDRESSES * min(len(one.addresses), len(other.addresses))


def _unix_shifts(parts: Sequence[Part], placing: Placing, pids: Sequence[Mapping[int, int]]) -> list[float | None]:
    """What to add to each part's moments for seconds since 1970; None: its date is not known."""
    shifts: list[float | None] = [_own_shift(part, placing) for part in parts]
    known = [(part, shift) for part, shift in zip(parts, shifts) if shift is not None]
    if not known:
        return shifts
    first = min(part.first_s + shift for part, shift in known)
    for index, part in enumerate(parts):
        if shifts[index] is not None:
            continue
        if part.source.clock == ELAPSED:
            added = placing.added_s.get(part.source.name, placing.added_s.get("", 0.0))
            moved = f"{added:g} s after" if added else "at"
            shifts[index] = first - part.first_s + added
            part.clock_used = f"{CLOCKS[ELAPSED]}, which began {moved} the first moment of the other files (--offset)"
        elif part.source.clock == BOOT:
            shifts[index] = _by_ends(part, known, pids[index])
            part.clock_used = f"{CLOCKS[BOOT]}, placed by the end of a process that it says was killed"
    return shifts


def _own_shift(part: Part, placing: Placing) -> float | None:
    source, name = part.source, part.source.name
    added = placing.added_s.get(name, placing.added_s.get("", 0.0))
    began = placing.began_s.get(name, placing.began_s.get(""))
    said = f"{CLOCKS[source.clock]}{f', moved by {added:+g} s' if added else ''}"
    part.clock_used = said
    if source.clock == UNIX:
        return added
    if source.clock == LOCAL:
        part.clock_used = f"{said}, taken as {placing.zone_name} (--tz)"
        return added - ahead_s(part.first_s, placing.zone)
    if began is not None:
        part.clock_used = f"{said}, from the moment that --offset says"
        return began + added
    if source.clock == BOOT and source.boot_unix_s is not None:
        part.clock_used = f"{said}, and the time of boot as the file says"
        return source.boot_unix_s + added
    if source.clock == DAY:
        day_s = source.path.stat().st_mtime
        local = day_s + ahead_s(day_s, placing.zone)
        midnight = local - local % 86400 - (part.last_s - part.last_s % 86400)
        if midnight + part.last_s > local + 60:
            midnight -= 86400
        part.clock_used = f"{said}, on the day when the file was last written (--offset), taken as {placing.zone_name}"
        return added + midnight - ahead_s(midnight, placing.zone)
    return None


def ahead_s(at_s: float, zone: tzinfo) -> float:
    """Of UTC, at that moment."""
    offset = zone.utcoffset(datetime(1970, 1, 1) + timedelta(seconds=at_s))
    return offset.total_seconds() if offset is not None else 0.0


def _by_ends(part: Part, known: Sequence[tuple[Part, float]], pids: Mapping[int, int]) -> float:
    """Where a process that the kernel's log kills was last seen by another file."""
    for pid, seen in part.seen.items():
        for other, shift in known:
            if pid >= 0 and pid in other.seen:
                return other.seen[pid].last_s + shift - seen.last_s
    raise BadInput(
        f"{part.source.path} counts from boot and does not say when that was: "
        f"add --offset {part.source.name}=TIME_OF_BOOT (uptime -s), as 2026-11-25T10:00:00Z"
    )


def _shifts(parts: Sequence[Part], placing: Placing, unix: Sequence[float | None], epoch: float | None) -> list[float]:
    """To the recording's clock. Without any date boot is its 0, and what counts from its own beginning begins there."""
    if epoch is not None:
        return [(shift if shift is not None else -part.first_s) - epoch for part, shift in zip(parts, unix)]
    boots = [part.first_s for part in parts if part.source.clock == BOOT]
    begin = min(boots, default=0.0)
    found = []
    for part in parts:
        added = placing.added_s.get(part.source.name, placing.added_s.get("", 0.0))
        found.append(added if part.source.clock == BOOT else begin - min(0.0, part.first_s) + added)
    return found


def _name_victims(parts: Sequence[Part], pids: Sequence[dict[int, int]], shifts: Sequence[float]) -> None:
    """A process without a pid whose samples end as the kernel kills one of its size is that one, if only one fits."""
    sampled = {pid for part in parts for pid, seen in part.seen.items() if pid >= 0 and seen.sample_count > 1}
    for at, part in enumerate(parts):
        for victim, about in part.source.about.items():
            if victim < 0 or victim in sampled or "died_s" not in about or victim not in part.seen:
                continue
            died_s, size = about["died_s"] + shifts[at], part.seen[victim].peak_bytes
            fitting = [
                (index, pid, died_s - seen.last_s - shifts[index])
                for index, other in enumerate(parts)
                for pid, seen in other.seen.items()
                if pid < 0 and seen.sample_count > 1
                and -_SLACK_S <= died_s - seen.last_s - shifts[index] <= _DYING_S
                and _LEAST_SHARE * size <= seen.peak_bytes <= _MOST_SHARE * size
            ]  # fmt: skip
            if len(fitting) == 1:
                index, pid, before_s = fitting[0]
                pids[index][pid] = victim
                parts[index].source.notes.append(
                    f"its process is taken for {about.get('comm', 'the one')}[{victim}], which the kernel killed "
                    f"{before_s:.1f} s after its last sample and which was as large"
                )


def _owners(parts: Sequence[Part], pids: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Which part tells the memory of a process that several saw: the one with most samples."""
    best: dict[int, tuple[int, int]] = {}
    for index, part in enumerate(parts):
        for pid, seen in part.seen.items():
            if seen.sample_count:
                named = pids[index][pid]
                best[named] = max(best.get(named, (0, 0)), (seen.sample_count, -index))
    return {pid: -index for pid, (_, index) in best.items()}


def _left_out(parts: Sequence[Part], pids: Sequence[Mapping[int, int]]) -> frozenset[int]:
    """Of files that list a whole machine: processes that are small beside others."""
    peaks: dict[int, int] = {}
    kept: set[int] = set()
    for index, part in enumerate(parts):
        for pid, seen in part.seen.items():
            named = pids[index][pid]
            peaks[named] = max(peaks.get(named, 0), seen.peak_bytes)
            if not part.source.meta.get("whole_machine"):
                kept.add(named)
    if not any(part.source.meta.get("whole_machine") for part in parts):
        return frozenset()
    largest = sorted(peaks, key=lambda pid: -peaks[pid])
    kept |= {pid for pid in largest[:_MOST_OF_A_MACHINE] if peaks[pid] >= _SMALL} or set(largest[:5])
    left = frozenset(peaks) - kept
    if left:
        first = next(part for part in parts if part.source.meta.get("whole_machine"))
        first.source.notes.append(f"{len(left):,} small processes of the machine are left out")
    return left


def _processes(
    parts: Sequence[Part], pids: Sequence[Mapping[int, int]], shifts: Sequence[float], left: frozenset[int]
) -> dict[int, dict[str, Any]]:
    """Columns of ``processes`` by pid; ``born_s`` and, where it was seen to be gone, ``died_s`` on the one clock."""
    found: dict[int, dict[str, Any]] = {}
    for index, part in enumerate(parts):
        for pid, seen in part.seen.items():
            named = pids[index][pid]
            if named in left:
                continue
            row = found.setdefault(named, {"born_s": math.inf, "last_s": -math.inf, "peak_bytes": 0})
            row["born_s"] = min(row["born_s"], seen.first_s + shifts[index])
            row["last_s"] = max(row["last_s"], seen.last_s + shifts[index])
            row["peak_bytes"] = max(row["peak_bytes"], seen.peak_bytes)
            known = part.source.about.get(pid, {})
            for column, value in known.items():
                if column != "died_s":
                    row.setdefault(column, value)
            if "died_s" in known:
                row["died_s"] = known["died_s"] + shifts[index]
            elif part.source.meta.get("sees_ends") and seen.last_s < part.last_s:
                row.setdefault("died_s", seen.last_s + shifts[index])
            if pid < 0:
                row["is_unnamed"] = True
    whole = any(part.source.meta.get("whole_machine") for part in parts)
    if found and not whole:
        max(found.values(), key=lambda row: row["peak_bytes"])["is_root"] = True
    return found


def _meta(parts: Sequence[Part]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key in ("command", "host", "cwd", "python"):
            if part.source.meta.get(key):
                found.setdefault(key, part.source.meta[key])
    return found
