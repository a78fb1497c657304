"""A process that the kernel ended for lack of memory: who, by which limit, what it held, and what had filled it.

Looks for:     a kill in the kernel's log that fits a process of the job, or OOM counters that rose while one was ended.
Why:           SIGKILL leaves no last words: the log, the counters and the curve before it are all there is.
Decides by:    the log's line with name, cgroup and size; else the counter of the job's own cgroup; else, as a mere
               possibility, the machine's counter. A counter that stood still clears the kernel.
Mistaken when: something else sends SIGKILL to the job just as the kernel kills another process of the same cgroup.
Do:            fix what grew, or raise the limit that was hit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..confidence import LIKELY, PROVEN, Ground
from ..evidence import enough
from ..evidence.oom_culprit import culprit, hog_of, would_have_been_enough
from ..evidence.sentences import curve
from ..facts.calls import who_asked
from ..facts.case import Case
from ..facts.endings.counters import Counter, above, nearest, of_cgroup
from ..facts.endings.kills import Kill, Kills
from ..facts.growth.processes import ProcessGrowth
from ..facts.processes.table import Process
from ..facts.subject import subject_of
from ..facts.tables import figures, only, series
from ..facts.where.progress import Asked, asked_in_turn, last_large
from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..kinds import KILL
from ..units import FULL, LISTED, MOST, MUCH, SOME, WORTH, KiB, format_bytes, format_duration

NEEDS = ("processes",)
SEEN_BY = ("kernel_log.text", "host_samples.oom_kill_count", "cgroup_samples.oom_kill_count")
TELLS = (KILL,)
RULE = "no-oom"
AFTER = ("*", "unexplained-growth")  # what filled the memory of who was killed is theirs to name
_KIND = "oom-kill"
_STATUS = "container status"  # the basis of an event that a runtime tells of
_CONSTRAINTS = {
    "global": "the machine ran out of memory",
    "cpuset": "the NUMA nodes of its cpuset ran out of memory (others may have had free memory)",
    "mempolicy": "the NUMA nodes it was bound to ran out of memory (others may have had free memory)",
}


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_near_fraction: float = FULL,  # the kernel kills at 100 %: below, the last look a second before is no hint
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding for all processes that were killed, and who was ended by SIGKILL but not by the kernel."""
    seen = case.kills
    if seen.found:
        yield _Kill(case, seen, so_far).finding()
    if seen.cleared:
        yield _cleared(case, [member for member, _ in seen.cleared], seen.cleared[0][1])
    if seen.unclear:
        who = ", ".join(m.label for m in seen.unclear[:LISTED])
        text = f"{who} was ended by SIGKILL; who sent it is not known: no OOM counter and no kernel log was readable"
        yield Skipped(_KIND, text)
    if not seen.found and not seen.cleared and not seen.unclear:
        yield _nothing(case, seen, min_near_fraction)


