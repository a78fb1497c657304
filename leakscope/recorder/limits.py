"""How near memory is to the limits that end a job. Runs in the recorder.

The cgroups of the job and those above them, the machine, the rlimits of each process, /dev/shm, each GPU. Page cache
does not count as used: the kernel takes it back before it kills.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..units import format_bytes
from .figures import LEAST_STEADY_S, Course, Steady
from .tree import Row

# A snapshot is asked for at each, while there is room to make one; only from the second on it is worth a word.
LOOKS, LEVELS = 0.75, (0.85, 0.95)
STALLED_PERCENT = 10.0  # of the last 10 s
PRESSURE, NEARING = "pressure", "nearing"
HYSTERESIS_FRACTION = 0.05  # a level is announced again only after use fell this much below it
_LEAST_WATCHED_S = 8.0
_FULL = 0.95  # of a limit: the kernel kills when it can free no more pages, some below it
_HOST, _TOP = "host", "cgroup /"
_FORGET_S = 30.0  # GPUs are read every 2 s; what was not seen for so long is gone


class Limit(NamedTuple):
    """One limit at one instant. ``seconds_left`` is None unless its use grows steadily."""

    name: str
    used_bytes: int
    limit_bytes: int
    seconds_left: float | None = None

    @property
    def bytes_per_s(self) -> float | None:
        """By how much it fills, whoever else fills it too; None where nobody knows."""
        return self.room_bytes / self.seconds_left if self.seconds_left else None

    @property
    def room_bytes(self) -> int:
        return self.limit_bytes - self.used_bytes

    @property
    def used_fraction(self) -> float:
        return self.used_bytes / self.limit_bytes

    @property
    def is_memory(self) -> bool:
        """All that the job holds counts against it: the machine's or a cgroup's."""
        return self.name == "host" or self.name.startswith("cgroup ")

    @property
    def is_gpu(self) -> bool:
        return self.name.startswith("gpu:")


class Alarm(NamedTuple):
    """Something to record as an event: ``pressure`` or ``oom-kill-counter``; of ``nearing`` nobody is told."""

    event: str
    text: str
    value: float
    is_near_the_end: bool = False  # memory of the machine's: the whole heap may be worth a file now


class Kills(NamedTuple):
    """Processes of the job that the kernel ended for lack of memory. ``limit_bytes``: of the cgroup that was full."""

    number: int = 0
    limit_bytes: int | None = None

    @property
    def why(self) -> str:
        """``out of memory, cgroup limit 600 MiB``."""
        return "out of memory" + (f", cgroup limit {format_bytes(self.limit_bytes)}" if self.limit_bytes else "")


class _Known(NamedTuple):
    """A limit as last seen, when that was, and how its use went."""

    limit: Limit
    seen_s: float
    course: Course


class Limits:
    """Looks at rows of one instant and says when a level is passed or the kernel killed."""

    def __init__(self) -> None:
        self.new_kill_count = 0  # of the last look, among the job's own
        self._own_kills = Kills()
        self._are_ours = True  # no counter that others share has any of them
        self._known: dict[str, _Known] = {}
        self._reached: dict[str, float] = {}
        self._kills: dict[str, int] = {}
        self._stalled: set[str] = set()

    def __iter__(self) -> Iterator[Limit]:
        return (known.limit for known in self._known.values())

    @property
    def nearest(self) -> Limit | None:
        """The one that will be reached first; of the job's whole memory, where nothing grows steadily."""
        growing = [limit for limit in self if limit.seconds_left is not None]
        if growing:
            return min(growing, key=lambda limit: limit.seconds_left or 0.0)
        return min((limit for limit in self if limit.is_memory), key=lambda limit: limit.room_bytes, default=None)

    def look_at(
        self,
        host: list[Row],
        cgroups: list[Row],
        others: Iterable[Row] = (),
        gpus: Iterable[Row] = (),
        *,
        now_s: float = 0.0,
        own_cgroups: Collection[str] = (),
        job: Course | None = None,
    ) -> list[Alarm]:
        """Alarms that these rows give; a table that was not read in this round has none.

        ``others`` are rows of ``limit_samples``; ``own_cgroups`` are those the job's processes are in themselves, and
        ``job`` is how their memory went.
        """
        alarms = []
        own = {f"cgroup {path}" for path in own_cgroups}
        counted = own & {_name(row) for row in cgroups if row.get("oom_kill_count") is not None}
        risen = {_name(row): self._new_kills(_name(row), row.get("oom_kill_count")) for row in (*host, *cgroups)}
        for name, new in risen.items():
            if new:
                ended = f"{new} process{'es' if new > 1 else ''}"
                alarms.append(Alarm("oom-kill-counter", f"the kernel's OOM killer ended {ended}: {name}", float(new)))
        # The machine's count, where the cgroups of the job have none.
        self._note_own({name: new for name, new in risen.items() if new and name in (counted or {_HOST})}, cgroups)
        alarms += [alarm for row in (*host, *cgroups) for alarm in self._look_for_stalls(row)]
        limits = [limit for row in (*host, *cgroups) if (limit := _limit(row)) is not None]
        limits += [*_nearest_each(others), *_devices(gpus)]
        for limit in limits:
            self._follow(limit, now_s, job if limit.is_memory else None)
            if not limit.is_gpu:  # a GPU that is full is well used
                alarms += self._look_for_pressure(limit)
        for name in [name for name, known in self._known.items() if known.seen_s < now_s - _FORGET_S]:
            del self._known[name]
        return alarms

    def _follow(self, limit: Limit, now_s: float, job: Course | None) -> None:
        """By its own course; where others are too restless for that, by the job's."""
        known = self._known.get(limit.name)
        course = known.course if known is not None else Course()
        if course.add(now_s, limit.used_bytes) or known is None:
            steady = course.steady(_LEAST_WATCHED_S)
            if steady is None and job is not None:
                steady = job.steady(_LEAST_WATCHED_S)
            left_s = _seconds_left(limit, steady)
        else:
            left_s = known.limit.seconds_left
        self._known[limit.name] = _Known(limit._replace(seconds_left=left_s), now_s, course)

    def _new_kills(self, name: str, count: int | None) -> int:
        """Since the last look."""
        if count is None:
            return 0
        new = count - self._kills.setdefault(name, count)
        self._kills[name] = count
        return max(0, new)

    def _note_own(self, risen: Mapping[str, int], cgroups: Sequence[Row]) -> None:
        """What the counters of the job's own rose by: that of a cgroup of version 2 counts those below it, too."""
        self.new_kill_count = 0
        for name, new in risen.items():
            if not any(_is_below(name, other) for other in risen if other != name):
                below = (n for other, n in risen.items() if other != name and _is_below(other, name))
                self.new_kill_count += max(new, sum(below))
        if self.new_kill_count:
            limit_bytes = next(
                filter(None, (_full_limit(name, cgroups) for name in risen)), self._own_kills.limit_bytes
            )
            self._own_kills = Kills(self._own_kills.number + self.new_kill_count, limit_bytes)
            self._are_ours = self._are_ours and not risen.keys() & {_HOST, _TOP}

    def own_kills(self, sigkill_count: int) -> Kills:
        """Of the whole run so far. A counter that strangers share counts theirs, too: ``sigkill_count`` of the job's
        processes were ended by SIGKILL, as far as that is known.
        """
        found = self._own_kills
        return found if self._are_ours else found._replace(number=min(found.number, sigkill_count))

    def _look_for_pressure(self, limit: Limit) -> list[Alarm]:
        known = self._reached.get(limit.name, 0.0)
        reached = max((level for level in (LOOKS, *LEVELS) if limit.used_fraction >= level), default=0.0)
        if reached > known:
            self._reached[limit.name] = reached
            text = f"memory under pressure: {limit.used_fraction:.0%} of the limit is used, {limit.name}"
            is_near = reached == LEVELS[-1] and not limit.is_gpu
            return [Alarm(NEARING if reached == LOOKS else PRESSURE, text, limit.used_fraction, is_near)]
        if limit.used_fraction < known - HYSTERESIS_FRACTION:
            self._reached[limit.name] = reached
        return []

    def _look_for_stalls(self, row: Row) -> list[Alarm]:
        """Tasks that wait for memory, whatever the limits say: with swap, or a ``memory.high``, none may be near."""
        stalled, name = row.get("psi_full_avg10") or 0.0, _name(row)
        if stalled >= STALLED_PERCENT and name not in self._stalled:
            self._stalled.add(name)
            text = f"memory under pressure: all tasks waited for memory in {stalled:.0f}% of 10 s, {name}"
            return [Alarm(NEARING, text, stalled / 100)]
        if stalled < STALLED_PERCENT / 2:
            self._stalled.discard(name)
        return []


