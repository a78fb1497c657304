"""A process that failed: what its last words mean, and where in the program it was.

Looks for:     an uncaught exception, a fatal signal, a known fatal text at the end of stderr.
Why:           many of these look like a lack of memory but are not, and some lacks of memory look like other errors.
Decides by:    the type and message of the exception, or the text with which Python, malloc, torch or C++ give up,
               weighed against the limits and counters in the recording; the program's own source is not searched.
               Calls of leakscope's own agent in the thread that crashed, and its libraries in what is known of the
               crash, are said before anything else. Where it sampled allocations, no text clears it: that is a doubt.
Mistaken when: a program quotes a fatal text in a message of its own.
Do:            as the finding says; an ordinary exception only needs its line fixed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..confidence import AGAINST, FAIR, STRONG, Ground
from ..evidence.crash_cases import LAST_WORDS, Told, tell, was_shared_memory_full
from ..facts.calls import Call
from ..facts.case import Case
from ..facts.endings.meanings import Meaning, known, of_broken_pipe, of_full_shared_memory, of_signal
from ..facts.endings.texts import (
    exception_of,
    final,
    frames,
    innermost_user,
    last_traceback,
    message,
    of_child_processes,
    said,
    with_message,
)
from ..facts.processes.inside import notes_of_agents
from ..facts.processes.table import Process
from ..facts.subject import subject_of
from ..facts.tables import cells, int_of, records, text_of
from ..faults import agent_elsewhere, agent_in_crash, last_fatal_error, library_in_crash
from ..findings import AGENT, Evidence, Finding, RuledOut, Skipped, is_our_crash
from ..kinds import CRASH, DANGER
from ..signals import FATAL_SIGNALS, Signal, signal_name
from ..units import LISTED, NEARLY_ALL

NEEDS = ("processes",)
SEEN_BY = ("processes.exit_code", "processes.exit_signal", "crash_text.last_words")
TELLS = (DANGER, CRASH)
AFTER = ("*", "unexplained-growth")  # what filled the memory that was refused is theirs to name
_KIND = "crash"
_SHELL_OFFSET = 128  # a shell's status for "ended by signal n"
_WITHOUT = "leakscope record --agent off"
_FINALIZING = "Python runtime state: finalizing"
_ENDING = (Ground("its last words say so, as the interpreter ended", FAIR),)
_AT_THE_END = (
    "Python was shutting down with leakscope's agent loaded, and the agent may be the cause: "
    f"{_WITHOUT} shows whether it also aborts without the agent"
)
# Below calls of malloc that a native crash came in, or long before one that found the heap damaged: in no traceback.
_OF_MEMORY = ("native-fault", "damaged-heap")
_NO_SAMPLING = "leakscope record --no-sampling"
_SAMPLED = f"leakscope was sampling allocations then: {_NO_SAMPLING} shows whether it crashes without that, too"
_NOT_CLEARED = Ground("nothing shows whose native code it was, and leakscope's ran in calls of malloc", AGAINST)
_NO_SAMPLES = "no-allocation-samples"  # a note of an agent that could not
_ASKED_TO_END = ("SystemExit", "KeyboardInterrupt")


@dataclass(frozen=True)
class Failure:
    """One process that failed, or a thread of it. ``text`` may be empty: then the signal is all that is known."""

    member: Process
    text: str
    signal: int | None = None
    exception_type: str | None = None
    step: int | None = None
    in_thread: bool = False
    time_s: float = 0.0


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    near_fraction: float = NEARLY_ALL,  # of a limit, at the last look: half a second later it may have been reached
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per way to fail (ranks that fail alike are one), or why there is none."""
    everyone = case.processes
    root = next((member for member in everyone if member.is_root), None)
    stderr = _stderr(case)
    failures = _failures(case, everyone, stderr) or _of_root(root, stderr)
    if not failures:
        yield _nothing(case, root)
        return
    ended_well = root is not None and root.exit_code == 0
    groups: dict[object, list[Finding]] = {}
    for failure in sorted(failures, key=lambda failure: failure.time_s):
        finding = _finding(case, failure, stderr, near_fraction, so_far)
        if ended_well and finding.severity == "critical" and not is_our_crash(finding):
            finding = replace(finding, severity="warning", doubts=[*finding.doubts, "the job itself succeeded"])
        about = finding.subject
        key = about.type, about.file, about.line, about.process, about.module
        groups.setdefault(key, []).append(finding)
    alike = [_as_one(group) for group in groups.values()]
    yield from (finding for finding in alike if finding.severity != "note")
    yield from [finding for finding in alike if finding.severity == "note"][:LISTED]