class _Kill:
    """The surest kill, and what is known of it: who held most, what had filled it, and what came at last."""

    def __init__(self, case: Case, seen: Kills, so_far: Sequence[Finding]) -> None:
        self._case, self._seen, self._so_far = case, seen, so_far
        self._kill = kill = seen.found[0]
        self._sure = seen.sure or (kill,)
        self._hog = hog = hog_of(kill.victim, seen.members, kill.time_s)
        self._process = case.growth.process(hog.pid) if hog is not None else None
        self._blamed = culprit(case, hog, so_far) if hog is not None else None
        self._rise = self._last_rise(hog)
        self._without = would_have_been_enough(hog, self._blamed, _limit(case, kill)) if hog is not None else None

    def finding(self) -> Finding:
        kill, blamed, case = self._kill, self._blamed, self._case
        return case.finding(
            _KIND,
            self._title() + self._room(),
            severity="critical" if kill.confidence >= LIKELY and kill.victim is not None else "warning",
            grounds=[Ground("what the kernel says and how the process ended were matched", kill.confidence)],
            bytes=max(_held_bytes(kill), blamed.bytes if blamed is not None else 0),
            subject=self._subject(),
            evidence=self._evidence(),
            doubts=_doubts(self._seen, kill),
            remedy=self._remedy(),
            mechanism=blamed.finding.mechanism if blamed is not None and blamed.finding is not None else None,
            series=self._curve(),
        )

    def _last_rise(self, hog: Process | None) -> LastRise | None:
        if self._process is None or hog is None:
            return None
        until_s = self._kill.time_s if self._kill.time_s is not None else min(hog.died_s, self._case.growth.end_s)
        per_s = self._blamed.bytes_per_s if self._blamed is not None else None
        return last_rise(self._process, self._kill, until_s, per_s or 0.0)

    def _subject(self) -> Subject:
        """What was there, or who asked for more than that in one piece."""
        blamed, rise = self._blamed, self._rise
        if blamed is not None and (rise is None or not rise.is_one_piece or rise.bytes <= blamed.bytes):
            return blamed.subject
        asked = rise.asked.own if rise is not None and rise.asked is not None else None
        return subject_of(self._hog, asked, device="cpu" if self._hog is not None else None)

    def _title(self) -> str:
        kill, hog, blamed, rise = self._kill, self._hog, self._blamed, self._rise
        killer = "The kernel" if kill.event is None or kill.event.killer == "kernel" else kill.event.killer
        whom, more = _name(kill), len(self._sure) - 1
        if more:
            whom += f" and {more} more process{'es' if more > 1 else ''} of the job"
        verb = "may have killed" if kill.confidence < LIKELY else "killed"
        text = f"{killer} {verb} {whom}{_at_limit(self._case, kill)}"
        step = _step(self._case, hog, kill.time_s)
        if step is not None:
            text += f" (step {step:,})"
        if hog is not None and hog is not kill.victim:
            text += f"; {hog.label} held most"
        if rise is not None:
            text += f"; {_came(rise)}{_by(rise)}"
            text += ", on top of what was there" if blamed is not None else ""
        return f"{text}; {blamed.clause}" if blamed is not None else text

    def _room(self) -> str:
        """What it needed without what grew; nothing where the rest came at once, which needs room of its own."""
        if self._without is None or self._blamed is None or self._blamed.bytes_per_s is None or self._rise is not None:
            return ""
        room = self._without.figures.get("enough_bytes")
        return f"; without it {format_bytes(room)} would have been enough" if isinstance(room, int) else ""

    def _evidence(self) -> Iterator[Evidence]:
        kill, hog, blamed = self._kill, self._hog, self._blamed
        if blamed is not None and blamed.finding is not None:  # that it was killed stands in the title
            yield from blamed.finding.evidence[:2]
            yield Evidence(f"{blamed.finding.title} ({blamed.finding.kind}, below)", {"bytes": blamed.finding.bytes})
        if self._without is not None:
            yield self._without
        if kill.event is not None:
            from ..oom import describe  # the sentences of `leakscope oom`

            for sentence in describe(kill.event)[:LISTED]:
                yield Evidence(sentence)
        if hog is not None and hog is not kill.victim:
            figures = {"held_bytes": hog.held_bytes, "victim_bytes": _held_bytes(kill)}
            text = f"{hog.label} held {format_bytes(hog.held_bytes or 0)}, the victim {format_bytes(_held_bytes(kill))}"
            yield Evidence(f"the killed process did not hold most: {text}", figures)
        if self._rise is not None:
            yield _of_rise(self._rise)
        for held in self._curve():
            first, last = round(held.y[0]), round(held.y[-1])
            text = f"{held.name} went from {format_bytes(first)} to {format_bytes(last)} in"
            span_s = held.x[-1] - held.x[0]
            yield Evidence(f"{text} {format_duration(span_s)}", {"first_bytes": first, "last_bytes": last})
        for one in self._sure[:LISTED]:
            yield from _of_kill(self._case, one)

    def _remedy(self) -> Iterator[str | None]:
        yield self._enough()
        yield from self._blamed.remedy if self._blamed is not None else ()
        if self._kill.event is None and self._kill.confidence < PROVEN:
            yield "for the kernel's own messages: sudo journalctl -k -o short-monotonic | leakscope oom -"

    def _enough(self) -> str | None:
        """First: what would have fitted, in bytes. What was asked for and not written to yet was needed, too."""
        case, kill, rise, near = self._case, self._kill, self._rise, self._case.nearest_limit
        size = float(_limit(case, kill) or (near.limit_bytes[-1] if near else 0.0))
        held = float(_held_bytes(kill))
        if near is not None and size and kill.event is not None and kill.event.constraint == "memcg":
            job = np.interp(near.time_s, case.growth.time_s, case.growth.held_bytes)
            held = max(
                held, size - max(0.0, float(np.median(near.used_bytes - job)))
            )  # it was full, with others' share
        burst = None
        if rise is not None:
            held += rise.untouched_bytes
            burst = enough.Burst(_where(rise), rise.since_s, rise.bytes + rise.untouched_bytes)
        return enough.remedy(case, self._so_far, size, held, burst) if size else None

    def _curve(self) -> list[Series]:
        """Memory of the one that held most, until its end."""
        process = self._process
        if process is None or process.time_s.size < 2:
            return []
        return [curve(f"memory of {process.label}", process.time_s, process.held_bytes)]


