"""What a known fatal text says in this recording: the figures in it, and what else was seen that decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..confidence import FAIR, PROVEN, STRONG, WEAK, Ground
from ..facts.case import Case
from ..facts.code.adding import find_calls
from ..facts.endings.counters import of_host
from ..facts.endings.cuda_oom import CudaOom, parse
from ..facts.endings.meanings import Meaning
from ..facts.growth.limits import DEV_SHM
from ..facts.processes.table import DATALOADER_WORKER, Process
from ..findings import Evidence, Finding
from ..signals import signal_name
from ..units import FULL, MOST, SIZES, format_bytes
from .oom_culprit import Culprit, culprit, would_have_been_enough

LAST_WORDS = (Ground("its last words say so", PROVEN),)
_RAISE = (
    "make the batch smaller, or keep less on the GPU, or raise the limit that the program sets "
    "(torch.cuda.set_per_process_memory_fraction)"
)
_EXPANDABLE = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the free pieces then join"
_FIGURES = ("used_bytes", "limit_bytes")
_FULL_FRACTION = FULL  # of /dev/shm, once a second: a batch more did not fit


class Told(NamedTuple):
    """The parts of a finding that depend on the text. ``filled_by``: what held most of the memory that was refused."""

    title: str
    severity: str
    grounds: Sequence[Ground]
    evidence: Sequence[Evidence] = ()
    doubts: Sequence[str] = ()
    remedy: Sequence[str] = ()
    filled_by: Culprit | None = None


def tell(
    case: Case, member: Process, meaning: Meaning, words: str, near_fraction: float, so_far: Sequence[Finding]
) -> Told:
    """What this text of this process means. ``so_far``: what was found to hold memory."""
    found = meaning.pattern.search(words)
    parts = found.groupdict() if found is not None else {}
    what = " ".join((parts.get("what") or "").split())
    title = meaning.title.format(process=member.label, what=what).removesuffix(": ")
    told = Told(title, meaning.severity, LAST_WORDS, [Evidence(meaning.why)], remedy=meaning.remedy)
    if meaning.name == "gpu-memory":
        oom, asked = parse(words), requested_bytes(words)
        size = f": {format_bytes(asked)} asked for" if asked is not None else ""
        return told._replace(title=told.title + size) if oom is None else _with_figures(told, oom, member)
    if meaning.name == "no-memory":
        return _filled(case, member, _refused(case, member, told, words, near_fraction), so_far)
    if meaning.name == "shared-memory":
        return _filled(case, member, _shared(case, told), so_far)
    if meaning.name == "worker-died":
        return _worker(case, told, parts)
    return told


def _with_figures(told: Told, oom: CudaOom, member: Process) -> Told:
    def size(name: str) -> str:
        return format_bytes(getattr(oom, f"{name}_bytes") or 0)

    asked, is_own = oom.requested_bytes, oom.is_own_limit and oom.allowed_bytes is not None
    title = f"{f'GPU {oom.device}' if oom.device is not None else 'The GPU'} ran out of memory in {member.label}"
    if asked is not None:
        own = f", and the program limits itself to {size('allowed')}"
        room = f", {size('free')} free" if oom.free_bytes is not None else ""
        title += f": {size('requested')} asked for{own if is_own else room}"
    held = f"tensors held {size('allocated')} of the GPU's {size('total')}, by torch's message"
    is_known = oom.total_bytes is not None and oom.allocated_bytes is not None
    allowed = f"the program limits itself to {size('allowed')} of the GPU"
    allowed += f", of which {size('free')} were free" if is_own else ""
    unused = f"torch held {size('unallocated')} that no tensor used, "
    is_theirs = not oom.is_own_limit and asked is not None and (oom.other_bytes or 0) >= max(asked, 1)
    beside = Evidence(f"other processes held {size('other')} of this GPU", {"other_bytes": oom.other_bytes})
    no_use = "too little for this request: it is not fragmentation, and expandable_segments will not help"
    pieces = "enough but not in one piece" if oom.is_fragmented else no_use
    table = (  # what was seen, what it says, and what to do about it
        (True, Evidence(held if is_known else "torch's message says so", oom.figures), None),
        (oom.allowed_bytes is not None, Evidence(allowed), _RAISE if is_own else None),
        (oom.is_fragmented is not None, Evidence(unused + pieces), _EXPANDABLE if oom.is_fragmented else None),
        (is_theirs, beside, "end the other processes on this GPU (nvidia-smi lists them): what they hold would have "
         "been enough"),
    )  # fmt: skip
    evidence = [seen for is_so, seen, _ in table if is_so]
    return told._replace(title=title, evidence=evidence, remedy=[mend for is_so, _, mend in table if is_so and mend])


def _refused(case: Case, member: Process, told: Told, words: str, near_fraction: float) -> Told:
    requested = requested_bytes(words)
    why = refusal(case, member.pid, member.start_ticks, requested, near_fraction)
    title = told.title + (f": {why.by}" if why.by is not None else "")
    unknown = Ground("its last words say so; by which limit is not known", STRONG)
    grounds = [unknown if why.by is None else Ground("its last words say so, and the limit was seen", PROVEN)]
    evidence = [*told.evidence, *why.evidence]
    return told._replace(title=title, grounds=grounds, evidence=evidence, doubts=why.doubts, remedy=why.remedy)


def _filled(case: Case, member: Process, told: Told, so_far: Sequence[Finding]) -> Told:
    """The same with what held most of the memory that was lacking: like a kill, it ends what filled it up."""
    holder = culprit(case, member, so_far)
    if holder is None or told.severity != "critical":
        return told
    is_most = holder.share >= MOST and holder.subject.line is not None
    enough = would_have_been_enough(member, holder)
    return told._replace(
        title=f"{told.title}; {holder.clause}",
        evidence=[*told.evidence, *([enough] if enough is not None else [])],
        remedy=[*(holder.remedy if is_most else ()), *told.remedy],
        filled_by=holder if is_most else None,
    )


def was_shared_memory_full(case: Case) -> bool:
    """Whether /dev/shm was seen as full as it gets."""
    fullest = _shared_memory(case)
    return fullest is not None and fullest[0] >= _FULL_FRACTION * fullest[1]


def _shared(case: Case, told: Told) -> Told:
    fullest = _shared_memory(case)
    if fullest is None:
        unseen = [Ground("its last words say so; how full it was is not known", FAIR)]
        return told._replace(grounds=unseen, doubts=["how full /dev/shm was is not in this recording: df -h /dev/shm"])
    used = " of ".join(map(format_bytes, fullest))
    seen = Evidence(f"/dev/shm held {used} when it was fullest", dict(zip(_FIGURES, fullest)))
    if not was_shared_memory_full(case):
        doubt = "it was read once a second: a larger batch may have filled it in between"
        against = [Ground("its last words say so; it was not seen full", WEAK)]
        return told._replace(grounds=against, evidence=[*told.evidence, seen], doubts=[doubt])
    return told._replace(
        title=f"{told.title}: /dev/shm was full, {used}",
        evidence=[*told.evidence, seen],
        remedy=["give it more (docker run --shm-size=..., Kubernetes: an emptyDir of medium Memory on /dev/shm)"],
    )


def _worker(case: Case, told: Told, parts: dict[str, str | None]) -> Told:
    """Whether the OOM killer ended it, or a signal of its own making, or nobody knows."""
    pids = {int(pid) for pid in re.findall(r"\d+", parts.get("pids") or "")}
    by = (parts.get("signal") or "").strip()
    seen = case.kills
    for kill in seen.found:
        if kill.victim is not None and (not pids or kill.victim.pid in pids):
            text = f"the OOM killer ended {kill.victim.label}: oom-kill says by which limit"
            title = f"{told.title}: the OOM killer ended it"
            grounds = [Ground("what the kernel says and how it ended were matched", kill.confidence)]
            return told._replace(title=title, grounds=grounds, evidence=[Evidence(text)])
    title = f"{told.title}: ended by signal {by}" if by else told.title
    named = (lambda m: m.pid in pids) if pids else (lambda m: m.role == DATALOADER_WORKER)
    gone = [member for member in seen.members if named(member) and member.exit_signal is not None]
    ends = [Evidence(f"{member.label} was ended by {signal_name(member.exit_signal or 0)}") for member in gone]
    evidence, doubts = [*told.evidence, *ends], []
    if by == "Killed" or any(member.was_sigkilled for member in gone):
        if seen.host.stood_still:
            evidence.append(
                Evidence("the kernel's OOM killer ended no process on this machine: something else sent SIGKILL")
            )
        elif not seen.host.is_known:
            doubts.append("whether the OOM killer did it is not in this recording")
    return told._replace(title=title, evidence=evidence, doubts=doubts)


# ---- what refused memory to a process that nobody killed: its own limit, the machine's, or a full /dev/shm


_REQUEST = re.compile(
    r"Unable to allocate ([\d.]+) ([KMGTP]iB|bytes|B)\b|(?:to allocate|allocating) ([\d,]+) bytes"
    r"|malloc of size (\d+) failed|unable to mmap (\d+) bytes"
)
_LIMITS = {
    "rlimit-as": ("address space", "ulimit -v", "raise the limit: ulimit -v unlimited, or in the job's own script"),
    "rlimit-data": ("data segment", "ulimit -d", "raise the limit: ulimit -d unlimited, or in the job's own script"),
}


class Refusal(NamedTuple):
    """What refused the memory; ``by`` None: the recording does not tell, and ``doubts`` say what would."""

    by: str | None
    evidence: list[Evidence]
    doubts: list[str]
    remedy: list[str]


def requested_bytes(text: str) -> int | None:
    """How much was asked for, where the message says."""
    found = _REQUEST.search(text)
    if found is None:
        return None
    if found.group(1):
        return round(float(found.group(1)) * SIZES[found.group(2)])
    return int(next(part for part in found.groups()[2:] if part).replace(",", ""))


def refusal(case: Case, pid: int, start_ticks: int, requested: int | None, near_fraction: float) -> Refusal:
    """Of a process that got an error instead of memory."""
    evidence = [] if requested is None else [Evidence(f"it asked for {format_bytes(requested)} at once")]
    limits = [limit for limit in case.limits if (limit.pid, limit.start_ticks) == (pid, start_ticks)]
    own = [(limit, _LIMITS[limit.resource]) for limit in limits if limit.resource in _LIMITS]
    for limit, (what, command, remedy) in own:
        used_bytes, limit_bytes = limit.fullest
        at_most = f"{format_bytes(used_bytes)} of {format_bytes(limit_bytes)} at most"
        figures = dict(zip(_FIGURES, limit.fullest))
        evidence.append(Evidence(f"its {what} is limited ({command}): {at_most}", figures))
        too_much = requested is not None and requested > limit_bytes - used_bytes
        if too_much or used_bytes >= near_fraction * limit_bytes:
            by = f"its {what} is limited to {format_bytes(limit_bytes)} ({command})"
            return Refusal(by, evidence, [], [_set_by_program(case) or remedy])
    total, used = (host := of_host(case.recording)).limit_bytes, host.used_bytes
    if total is not None and used is not None:
        figures = {"available_bytes": total - used, "total_bytes": total}
        evidence.append(Evidence(f"the machine had {format_bytes(total - used)} available at the end", figures))
    if total is not None and requested is not None and requested > total:
        return Refusal(f"the machine has {format_bytes(total)}", evidence, [], [])
    if own:
        return Refusal(None, evidence, ["between two readings it may have asked for more than its limit allows"], [])
    doubt = "no limit of this process was seen: ulimit -v, and /proc/sys/vm/overcommit_memory, show what refused it"
    return Refusal(None, evidence, [doubt], [])


def _set_by_program(case: Case) -> str | None:
    for line in find_calls(case.sources, "resource.setrlimit"):
        return f"the program sets such a limit itself, at {line.place}: raise it there, if the growth is intended"
    return None


def _shared_memory(case: Case) -> tuple[int, int] | None:
    """Bytes in /dev/shm when they were most, and its size; None where nobody looked."""
    return next((limit.fullest for limit in case.limits if limit.kind == DEV_SHM), None)