def _failures(case: Case, everyone: list[Process], stderr: str) -> list[Failure]:
    """What the agents wrote down, processes that a fatal signal ended, and what multiprocessing said of its own."""
    by_key = {(member.pid, member.start_ticks): member for member in everyone}
    by_ticks = {member.start_ticks: member for member in everyone}  # inside a container a process has another pid
    found = []
    told = set()
    for row in records(case.rows("crash_text").sort_values("time_s")):
        source, text = text_of(row, "crash_source"), text_of(row, "last_words")
        pid, ticks = int_of(row, "pid") or 0, int_of(row, "start_ticks") or 0
        member = by_key.get((pid, ticks)) or by_ticks.get(ticks)
        if member is None or text is None or source == "stderr" or not _counts(source, member):
            continue
        in_thread = source == "thread-exception"
        kind = text_of(row, "exception_type")
        if kind not in _ASKED_TO_END:
            number = _signal(member) if source == "faulthandler" else None
            at_s = float(row["time_s"])
            text = with_message(text, stderr)
            found.append(Failure(member, text, number, kind, int_of(row, "step"), in_thread, at_s))
        if not in_thread:
            told.add(member.start_ticks)
    silent = [member for member in everyone if _signal(member) is not None and member.start_ticks not in told]
    found += [Failure(member, "", _signal(member), time_s=member.died_s) for member in silent]
    failed = [m for m in everyone if m.exit_code == 1 and not m.is_root and m.start_ticks not in told]
    for member, text in zip(sorted(failed, key=lambda m: m.died_s), of_child_processes(stderr)):
        found.append(Failure(member, text, exception_type=exception_of(text), time_s=member.died_s))
    return found


def _counts(source: str | None, member: Process) -> bool:
    """A notebook or a test runner goes on after an exception; a signal may have been survived."""
    if source == "exception":
        return member.exit_code != 0
    return source != "faulthandler" or member.exit_code is None


def _signal(member: Process) -> int | None:
    """The fatal signal that ended it; a shell says 128 + n of its command."""
    number = member.exit_signal
    if number is None and member.is_root and member.exit_code is not None:
        number = member.exit_code - _SHELL_OFFSET
    return number if number in set(FATAL_SIGNALS) else None


def _of_root(root: Process | None, stderr: str) -> list[Failure]:
    """Where nobody inside said anything: what stands at the end of stderr."""
    if root is None or root.exit_code == 0 or not stderr:
        return []
    if root.exit_signal is not None:  # sent from outside: stderr has nothing to do with it
        return []
    text = last_traceback(stderr)
    if text or known(said(stderr), Signal.SIGABRT):
        last = exception_of(text) if text else None
        return [] if last in _ASKED_TO_END else [Failure(root, text or stderr, exception_type=last)]
    return []


def _stderr(case: Case) -> str:
    told = cells(case.rows("crash_text"), "crash_source", "last_words")
    return "".join(words for source, words in told if source == "stderr" and words is not None)


def _meaning(case: Case, failure: Failure, stderr: str) -> tuple[Meaning | None, str]:
    """The meaning of a failure, and the text that says so."""
    words = said(failure.text)
    if failure.signal is not None:
        # Python, malloc and C++ say on stderr why they abort; faulthandler knows only where.
        why = said(stderr)
        if (meaning := known(why, failure.signal)) is None:
            is_full = failure.signal == Signal.SIGBUS and was_shared_memory_full(case)
            meaning = of_full_shared_memory() if is_full else of_signal(failure.signal)
        return meaning, why
    for text in (said(final(failure.text)), words):
        if found := known(text):
            return found, text
    return of_broken_pipe(failure.exception_type, failure.text), words


def _finding(case: Case, failure: Failure, stderr: str, near_fraction: float, so_far: Sequence[Finding]) -> Finding:
    meaning, words = _meaning(case, failure, stderr)
    text = failure.text
    if failure.signal is not None and not text:
        text = last_fatal_error(stderr)  # of a faulthandler that is the job's own
    calls = frames(text)
    place = innermost_user(calls)
    ours_there = agent_in_crash(text) or library_in_crash(text) or library_in_crash(last_fatal_error(stderr))
    if failure.signal is not None and meaning is not None and ours_there:
        told = _of_agent(case, failure, meaning, words, ours_there)
        finding = _with_place(case, failure, told, meaning, calls, place)
        ours = replace(finding.subject, file=None, line=None, function=None, library="leakscope", module=AGENT)
        return replace(finding, subject=ours)
    told = _ordinary(failure)
    if meaning is not None:
        told = tell(case, failure.member, meaning, words, near_fraction, so_far)
    if not failure.text and not stderr:
        told = told._replace(doubts=["no error output was recorded: 2> FILE or --tee keeps the end of stderr"])
    if failure.signal is not None and (agents_call := agent_elsewhere(text)):
        elsewhere = f"leakscope's agent was running in another thread ({agents_call}), not in the one that crashed"
        told = told._replace(evidence=[*told.evidence, Evidence(elsewhere)])
    at_the_end = meaning is not None and meaning.name == "deallocating-none" and _FINALIZING in words
    if at_the_end and _has_agent(case, failure.member):
        told = told._replace(grounds=_ENDING, doubts=[*told.doubts, _AT_THE_END])
    of_memory = failure.signal is not None and meaning is not None and meaning.name in _OF_MEMORY
    if of_memory and _was_sampled(case, failure.member):
        told = told._replace(grounds=[*told.grounds, _NOT_CLEARED], doubts=[*told.doubts, _SAMPLED])
    return _with_place(case, failure, told, meaning, calls, place)


