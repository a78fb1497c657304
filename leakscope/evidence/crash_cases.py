"""What a known fatal text says in this recording: the figures in it, and what else was seen that decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..confidence import Ground
from ..facts.endings.cuda_oom import CudaOom, parse
from ..facts.endings.meanings import Meaning
from ..facts.endings.members import Member
from ..facts.processes.table import DATALOADER_WORKER
from ..facts.tables import only
from ..findings import Evidence, Finding
from ..signals import signal_name
from ..units import MOST, format_bytes, format_count
from .memory_refused import refusal, requested_bytes, shared_memory_use
from .oom_culprit import Culprit, culprit, would_have_been_enough

if TYPE_CHECKING:
    from ..facts.case import Case

LAST_WORDS = (Ground("its last words say so", 0.95),)
_FULL_FRACTION = 0.9  # of /dev/shm, once a second: a batch more did not fit


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
    case: Case, member: Member, meaning: Meaning, words: str, near_fraction: float, so_far: Sequence[Finding]
) -> Told:
    """What this text of this process means. ``so_far``: what was found to hold memory."""
    found = meaning.pattern.search(words)
    parts = found.groupdict() if found is not None else {}
    what = " ".join((parts.get("what") or "").split())
    title = meaning.title.format(process=member.label, what=what).removesuffix(": ")
    told = Told(title, meaning.severity, LAST_WORDS, [Evidence(meaning.why)], remedy=meaning.remedy)
    if meaning.name == "deallocating-none":
        return _with_fall(case, member, told)
    if meaning.name == "gpu-memory":
        oom = parse(words)
        return told if oom is None else _with_figures(told, oom, member)
    if meaning.name == "no-memory":
        return _filled(case, member, _refused(case, member, told, words, near_fraction), so_far)
    if meaning.name == "shared-memory":
        return _filled(case, member, _shared(case, told), so_far)
    if meaning.name == "worker-died":
        return _worker(case, told, parts)
    return told


def _with_fall(case: Case, member: Member, told: Told) -> Told:
    rows = case.rows("sentinels")
    rows = only(rows, (rows["start_ticks"] == member.start_ticks) & rows["refcount_none"].notna())
    if len(rows) < 2:
        return told
    first, last = int(rows["refcount_none"].iloc[0]), int(rows["refcount_none"].iloc[-1])
    if last >= rows["refcount_none"].max():
        return told
    text = f"its references to None fell to {format_count(last)}; refcount-drift says how fast"
    figures = {"first_count": first, "last_count": last}
    return told._replace(evidence=[*told.evidence, Evidence(text, figures)])


def _with_figures(told: Told, oom: CudaOom, member: Member) -> Told:
    where = f"GPU {oom.device}" if oom.device is not None else "The GPU"
    title = f"{where} ran out of memory in {member.label}"
    if oom.requested_bytes is not None:
        title += f": {format_bytes(oom.requested_bytes)} asked for"
        if oom.is_own_limit and oom.allowed_bytes is not None:
            title += f", and it allows itself {format_bytes(oom.allowed_bytes)}"
        elif oom.free_bytes is not None:
            title += f", {format_bytes(oom.free_bytes)} free"
    evidence, remedy = [], []
    if oom.total_bytes is not None and oom.allocated_bytes is not None:
        held = f"tensors held {format_bytes(oom.allocated_bytes)} of the GPU's {format_bytes(oom.total_bytes)}"
        evidence.append(Evidence(f"{held}, by torch's message", oom.figures))
    else:
        evidence.append(Evidence("torch's message says so", oom.figures))
    if oom.allowed_bytes is not None:
        allowed = f"the program allows itself {format_bytes(oom.allowed_bytes)} of the GPU"
        if oom.is_own_limit and oom.free_bytes is not None:
            allowed += f", of which {format_bytes(oom.free_bytes)} were free"
            remedy.append(
                "make the batch smaller, or keep less on the GPU, or raise the limit that the program sets "
                "(torch.cuda.set_per_process_memory_fraction)"
            )
        evidence.append(Evidence(allowed))
    if oom.is_fragmented is not None and oom.unallocated_bytes is not None:
        unused = format_bytes(oom.unallocated_bytes)
        if oom.is_fragmented:
            evidence.append(Evidence(f"torch held {unused} that no tensor used, enough but not in one piece"))
            remedy.append("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the free pieces then join")
        else:
            no_use = "too little for this request: it is not fragmentation, and expandable_segments will not help"
            evidence.append(Evidence(f"torch held {unused} that no tensor used, {no_use}"))
    others = oom.other_bytes
    is_theirs = others is not None and oom.requested_bytes is not None and others >= oom.requested_bytes
    if others is not None and is_theirs and not oom.is_own_limit:
        evidence.append(Evidence(f"other processes held {format_bytes(others)} of this GPU", {"other_bytes": others}))
        remedy.append("end the other processes on this GPU (nvidia-smi lists them): what they hold would have sufficed")
    return told._replace(title=title, evidence=evidence, remedy=remedy)


def _refused(case: Case, member: Member, told: Told, words: str, near_fraction: float) -> Told:
    requested = requested_bytes(words)
    why = refusal(case, member.pid, member.start_ticks, requested, near_fraction)
    title = told.title + (f": {why.by}" if why.by is not None else "")
    return told._replace(
        title=title,
        grounds=[
            Ground("its last words say so; by which limit is not known", 0.8)
            if why.by is None
            else Ground("its last words say so, and the limit was seen", 0.95)
        ],
        evidence=[*told.evidence, *why.evidence],
        doubts=why.doubts,
        remedy=why.remedy,
    )


def _filled(case: Case, member: Member, told: Told, so_far: Sequence[Finding]) -> Told:
    """The same with what held most of the memory that was lacking: like a kill, it ends what filled it up."""
    holder = culprit(case, member, so_far)
    if holder is None or told.severity != "critical":
        return told
    is_most = holder.share >= MOST and holder.subject.line is not None
    enough = would_have_been_enough(case, member, holder)
    of_holder = holder.finding.remedy if is_most and holder.finding is not None else ()
    return told._replace(
        title=f"{told.title}; {holder.clause}",
        evidence=[*told.evidence, *([enough] if enough is not None else [])],
        remedy=[*of_holder, *told.remedy],
        filled_by=holder if is_most else None,
    )


def was_shared_memory_full(case: Case) -> bool:
    """Whether /dev/shm was seen as full as it gets."""
    use = shared_memory_use(case)
    return use is not None and use.used_bytes >= _FULL_FRACTION * use.limit_bytes


def _shared(case: Case, told: Told) -> Told:
    use = shared_memory_use(case)
    if use is None:
        unseen = [Ground("its last words say so; how full it was is not known", 0.7)]
        return told._replace(grounds=unseen, doubts=["how full /dev/shm was is not in this recording: df -h /dev/shm"])
    figures = {"used_bytes": use.used_bytes, "limit_bytes": use.limit_bytes}
    seen = Evidence(f"/dev/shm held {use.text} when it was fullest", figures)
    if use.used_bytes < _FULL_FRACTION * use.limit_bytes:
        doubt = "it was read once a second: a larger batch may have filled it in between"
        against = [*LAST_WORDS, Ground("it was not seen full", 0.07)]
        return told._replace(grounds=against, evidence=[*told.evidence, seen], doubts=[doubt])
    return told._replace(
        title=f"{told.title}: /dev/shm was full, {use.text}",
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
