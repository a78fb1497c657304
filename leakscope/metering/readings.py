"""The figures of one moment: which series there are, with their values. However long a run is, there are few.

Processes are told by role, holders by the ten largest, limits by kind: whoever comes and goes by the thousand makes no
series of its own.
"""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..recorder import proc
from ..recorder.limits import Limit
from ..version import __version__
from ..watching.holders import Holder
from ..watching.scene import Member, Scene, program_of
from . import families as f
from .families import Family
from .labels import Names, shortened
from .totals import Floors, Totals

MOST_HOLDERS = 10
HOLDER_NAMES_AT_ONCE, HOLDER_NAMES_PER_HOUR = 40, 1.0
MOST_LABELS = 16  # of the user's own
_GPU_SEEN_S = 30.0  # they are read every 2 s; what was not seen for so long is gone
MOST_ROLES = 24  # there are 14, and a recording may come from a newer recorder
# Of where a recording belongs: job would be the name of Prometheus' own label.
_BELONGS = {"job": "job_id", **{key: key for key in ("rank", "node", "pod", "namespace", "attempt")}}
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_HolderName = tuple[str, str, str]  # path, type, role


class Reading(NamedTuple):
    """One series and its value."""

    family: Family
    labels: Mapping[str, str]
    value: float


class Readings:
    """Makes readings of one recording; remembers which names of holders have had a series."""

    def __init__(self, meta: Mapping[str, Any], name: str) -> None:
        self._about = _about(meta, name)
        start_ns = meta.get("start_unix_ns")
        self._start_s = start_ns / 1e9 if type(start_ns) is int else None
        self._names: Names[_HolderName] = Names(HOLDER_NAMES_AT_ONCE, HOLDER_NAMES_PER_HOUR)
        self._roles: set[str] = set()

    @property
    def about(self) -> Mapping[str, str]:
        """What is recorded: the labels of ``leakscope_recording_info``."""
        return self._about

    def of(self, scene: Scene, totals: Totals, floors: Floors) -> list[Reading]:
        found = [Reading(f.RECORDING, self._about, 1)]
        for family, value in (
            *self._moment(scene),
            *_memory(scene, totals, floors),
            *_progress(scene, totals),
            *_costs(totals),
        ):
            if value is not None:
                found.append(Reading(family, {}, value))
        return [*found, *self._by_role(scene), *_limits(scene), *_gpus(scene), *self._holders(scene)]

    def _moment(self, scene: Scene) -> Iterator[tuple[Family, float | None]]:
        if self._start_s is not None:
            yield f.STARTED, round(self._start_s, 3)
            yield f.SAMPLED, round(self._start_s + scene.now_s, 3)
        yield f.PROCESSES, len(_living(scene))

    def _by_role(self, scene: Scene) -> Iterator[Reading]:
        sizes_of: dict[str, list[int]] = {}
        for member in scene:
            if len(self._roles) < MOST_ROLES:
                self._roles.add(member.role)
            role = member.role if member.role in self._roles else "other"
            sizes_of.setdefault(role, []).append(member.memory_bytes)
        for role, sizes in sorted(sizes_of.items()):
            labels = {"role": shortened(role)}
            yield Reading(f.ROLE_MEMORY, labels, sum(sizes))
            yield Reading(f.ROLE_LARGEST, labels, max(sizes))
            yield Reading(f.ROLE_PROCESSES, labels, len(sizes))

    def _holders(self, scene: Scene) -> Iterator[Reading]:
        largest: dict[_HolderName, Holder] = {}
        for holder in scene.holders.largest():  # of ranks that are alike the largest comes first
            member = scene.members.get(holder.process)
            name = shortened(holder.path), shortened(holder.type_name), member.role if member is not None else "other"
            largest.setdefault(name, holder)
            if len(largest) == MOST_HOLDERS:
                break
        taken_s = scene.holders.newest_s()
        if not largest or taken_s is None:  # no snapshot, or not yet worked out
            return
        if self._start_s is not None:
            yield Reading(f.HOLDERS_TAKEN, {}, round(self._start_s + taken_s, 3))
        shown = list(self._names.admitted(largest, scene.now_s))
        for name in shown:
            labels = dict(zip(f.HOLDER.labels, name))
            yield Reading(f.HOLDER, labels, largest[name].bytes)
            if (growth_bytes := largest[name].growth_bytes) is not None:
                yield Reading(f.HOLDER_GROWTH, labels, growth_bytes)
        yield Reading(f.HOLDERS_LEFT_OUT, {}, len(largest) - len(shown))


