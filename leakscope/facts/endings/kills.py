"""Which processes of the job the OOM killer ended, how sure that is, and what was not its doing: the evidence ladder.

From the top: a line of the kernel's log that fits a process; the counter of its own cgroup; the counter of the machine.
A counter that stood still clears the kernel, whatever the memory looked like. SIGKILL alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...confidence import AGAINST, LIKELY, STRONG, SURE, WEAK
from ...oom import OomEvent
from ...storage import Recording
from ...units import ENDS_S, HARDLY, MOST, MUCH, SOON_S, KiB
from ..processes.table import Process
from ..tables import cells, only
from .counters import Counter, of_cgroup, of_host

_FIRST_TO_GO = 1000  # oom_score_adj
# The kernel's log has a clock of its own, which runs away from CLOCK_MONOTONIC: by half a second in 1,000 at most. Of
# lines that were read as they came it is known how far, but for the time between two looks.
_SLACK_S, _DRIFT, _LOOK_S = SOON_S, 0.0005, ENDS_S


@dataclass(frozen=True)
class Kill:
    """One process that was killed; ``victim`` None: nobody the recorder had seen.

    ``event`` is what the log says of it, ``counter`` the counter that rose; ``rivals`` may be meant instead.
    ``time_s`` is when it happened, in seconds since the recording began.
    """

    victim: Process | None
    confidence: float
    time_s: float | None
    event: OomEvent | None = None
    counter: Counter | None = None
    rivals: tuple[Process, ...] = ()


@dataclass(frozen=True)
class Kills:
    """``found``, the main one first; ``cleared``: ended by SIGKILL, but not by the OOM killer, as a counter proves.

    ``unclear``: ended by SIGKILL, and there is no evidence either way. ``elsewhere`` are kills of strangers.
    """

    found: tuple[Kill, ...]
    cleared: tuple[tuple[Process, Counter], ...]
    unclear: tuple[Process, ...]
    elsewhere: tuple[OomEvent, ...]
    remarks: tuple[str, ...]
    host: Counter
    members: tuple[Process, ...]

    @property
    def sure(self) -> tuple[Kill, ...]:
        """Without those that are a mere possibility or nobody the recorder had seen."""
        return tuple(k for k in self.found if k.victim is not None and k.confidence >= LIKELY)

    def is_of_cgroup(self, name: str) -> bool:
        """Somebody in it was killed, and not for lack of memory of the whole machine."""
        return any(_is_in(k.victim.cgroup, name) and not _is_global(k) for k in self.sure if k.victim is not None)

    @property
    def is_of_machine(self) -> bool:
        """Somebody was killed since the whole machine lacked memory."""
        return any(map(_is_global, self.sure))

    @property
    def of_root(self) -> bool:
        return any(k.victim is not None and k.victim.is_root for k in self.sure)


def kills(recording: Recording, everyone: Sequence[Process]) -> Kills:
    """Which of the job's processes were killed, by all that the recording says."""
    host = of_host(recording)
    log = _read_log(recording)
    matches = match(log.events, everyone, log.clock)
    cgroups = {c: of_cgroup(recording, c) for c in sorted({m.cgroup for m in everyone if m.cgroup})}
    # A name and a moment that fit are no more than a possibility, which the counter of its cgroup may rule out.
    matches = [
        m for m in matches if m.confidence > POSSIBLE or not (m.victim.cgroup and cgroups[m.victim.cgroup].is_known)
    ]
    found = [_by_log(m, log.clock, cgroups.get(m.victim.cgroup or "")) for m in matches]
    strangers = [e for e in log.events if e not in [m.event for m in matches]]
    strangers = _without_our_own(recording, strangers, log.clock)
    for name in sorted(cgroups, key=len, reverse=True):  # a cgroup of version 2 also counts what those inside it count
        counter = cgroups[name]
        named = [k for k in found if k.victim is not None and _is_in(k.victim.cgroup, name)]
        missing_count = counter.new_count - len(named)
        if missing_count > 0 and _is_jobs_own(counter, name):
            inside = [m for m in everyone if _is_in(m.cgroup, name) and m not in [k.victim for k in found]]
            unmatched = [e for e in strangers if same_cgroup(e.cgroup, name)]
            found += _by_counter(inside, counter, missing_count, unmatched, log.clock)
            strangers = [e for e in strangers if e not in [k.event for k in found]]
    taken = [k.victim for k in found] + [r for k in found for r in k.rivals]
    unnamed_count = host.new_count - len([k for k in found if k.event is not None]) - len(strangers)
    cleared: list[tuple[Process, Counter]] = []
    unclear = []
    for member in everyone:
        if not member.was_sigkilled or member in taken:
            continue
        own = cgroups.get(member.cgroup or "")
        proof = own if own is not None and own.is_known and _is_jobs_own(own, member.cgroup) else host
        if not proof.is_known:
            unclear.append(member)
        elif proof is host and host.new_count and unnamed_count > 0:
            found.append(Kill(member, POSSIBLE, member.died_s, counter=host))
        else:  # it stood still, or all that it counted have their victims
            cleared.append((member, proof))
    found.sort(key=_weight)
    return Kills(tuple(found), tuple(cleared), tuple(unclear), tuple(strangers), log.remarks, host, tuple(everyone))


