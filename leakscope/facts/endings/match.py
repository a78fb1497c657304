"""Which process of the job is the one that a line of the kernel's log says was killed.

The kernel prints the pid of the initial namespace: inside a container that number is not known, and may by chance be
that of another process. So a pid alone proves nothing; name, cgroup and size have to agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...confidence import AGAINST, STRONG
from ...oom import OomEvent
from ...units import HARDLY, MOST, MUCH, KiB
from ..processes.table import Process

CERTAIN, POSSIBLE = 0.99, AGAINST
_DYING_S = (
    10.0  # a victim that writes to a slow disk or has pinned memory takes a while, and is buried at the next look
)
# Between the last look and the kill the process grew on; what was mapped changes less than what was touched.
_VIRTUAL_TOLERANCE, _ANON_TOLERANCE = HARDLY, MUCH
_MUCH_LESS = MOST  # than at the last look: that was another process


@dataclass(frozen=True)
class Clock:
    """The log's clock: what it showed as the recording began, and by how much that may be wrong."""

    zero_s: float
    slack_s: float

    def time_s(self, event: OomEvent) -> float | None:
        """When it happened, in seconds since the recording began."""
        return None if event.kernel_time_s is None else event.kernel_time_s - self.zero_s


@dataclass(frozen=True)
class Match:
    """A kill in the log and the process it took; ``rivals`` fit as well."""

    event: OomEvent
    victim: Process
    confidence: float
    rivals: tuple[Process, ...]


def match(events: Sequence[OomEvent], members: Sequence[Process], clock: Clock) -> list[Match]:
    """At most one process for a kill and one kill for a process, the surest first."""
    pairs = [
        (confidence, e, m)
        for e, event in enumerate(events)
        for m, member in enumerate(members)
        if (confidence := _confidence(event, member, clock)) > 0
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], -(members[pair[2]].held_bytes or 0)))
    found: list[Match] = []
    taken_events: set[int] = set()
    taken_members: set[int] = set()
    for confidence, e, m in pairs:
        if e in taken_events or m in taken_members:
            continue
        taken_events.add(e)
        taken_members.add(m)
        rivals = [i for c, event, i in pairs if event == e and c == confidence and i != m]
        found.append(Match(events[e], members[m], confidence, tuple(members[i] for i in rivals)))
    for i, one in enumerate(found):  # who fitted one kill and fell to another is no rival
        rest = tuple(r for r in one.rivals if r not in [other.victim for other in found])
        found[i] = Match(one.event, one.victim, one.confidence, rest)
    return found


def same_cgroup(printed: str | None, own: str | None) -> bool | None:
    """Whether two paths may name one cgroup: in a container only the end of the path is seen. None: unclear."""
    if not printed or not own or own == "/":
        return None
    return printed == own or printed.endswith(own) or own.endswith(printed)


def _confidence(event: OomEvent, member: Process, clock: Clock) -> float:
    """0 where it cannot be this one."""
    if not _may_have_died_then(event, member, clock):
        return 0.0
    if event.pid is None and event.container_id:  # the status of a container, of which the member is one
        return CERTAIN if member.cgroup is not None and member.cgroup.endswith(event.container_id) else 0.0
    names, cgroups, sizes = (
        event.comm == member.comm,
        same_cgroup(event.cgroup, member.cgroup),
        _sizes_fit(event, member),
    )
    agrees = [names, cgroups, sizes].count(True)
    contradicts = [cgroups, sizes].count(False)
    if event.pid == member.pid:
        if agrees and not contradicts:
            return CERTAIN
        return STRONG if agrees > contradicts else 0.0
    if contradicts or not names:
        return 0.0
    return STRONG if sizes else POSSIBLE


def _may_have_died_then(event: OomEvent, member: Process, clock: Clock) -> bool:
    if member.died_s == float("inf") or not (member.was_sigkilled or member.ended_unseen):
        return False
    at_s = clock.time_s(event)
    if at_s is None:
        return True
    earliest_s = max(member.born_s, member.died_s - _DYING_S)
    return earliest_s - clock.slack_s <= at_s <= member.died_s + clock.slack_s


def _sizes_fit(event: OomEvent, member: Process) -> bool | None:
    """None: neither alike nor plainly another's, as after a fast growth since the last look."""
    if event.total_vm_kb is None or event.anon_rss_kb is None or not member.virtual_bytes or not member.anon_bytes:
        return None
    virtual = event.total_vm_kb * KiB / member.virtual_bytes
    anon = event.anon_rss_kb * KiB / member.anon_bytes
    if abs(virtual - 1) <= _VIRTUAL_TOLERANCE and abs(anon - 1) <= _ANON_TOLERANCE:
        return True
    return False if virtual < _MUCH_LESS or anon < _MUCH_LESS else None