def _of_agent(case: Case, failure: Failure, meaning: Meaning, words: str, agents_call: str) -> Told:
    """A crash in our own frames, of Python or of C: no library of the job's is blamed."""
    by = signal_name(failure.signal or 0)
    who = failure.member.label
    evidence = [Evidence(f"the thread that crashed was in leakscope's agent: {agents_call}")]
    if (said_of_it := meaning.pattern.search(words)) and said_of_it.group():
        evidence.append(Evidence(f"what it said: {said_of_it.group()}"))
    command = shlex.join(map(str, case.recording.meta.get("command") or ()))
    without = "the same with --agent off" if case.recording.meta.get("attached") else f"{_WITHOUT} -- {command}"
    title = f"leakscope's own agent was running when {who} crashed ({by}), and may be the cause"
    return Told(
        f"{title}: {_WITHOUT} records without it",
        "critical",
        [Ground("frames of the agent's own were on the stack of the crash", STRONG)],
        evidence,
        doubts=["the faulty code is not known: leakscope's agent was running, so no native code is blamed"],
        remedy=[
            f"record it without the agent: {without}",
            "if that run succeeds, the fault is leakscope's: report it with this recording",
        ],
    )


def _ordinary(failure: Failure) -> Told:
    what = message(failure.text, failure.exception_type)
    who = f"A thread of {failure.member.label}" if failure.in_thread else failure.member.label
    return Told(f"{who} ended by {what}", "note", LAST_WORDS, [Evidence(f"{what} was not caught")])


def _with_place(
    case: Case, failure: Failure, told: Told, meaning: Meaning | None, calls: list[Call], place: Call | None
) -> Finding:
    evidence = list(told.evidence)
    if place is not None:
        evidence.append(Evidence(f"it was at {place.file}:{place.line} in {place.function}", {"line": place.line}))
    if calls and calls[-1] != place:
        inner = calls[-1]
        evidence.append(Evidence(f"innermost: {inner.file}:{inner.line} in {inner.function}", {"line": inner.line}))
    if failure.step is not None:
        evidence.append(Evidence(f"it had reached step {failure.step}", {"step": failure.step}))
    if failure.signal is not None:
        name = signal_name(failure.signal)
        evidence.append(Evidence(f"the process was ended by {name}", {"signal": failure.signal}))
    subject = subject_of(
        failure.member,
        place,
        type=meaning.name if meaning is not None and failure.exception_type is None else failure.exception_type,
        library=calls[-1].library if calls else None,
    )
    if told.filled_by is not None:  # the line that asked for the last bit is not the one to mend
        subject = replace(told.filled_by.subject, type=subject.type, library=subject.library)
    return case.finding(
        _KIND,
        told.title,
        severity=told.severity,
        grounds=told.grounds,
        bytes=told.filled_by.bytes if told.filled_by is not None else 0,
        subject=subject,
        evidence=evidence,
        doubts=told.doubts,
        remedy=told.remedy,
    )


def _as_one(group: list[Finding]) -> Finding:
    first = group[0]
    if len(group) == 1:
        return first
    pids = [finding.subject.pid for finding in group]
    more = Evidence(f"{len(group)} processes or threads failed at the same place", {"pids": pids})
    return replace(first, evidence=[*first.evidence, more])


def _nothing(case: Case, root: Process | None) -> RuledOut | Skipped:
    if root is None or (root.exit_code is None and root.exit_signal is None):
        return RuledOut(_KIND, "no process was seen to fail")
    if root.exit_signal is not None:
        name = signal_name(root.exit_signal)
        return RuledOut(_KIND, f"{root.label} did not crash: {name} was sent to it", {"signal": root.exit_signal})
    if root.exit_code == 0:
        return RuledOut(_KIND, "no process failed", {"exit_code": 0})
    figures = {"exit_code": root.exit_code}
    if _has_agent(case, root):
        text = f"{root.label} exited with status {root.exit_code}: no exception, no fatal signal"
        return RuledOut(_KIND, text, figures)
    text = f"{root.label} ended with status {root.exit_code} and its error output was not recorded"
    return Skipped(_KIND, f"{text}: 2> FILE or --tee keeps the end of stderr")


def _has_agent(case: Case, member: Process) -> bool:
    return bool((notes_of_agents(case.recording)["start_ticks"] == member.start_ticks).any())


def _was_sampled(case: Case, member: Process) -> bool:
    """Rows are written every few seconds: a process that crashed before the first was sampled all the same."""
    if (case.rows("allocation_stacks")["start_ticks"] == member.start_ticks).any():
        return True
    notes = notes_of_agents(case.recording)
    own = notes[notes["start_ticks"] == member.start_ticks]["note"]
    is_wanted = (case.recording.meta.get("options") or {}).get("sampling", False)
    return bool(is_wanted and len(own) and not (own == _NO_SAMPLES).any())