def _came(rise: LastRise) -> str:
    return f"{format_bytes(rise.bytes)} came in the last {format_duration(rise.until_s - rise.since_s)}"


def _where(rise: LastRise) -> str:
    """Who asked, as far as it was seen."""
    if rise.asked is None:
        return ""
    own = rise.asked.own
    return f" in {who_asked(rise.asked.calls, own)} ({own.place})"


def _by(rise: LastRise) -> str:
    return f", asked for{_where(rise)}" if rise.asked is not None else ""


def _name(kill: Kill) -> str:
    if kill.victim is not None:
        role = " (a loader worker)" if kill.victim.role == "dataloader-worker" else ""
        return kill.victim.label + role
    return f"{kill.event.comm}[{kill.event.pid}]" if kill.event is not None else "a process of the job's cgroup"


def _at_limit(case: Case, kill: Kill) -> str:
    """`` at the cgroup limit 900 MiB``, as far as it is known."""
    constraint = kill.event.constraint if kill.event is not None else None
    if constraint in _CONSTRAINTS:
        return f" as {_CONSTRAINTS[constraint]}"
    limit = _limit(case, kill)
    if limit is not None:
        return f" at the cgroup limit {format_bytes(limit)}"
    return " at the limit of a cgroup" if constraint == "memcg" else " for lack of memory"


def _limit(case: Case, kill: Kill) -> int | None:
    """The limit that was hit: the log's, else that of the cgroup the counters speak of."""
    event, counter = kill.event, kill.counter
    if event is not None:
        if event.constraint != "memcg":
            return None
        if event.limit_kb is not None:
            return event.limit_kb * KiB
        own = [c for c in above(case.recording, event.oom_cgroup) if c.name == f"cgroup {event.oom_cgroup}"]
        return own[0].limit_bytes if own else None
    if counter is None or kill.victim is None or kill.victim.cgroup is None:
        return None
    if counter.hit_count == 0:  # not its own limit: one above it, or the whole machine
        return None
    if counter.hit_count:
        return counter.limit_bytes
    # Version 1 does not say whose it was.
    limits = [counter for counter in above(case.recording, kill.victim.cgroup) if counter.limit_bytes]
    tightest = min(limits, key=lambda counter: counter.limit_bytes or 0, default=None)
    return tightest.limit_bytes if tightest is not None and (tightest.used_fraction or 0) >= MOST else None


def _held_bytes(kill: Kill) -> int:
    """What the victim held by the log, which saw it last; else at the last look."""
    event = kill.event
    if event is not None and event.anon_rss_kb is not None:
        return (event.anon_rss_kb + (event.shmem_rss_kb or 0)) * KiB
    return (kill.victim.held_bytes or 0) if kill.victim is not None else 0


def _step(case: Case, hog: Process | None, moment: float | None) -> int | None:
    """The training step it had come to: its own, or where it counts none, that of the one process that does."""
    rows = case.rows("sentinels")
    rows = only(rows, rows["step"].notna())
    if moment is not None:
        rows = only(rows, rows["time_s"] <= moment + 1.0)
    own = only(rows, rows["pid"] == hog.pid) if hog is not None else rows
    if not len(own) and rows["pid"].nunique() == 1:
        own = rows
    return int(own["step"].max()) if len(own) else None


def _of_rise(rise: LastRise) -> Evidence:
    """What came after the last look, and how much is known of it."""
    figures = {"came_bytes": rise.bytes, "since_s": round(rise.since_s, 2), "asked_bytes": rise.asked_bytes}
    seen = "no snapshot saw it: there was none" if rise.looked_s is None else (
        f"no snapshot saw it: the last was at {format_duration(rise.looked_s)}"
    )  # fmt: skip
    text = f"{_came(rise)} before the kill{_by(rise)}; {seen}"
    if rise.asked_bytes is not None and rise.untouched_bytes >= MUCH * rise.bytes:
        text += f"; {format_bytes(rise.asked_bytes)} had been requested, and this part of it was written to"
    if rise.asked is None:
        text += "; what requested it is not known"
    return Evidence(text, figures)