def _about(meta: Mapping[str, Any], name: str) -> dict[str, str]:
    """What was recorded, by names of labels. Values that look like secrets are masked, as in the recording itself."""
    command = " ".join(map(str, meta.get("command") or ()))
    own = meta.get("labels")
    belongs = meta.get("belongs")
    given = {f"label_{key}": value for key, value in own.items()} if isinstance(own, Mapping) else {}
    where = dict(belongs) if isinstance(belongs, Mapping) else {}
    known = {
        "version": __version__,
        "recording": name,
        "program": program_of(command, os.path.basename(command.split(" ")[0])),
        **{name: where[key] for key, name in _BELONGS.items() if where.get(key) is not None},
    }
    more = dict(list(given.items())[:MOST_LABELS])
    return {_NOT_IN_A_NAME.sub("_", key): shortened(str(value)) for key, value in {**known, **more}.items()}


def _living(scene: Scene) -> list[Member]:
    return list(scene)


def _memory(scene: Scene, totals: Totals, floors: Floors) -> Iterator[tuple[Family, float | None]]:
    members, gain = _living(scene), floors.gain()
    if members:
        yield f.PSS, sum(member.memory_bytes for member in members)
        yield f.RSS, sum(member.rss_bytes for member in members)
        yield f.PRIVATE, totals.private_bytes()
        yield f.SWAP, totals.swap_bytes()
    yield f.PEAK, scene.peak.size_bytes or None
    if gain is not None:
        yield f.GAINED, gain.bytes
        yield f.GROWTH, round(gain.per_hour)
    steady = scene.figures.steady_bytes_per_s
    yield f.STEADY_GROWTH, None if steady is None else round(steady * 3600)


def _progress(scene: Scene, totals: Totals) -> Iterator[tuple[Family, float | None]]:
    pace = scene.fastest()
    if pace is not None:
        yield f.STEP, pace.step
        yield f.STEP_RATE, None if pace.per_s is None else round(pace.per_s, 3)
    yield f.SNAPSHOTS, totals.snapshot_count
    yield f.SNAPSHOT_PAUSES, round(totals.snapshot_pauses_s, 6)
    yield f.SNAPSHOT_LONGEST, round(totals.snapshot_longest_s, 6)
    yield f.KILLS, totals.kill_count
    yield f.ALERTS, totals.alert_count
    yield f.LOST, totals.lost_s


def _costs(totals: Totals) -> Iterator[tuple[Family, float | None]]:
    own = totals.recorder
    yield f.RECORDER_CPU, own.get("cpu_s")
    yield f.RECORDER_MEMORY, own.get("rss_bytes")
    yield f.RECORDER_ROUND, own.get("sample_duration_s")
    yield f.RECORDER_JOURNAL, own.get("journal_bytes")
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)  # those that worked out who holds what
    yield f.EXPORTER_CPU, round(time.process_time() + of_children.ru_utime + of_children.ru_stime, 6)
    statm = proc.read("/proc/self/statm")
    yield f.EXPORTER_MEMORY, int(statm.split()[1]) * proc.PAGE_BYTES if statm else None


def _limits(scene: Scene) -> Iterator[Reading]:
    nearest: dict[str, Limit] = {}
    for limit in scene.limits:
        kind = limit.name if limit.is_gpu else limit.name.split(" ")[0]  # "cgroup /a/b", "rlimit-as of process 42"
        known = nearest.get(kind)
        if known is None or _urgency(limit) < _urgency(known):
            nearest[kind] = limit
    for kind, limit in sorted(nearest.items()):
        labels = {"limit": shortened(kind)}
        yield Reading(f.LIMIT, labels, limit.limit_bytes)
        yield Reading(f.LIMIT_USED, labels, limit.used_bytes)
        if limit.seconds_left is not None:
            yield Reading(f.LIMIT_LEFT, labels, round(limit.seconds_left, 1))


def _urgency(limit: Limit) -> tuple[float, int]:
    return (float("inf") if limit.seconds_left is None else limit.seconds_left), limit.room_bytes


def _gpus(scene: Scene) -> Iterator[Reading]:
    present = [(*key, gpu) for key, gpu in scene.gpus.items() if gpu.seen_s > scene.now_s - _GPU_SEEN_S]
    for uuid, pid, device in present:
        if pid is None and device.total_bytes is not None:
            of_job = sum(gpu.used_bytes for on, whose, gpu in present if on == uuid and whose and gpu.is_ours)
            labels = {"gpu": str(device.index), "uuid": shortened(uuid)}
            yield Reading(f.GPU, labels, device.total_bytes)
            yield Reading(f.GPU_USED, labels, device.used_bytes)
            yield Reading(f.GPU_JOB, labels, of_job)