def _without_our_own(recording: Recording, events: Sequence[OomEvent], clock: Clock) -> list[OomEvent]:
    """Less the lines on processes of leakscope's own: the counters were written down without those already.

    By the pid, or by what each of them asks the kernel for: to be the first to go.
    """
    left = list(events)
    for at_s, pid, event in cells(recording.rows["events"], "time_s", "pid", "event"):
        if event != "helper-killed":
            continue
        found = [e for e in left if e.pid == pid or e.oom_score_adj == _FIRST_TO_GO]
        away_s = {id(e): abs((clock.time_s(e) or 0.0) - at_s) for e in found}
        nearest = min(found, key=lambda e: away_s[id(e)], default=None)
        if nearest is not None and away_s[id(nearest)] <= clock.slack_s + _LOOK_S:
            left.remove(nearest)
    return left


def _by_log(match: Match, clock: Clock, own: Counter | None) -> Kill:
    """What the log says, the surer where the counter of the victim's cgroup bears it out."""
    is_counted = own is not None and own.new_count > 0 and match.victim.was_sigkilled
    confidence = max(match.confidence, SURE) if is_counted else match.confidence
    return Kill(match.victim, confidence, clock.time_s(match.event), match.event, own, match.rivals)


def _is_global(kill: Kill) -> bool:
    return kill.event is not None and kill.event.constraint == "global"


def _is_in(cgroup: str | None, name: str) -> bool:
    return cgroup is not None and (cgroup == name or cgroup.startswith(name.rstrip("/") + "/"))


def _is_jobs_own(counter: Counter, cgroup: str | None) -> bool:
    """Not the top of the whole machine, where everybody is; in a container the top is the container's own."""
    return cgroup != "/" or counter.limit_bytes is not None


def _by_counter(
    inside: Sequence[Process], counter: Counter, missing_count: int, strangers: Sequence[OomEvent], clock: Clock
) -> list[Kill]:
    """Victims of kills that the cgroup counted and no line of the log is matched to: those with most memory."""
    by_size = sorted(inside, key=lambda m: -(m.held_bytes or 0))
    killed = [m for m in by_size if m.was_sigkilled]
    if killed:
        rivals = tuple(killed[missing_count:])
        return [Kill(m, SURE, m.died_s, counter=counter, rivals=rivals) for m in killed[:missing_count]]
    unseen = [m for m in by_size if m.ended_unseen]
    if unseen:
        return [Kill(unseen[0], STRONG, unseen[0].died_s, counter=counter, rivals=tuple(unseen[1:4]))]
    stranger = strangers[0] if strangers else None
    return [Kill(None, WEAK, clock.time_s(stranger) if stranger else None, stranger, counter)]


def _weight(kill: Kill) -> tuple[bool, bool, float, int]:
    """The surest first, of those the command itself, of the others the largest."""
    victim = kill.victim
    held = victim.held_bytes or 0 if victim is not None else 0
    return kill.confidence < LIKELY, not (victim is not None and victim.is_root), -held, victim.pid if victim else 0


@dataclass(frozen=True)
class _Log:
    clock: Clock
    events: tuple[OomEvent, ...] = ()
    remarks: tuple[str, ...] = ()


def _read_log(recording: Recording) -> _Log:
    """The kernel's lines in this recording, read; without those of an earlier boot or of before the start."""
    start_s = int(recording.meta["start_mono_ns"]) / 1e9
    by_uptime = Clock(start_s, _SLACK_S + _DRIFT * start_s)
    rows = recording.rows["kernel_log"]
    if not len(rows):
        return _Log(by_uptime)
    from ...oom import read

    remarks = tuple(str(text) for text in rows["text"][rows["kernel_time_s"].isna()].dropna())
    lines = only(rows, rows["kernel_time_s"].notna())
    boot = str(recording.meta.get("boot_id") or "").replace("-", "")
    other_boot = lines["log_boot_id"].notna() & (lines["log_boot_id"] != boot)
    is_late = lines["log_source"] != "kmsg"  # written long before it was read, perhaps
    before = is_late & (other_boot | (lines["kernel_time_s"] < start_s - by_uptime.slack_s))
    own = lines[~before]
    lines_of_dmesg = (f"[{at_s:12.6f}] {text}" for at_s, text in zip(own["kernel_time_s"], own["text"].fillna("")))
    text = "\n".join(lines_of_dmesg)
    killed = tuple(event for event in read(text).events if not event.pid_is_intended_only)
    behind_s = (own["kernel_time_s"] - own["time_s"])[~is_late]
    clock = Clock(float(behind_s.max()), _SLACK_S + _LOOK_S) if len(behind_s) else by_uptime
    return _Log(clock, killed, remarks)


# ---- which process of the job a line of the log means. The kernel prints the pid of the initial namespace: inside a
# container that number is not known, and may by chance be another's. Name, cgroup and size have to agree with it.


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