def _is_below(name: str, above: str, or_is_it: bool = False) -> bool:
    return name.startswith(above.rstrip("/") + "/") or (or_is_it and name == above)


def _full_limit(name: str, cgroups: Sequence[Row]) -> int | None:
    """The limit of the cgroup ``name``, or of the nearest above it, that was reached at some time."""
    chain = [row for row in cgroups if _is_below(name, _name(row), True)]
    for row in sorted(chain, key=lambda row: -len(row["cgroup"])):
        peak_bytes = max(row.get("cgroup_peak_bytes") or 0, row.get("current_bytes") or 0)
        if row.get("limit_bytes") and peak_bytes >= _FULL * row["limit_bytes"]:
            return int(row["limit_bytes"])
    return None


def _seconds_left(limit: Limit, steady: Steady | None) -> float | None:
    """A forecast reaches twice as far as was watched at most, until ``LEAST_STEADY_S`` were."""
    if steady is None:
        return None
    seconds = max(0, limit.room_bytes) / steady.rate
    return seconds if steady.watched_s >= min(LEAST_STEADY_S, seconds / 2) else None


def _name(row: Row) -> str:
    return f"cgroup {row['cgroup']}" if "cgroup" in row else _HOST


def _limit(row: Row) -> Limit | None:
    if "cgroup" not in row:
        total, available = row["mem_total_bytes"], row["mem_available_bytes"]
        return Limit("host", total - available, total) if total and available is not None else None
    if not row["limit_bytes"]:
        return None
    cache_bytes = max(0, (row["cgroup_file_bytes"] or 0) - (row["cgroup_shmem_bytes"] or 0))
    return Limit(_name(row), max(0, row["current_bytes"] - cache_bytes), row["limit_bytes"])


def _nearest_each(rows: Iterable[Row]) -> Iterator[Limit]:
    """Of each kind the process with the least room: a thousand workers have the same rlimit."""
    nearest: dict[str, Row] = {}
    for row in rows:
        known = nearest.get(row["limit_name"])
        if known is None or row["limit_bytes"] - row["used_bytes"] < known["limit_bytes"] - known["used_bytes"]:
            nearest[row["limit_name"]] = row
    for name, row in nearest.items():
        of = f" of process {row['pid']}" if row.get("pid") is not None else ""
        yield Limit(name + of, row["used_bytes"], row["limit_bytes"])


def _devices(rows: Iterable[Row]) -> Iterator[Limit]:
    """Of a GPU that is divided, the part with the least room."""
    nearest: dict[str, Limit] = {}
    for row in rows:
        total_bytes, used_bytes = row.get("gpu_total_bytes"), row.get("gpu_used_bytes")
        if total_bytes and used_bytes is not None:
            limit = Limit(f"gpu:{row['gpu_index']}", used_bytes, total_bytes)
            nearest[limit.name] = min(limit, nearest.get(limit.name, limit), key=lambda limit: limit.room_bytes)
    yield from nearest.values()