def _of_kill(case: Case, kill: Kill) -> Iterator[Evidence]:
    """How it is known."""
    moment = kill.time_s
    when = f" {format_duration(moment)} into the recording" if moment is not None and moment > 0 else ""
    if kill.event is not None:
        who = "the status of the container" if kill.event.constraint_basis == _STATUS else "the kernel's log"
        yield Evidence(f"{who} says so{when}: {kill.event.text}", {"pid": kill.event.pid})
    counter = kill.counter
    if counter is not None and counter.new_count:
        figures = {"first_count": counter.first, "last_count": counter.last, "limit_hits": counter.hit_count}
        text = f"the kernel's count of OOM kills in {counter.name} rose from {counter.first} to {counter.last}"
        if counter.hit_count == 0:
            text += "; its own limit was not reached, so the limit was that of a cgroup above or of the machine"
        yield Evidence(text, figures)
    if kill.victim is not None and kill.victim.was_sigkilled:
        yield Evidence(f"{kill.victim.label} was ended by SIGKILL", {"exit_signal": kill.victim.exit_signal})
    near = nearest(case.recording, kill.victim.cgroup) if kill.victim is not None else None
    if near is not None and near.used_bytes is not None and near.limit_bytes is not None:
        text = f"at most {format_bytes(near.used_bytes)} of the limit {format_bytes(near.limit_bytes)} of {near.name}"
        yield Evidence(f"{text} were seen in use", {"used_bytes": near.used_bytes, "limit_bytes": near.limit_bytes})


def _doubts(seen: Kills, kill: Kill) -> Iterator[str]:
    if kill.confidence < LIKELY:
        yield "no log could be read: the kernel killed a process on this machine, and a process of the job got SIGKILL"
    elif kill.event is None and kill.victim is not None and not seen.remarks:
        yield "the kernel's log was not readable: the counter and the signal point to this process"
    if kill.rivals:
        yield f"it may also have been {' or '.join(m.label for m in kill.rivals[:3])}"
    if kill.victim is None:
        yield "the recorder had not seen that process: it may not belong to the job"
    yield from seen.remarks


def _cleared(case: Case, ended: Sequence[Process], counter: Counter) -> RuledOut:
    near = nearest(case.recording, ended[0].cgroup)
    who = ", ".join(member.label for member in ended[:LISTED])
    who += f" and {len(ended) - LISTED} more" if len(ended) > LISTED else ""
    text = f"{who} {'were' if len(ended) > 1 else 'was'} ended by SIGKILL, but not by the kernel for lack of memory: "
    text += f"its count of OOM kills in {counter.name} "
    text += f"stayed at {counter.last}" if counter.stood_still else f"rose by {counter.new_count}, for other processes"
    figures: dict[str, object] = {"sigkill_count": len(ended), "oom_kill_count": counter.last}
    if near is not None and near.used_fraction is not None:
        text += f"; at most {near.used_fraction:.0%} of the nearest limit was in use ({near.name})"
        figures |= {"used_bytes": near.used_bytes, "limit_bytes": near.limit_bytes}
    return RuledOut(_KIND, text, figures)


def _nothing(case: Case, seen: Kills, min_near_fraction: float) -> RuledOut | Skipped:
    how, _, _ = case.recording.ended
    near = nearest(case.recording, next((m.cgroup for m in seen.members if m.is_root), None))
    if how == "lost":
        text = "the recorder did not see the end"
        if near is not None and (near.used_fraction or 0.0) >= min_near_fraction:
            text += (
                f"; memory was at {near.used_fraction:.0%} of the limit of {near.name} then, and a kill of the "
                "whole group includes the recorder: sudo journalctl -k | leakscope oom -"
            )
        return Skipped(_KIND, text)
    host = seen.host
    figures = {"first_count": host.first, "last_count": host.last, "elsewhere": host.new_count}
    if host.stood_still:
        return RuledOut(
            _KIND, f"the kernel killed no process on this machine: its count stayed at {host.last}", figures
        )
    if any(m.ended_unseen and not of_cgroup(case.recording, m.cgroup or "").stood_still for m in seen.members):
        return Skipped(_KIND, "how some processes ended is not known, and no counter rules out a kill")
    if host.is_known:
        names = ", ".join(f"{event.comm}[{event.pid}]" for event in seen.elsewhere[:LISTED])
        who = f"{host.new_count} process{'es' if host.new_count != 1 else ''}"
        text = f"the kernel killed {who} on this machine, none of the job"
        return RuledOut(_KIND, text + (f": {names}" if names else ""), figures)
    return RuledOut(_KIND, "no process of the job was ended by SIGKILL", figures)


# ---- what a process took after the last snapshot of its heap: how much, since when, and who asked for it


class LastRise(NamedTuple):
    """**Units** bytes, seconds since the recording began.

    ``asked_bytes``: of address space, in which what was not written to yet counts; None: not known. ``looked_s``: the
    last snapshot; None: there was none. ``asked``: the stack that asked for most of it; None: nobody saw who did.
    ``is_one_piece``: at once.
    """

    bytes: int
    since_s: float
    until_s: float
    asked_bytes: int | None
    looked_s: float | None
    asked: Asked | None
    is_one_piece: bool

    @property
    def untouched_bytes(self) -> int:
        """Asked for, and not written to when it ended."""
        return max(0, (self.asked_bytes or 0) - self.bytes)


def last_rise(process: ProcessGrowth, kill: Kill, until_s: float, explained_bytes_per_s: float) -> LastRise | None:
    """None: little came that no snapshot saw, beyond what is known to have grown at a rate all the time; or it came
    for most of its life.
    """
    samples = process.rows("process_samples")
    samples = only(samples, samples["anon_bytes"].notna() & (figures(samples, "rss_bytes") > 0))
    if not len(samples):
        return None
    time_s, anon, shared = (figures(samples, column) for column in ("time_s", "anon_bytes", "shmem_bytes"))
    held = anon + np.nan_to_num(shared)
    last_bytes, last_virtual = _at_the_end(process, kill, held[-1])
    takes = process.rows("takes")
    looked = figures(takes, "time_s") if len(takes) else np.empty(0)
    looked_s = float(looked[-1]) if looked.size else None
    then = float(np.interp(looked_s, time_s, held)) if looked_s is not None else float(held[0])
    came = last_bytes - then - explained_bytes_per_s * (until_s - (looked_s or 0.0))
    if came < max(WORTH, SOME * last_bytes):
        return None
    before = np.flatnonzero((held <= then + SOME * came) & (time_s < until_s))
    since_s = float(time_s[before[-1]]) if before.size else float(time_s[0])
    if until_s - since_s > MOST * (until_s - float(time_s[0])):
        return None  # that is its course, and no end of it
    at, virtual = series(samples, "virtual_bytes")
    asked_bytes = None
    if last_virtual is not None and at.size:
        asked_bytes = max(0, round(last_virtual - float(np.interp(since_s, at, virtual))))
    # What fills up then was asked for before it did: at the sample before, at the earliest.
    most = last_large(process, float(time_s[max(0, before[-1] - 1)]) if before.size else 0.0)
    is_one_piece = most is not None and most.gained >= SOME * came
    if is_one_piece:
        assert most is not None
        asked_bytes = max(asked_bytes or 0, round(most.gained))
    else:
        asked = [one for one in asked_in_turn(process) if one.until_s > since_s and one.gained > 0]
        most = max(asked, key=lambda one: one.gained, default=None)
    return LastRise(round(came), since_s, until_s, asked_bytes, looked_s, most, is_one_piece)


def _at_the_end(process: ProcessGrowth, kill: Kill, sampled: float) -> tuple[float, float | None]:
    """What it held, and its address space: as the kernel wrote of who it killed; else as the last sample has it."""
    event, victim = kill.event, kill.victim
    at, virtual = series(process.rows("process_samples"), "virtual_bytes")
    last_virtual = float(virtual[-1]) if at.size else None
    if event is None or victim is None or victim.pid != process.pid or event.anon_rss_kb is None:
        return sampled, last_virtual
    last = (event.anon_rss_kb + (event.shmem_rss_kb or 0)) * KiB
    return max(sampled, float(last)), float(event.total_vm_kb * KiB) if event.total_vm_kb else last_virtual
