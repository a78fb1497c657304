"""Python processes that were only seen from outside, and why: what a report has to admit before it rules things out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import outside
from ...storage import Recording, Row, Rows
from ...units import EXIT_NOTE, MUCH, GiB, format_bytes, format_duration
from .. import imported
from ..tables import by_process, cells, fell_silent, figures, only, process_name, process_names, records, text_of

_LEAST_LIFE_S = 3.0  # a process that lives shorter gets no snapshot anyway
_MOST_NOTES = 4
THROTTLED = "throttled"  # the note of an agent, the event of the recorder
_NO_AGENT = "no-agent"  # a note of an agent that did not begin: see agent/refusal.py
# Below these the agent stays away: it would take address space that the job may need (agent/native/address_space.py).
_SCARCE = {"rlimit-as": (4 * GiB, "ulimit -v"), "rlimit-data": (1 * GiB, "ulimit -d")}


_NO_SNAPSHOT = ("take-skipped", "failed", "take-interrupted")
_LEFT_UNDONE = {
    "agent-failed": "something went wrong inside leakscope, and what it saw from then on may be missing",
    "gpu-history": "history of GPU memory",
    "no-allocation-samples": "allocations were not sampled, so that lines of native memory are missing",
    "fewer-allocation-samples": "fewer samples of allocations",
}


def notes_of_agents(recording: Recording) -> Rows:
    """Rows of ``agent_notes``, but for those of an agent that did not begin."""
    notes = recording.rows["agent_notes"]
    return only(notes, notes["note"] != _NO_AGENT)


def not_looked_at(recording: Recording, window_s: tuple[float, float] | None = None) -> list[str]:
    """Sentences for a report: processes without an inside view, or with none to their end, and what was left undone.

    ``window_s``: that was judged; a snapshot that came late, and left little of it unseen, changed nothing.
    """
    return [
        *_of_other_mallocs(recording),
        *_without_inside_view(recording),
        *_of_each_reason(_fallen_silent(recording)),
        *_left_undone(recording, window_s),
    ]


def other_mallocs(recording: Recording) -> dict[str, bool]:
    """What served malloc in place of libc, of all processes: whether it said what it has in use and keeps free."""
    rows = recording.rows["sentinels"]
    rows = only(rows, rows["malloc_library"].notna())
    if not len(rows):
        return {}
    return {library: own["malloc_free_bytes"].count() > 0 for library, own in rows.groupby("malloc_library")}


def _labels(recording: Recording) -> Callable[[int, int], str]:
    """``train.py[4711]``, of pid and start ticks."""
    known = process_names(records(recording.rows["processes"]))
    return lambda pid, ticks: f"{known.get((pid, ticks), 'process')}[{int(pid)}]"


def _of_other_mallocs(recording: Recording) -> list[str]:
    """First of all: growth that such an allocator keeps looks like growth that nobody can explain."""
    return [
        f"malloc is {library}'s, not glibc's: what it has in use and keeps free was "
        + ("read from it, arenas were not" if is_known else "not read: what is in use is an estimate, based on samples")
        for library, is_known in other_mallocs(recording).items()
    ]


def _left_undone(recording: Recording, window_s: tuple[float, float] | None) -> list[str]:
    """What the agents wrote down about snapshots they did not take, each thing once."""
    texts: dict[str, dict[str, None]] = {}
    for note, text in cells(recording.rows["agent_notes"], "note", "text"):
        if text is not None and note in _LEFT_UNDONE:
            texts.setdefault(_LEFT_UNDONE[note], {})[text] = None
    failed, of_gpu, unsampled, fewer = (
        [f"{what}: {text}" for text in texts.get(what, ())][:_MOST_NOTES]
        for what in dict.fromkeys(_LEFT_UNDONE.values())
    )
    missing = _without_snapshots(recording, window_s)[:_MOST_NOTES]
    return [*failed, *missing, *of_gpu, *_reduced(recording), *_without_graph(recording), *unsampled, *fewer]


def _without_snapshots(recording: Recording, window_s: tuple[float, float] | None) -> list[str]:
    """Since when and until when no snapshot saw a process, and why its agent made none: of each reason the first."""
    notes, label = recording.rows["agent_notes"], _labels(recording)
    taken = {key: figures(rows, "time_s") for key, rows in by_process(recording.rows["takes"])}
    told: dict[str, tuple[str, str]] = {}
    whose: dict[str, dict[str, None]] = {}
    for pid, ticks, at_s, note, text in cells(notes, "pid", "start_ticks", "time_s", "note", "text"):
        if note not in _NO_SNAPSHOT or text is None:
            continue
        taken_s = np.concatenate([[-np.inf], np.sort(taken.get((pid, ticks), np.empty(0))), [np.inf]])
        after = int(np.searchsorted(taken_s, at_s, side="right"))
        since_s, until_s = taken_s[after - 1], taken_s[after]
        if window_s is not None and until_s < np.inf:
            unseen_s = min(until_s, window_s[1]) - max(since_s, window_s[0])
            if unseen_s < MUCH * (window_s[1] - window_s[0]):
                continue
        ends = ((word, at_s) for word, at_s in (("after", since_s), ("before", until_s)) if np.isfinite(at_s))
        when = " and ".join(f"{word} {format_duration(at_s)}" for word, at_s in ends)
        reason = "".join(letter for letter in text if not letter.isdigit())
        told.setdefault(reason, (f" {when}, so what it held then has no names" if when else "", text))
        whose.setdefault(reason, {})[label(pid, ticks)] = None
    return [
        f"no snapshot of {next(iter(some))}{f' and {len(some) - 1} more' if len(some) > 1 else ''}{when}: {text}"
        for (when, text), some in zip(told.values(), whose.values())
    ]


def _without_graph(recording: Recording) -> list[str]:
    """Why the heap could not be read as a whole, each reason once; of processes that could read it later, nothing."""
    read = set(cells(recording.rows["heap_graphs"], "pid", "start_ticks"))
    said = cells(recording.rows["agent_notes"], "note", "text", "pid", "start_ticks")
    why = dict.fromkeys(
        text for note, text, *process in said
        if note == "no-heap-graph" and text is not None and tuple(process) not in read
    )  # fmt: skip
    return [f"holders and sizes are estimates, the heap was not read as a whole: {text}" for text in why][:_MOST_NOTES]


def _reduced(recording: Recording) -> list[str]:
    """Processes with more objects than could be looked at without a pause that somebody would notice."""
    notes = recording.rows["agent_notes"]
    notes = only(notes, notes["note"] == "reduced-take").drop_duplicates(["pid", "start_ticks"])
    if not len(notes):
        return []
    label, graphs = _labels(recording), recording.rows["heap_graphs"]
    whole = {pid: own["time_s"].min() for pid, own in graphs[~graphs["is_sampled"].fillna(False)].groupby("pid")}

    def who(pid: Any, ticks: Any, time_s: float) -> str:
        since = f", from {format_duration(time_s)} on" if whole.get(pid, time_s) < time_s else ""  # not all along
        return f"{label(pid, ticks)}{since}"

    return _of_each_reason(
        (text, who(*process)) for *process, text in cells(notes, "pid", "start_ticks", "time_s", "text")
    )


def _of_each_reason(said: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each of the first few reasons, of (reason, process): one process by its name, others counted.

    What stands behind a colon are the first one's own figures.
    """
    whose: dict[str, list[str]] = {}
    whole: dict[str, str] = {}
    for why, process in said:
        reason = why.partition(":")[0]
        whose.setdefault(reason, []).append(process)
        whole.setdefault(reason, why)
    return [
        f"{processes[0]}{f' and {len(processes) - 1} more' if len(processes) > 1 else ''}: {whole[reason]}"
        for reason, processes in [*whose.items()][:_MOST_NOTES]
    ]


def _without_inside_view(recording: Recording) -> list[str]:
    """One sentence for each reason why longer-lived Python processes have no agent, at most a few."""
    if str((recording.meta.get("options") or {}).get("agent")) in ("off", "False"):
        return ["no inside view: recorded with --agent off"]
    if imported.files(recording):
        return []  # there was no agent anywhere, and each format says what it lacks
    label = _labels(recording)
    blind = (
        (_refused(recording, row) or _reason(recording, row), label(row["pid"], row["start_ticks"]))
        for row in _blind(recording)
    )
    return [f"no inside view of {said}" for said in _of_each_reason(blind)]


def _fallen_silent(recording: Recording) -> Iterator[tuple[str, str]]:
    """(until when it was seen from inside, process) where its agent said nothing more, though it went on."""
    tables = recording.rows
    exits = only(tables["agent_notes"], tables["agent_notes"]["note"] == EXIT_NOTE)
    ended = {(pid, ticks): at_s for pid, ticks, at_s in cells(exits, "pid", "start_ticks", "time_s")}
    lived = {key: figures(rows, "time_s")[[0, -1]] for key, rows in by_process(tables["process_samples"])}
    label = _labels(recording)
    for key, rows in by_process(tables["sentinels"]):
        told_s, (began_s, last_s) = float(figures(rows, "time_s")[-1]), lived.get(key, (0.0, 0.0))
        ended_s = min(last_s, ended.get(key, last_s))
        if fell_silent(told_s, began_s, ended_s):
            text = f"seen from inside until {format_duration(told_s)} only; it went on to {format_duration(ended_s)}"
            yield text, label(*key)


def _blind(recording: Recording) -> list[dict[str, Any]]:
    """Rows of Python processes without an agent that lived long enough for one to say so."""
    known = {
        (pid, ticks)
        for pid, ticks, note in cells(recording.rows["agent_notes"], "pid", "start_ticks", "note")
        if note not in (None, _NO_AGENT)
    }
    return [
        row
        for row in records(recording.rows["processes"], "pid", "start_ticks", "exe", "comm", "cmdline")
        if None not in (row["pid"], row["start_ticks"])
        and (row["pid"], row["start_ticks"]) not in known
        and _is_python(row)
        and _life_s(recording, row) >= _LEAST_LIFE_S
    ]


def blind_spot(recording: Recording, pid: int | None) -> str | None:
    """Why there is no view inside the process that matters, and what to do; None if there is one, or it is no Python.

    ``pid`` None: the first process that is a Python.
    """
    if str((recording.meta.get("options") or {}).get("agent")) in ("off", "False"):
        return "recorded with --agent off: record it without that"
    blind = [row for row in _blind(recording) if pid is None or int(row["pid"]) == pid]
    if not blind or (pid is None and len(recording.rows["sentinels"])):
        return None
    if refused := _refused(recording, blind[0]):
        return refused
    if recording.meta.get("attached"):
        return f"{outside.ATTACHED}: {outside.ENTER_ATTACHED}"
    flag = outside.flag_of(_words(blind[0]))
    who = f"{process_name(blind[0])} was " if flag is not None else ""
    return f"{who}{_reason(recording, blind[0])}: {outside.remedy(flag)}"


class Foreign(NamedTuple):
    """A process that runs another program than Python. ``started_by``: its parent, where that is of the job."""

    program: str
    cmdline: str | None
    started_by: str | None


def foreign(recording: Recording, pid: int, start_ticks: int) -> Foreign | None:
    """What a process runs that is no Python, which nobody can look into; None for a Python, or if it is not known.

    A tool whose file was imported may have looked into any program.
    """
    if imported.files(recording):
        return None
    rows = records(recording.rows["processes"], "pid", "start_ticks", "ppid", "exe", "comm", "cmdline")
    row = next((row for row in rows if (row["pid"], row["start_ticks"]) == (pid, start_ticks)), None)
    program = text_of(row, "exe") or text_of(row, "comm")
    if row is None or program is None or _is_python(row):
        return None
    notes = recording.rows["agent_notes"]
    if bool(_is_of(notes, row).any()):  # Python, built into a program of another name
        return None
    parent = next((other for other in rows if other["pid"] == row["ppid"]), None)
    started_by = f"{process_name(parent)}[{int(parent['pid'])}]" if parent is not None else None
    return Foreign(program.rsplit("/", 1)[-1], text_of(row, "cmdline"), started_by)


def _is_python(row: Row) -> bool:
    return outside.is_python(text_of(row, "exe") or text_of(row, "comm") or "")


def _life_s(recording: Recording, row: Row) -> float:
    samples = recording.rows["process_samples"]
    own_s = figures(samples, "time_s")[_is_of(samples, row)]
    return float(own_s.max() - own_s.min()) if len(own_s) else 0.0


def _is_of(rows: Rows, process: Row) -> NDArray[np.bool_]:
    of_pid, of_ticks = (figures(rows, name) == process[name] for name in ("pid", "start_ticks"))
    is_so: NDArray[np.bool_] = of_pid & of_ticks
    return is_so


def _refused(recording: Recording, row: Row) -> str | None:
    """What the agent wrote down itself as it did not begin, and what helps; None if it did not get so far.

    A process that was forked says nothing: it runs the program of another, which did.
    """
    notes = recording.rows["agent_notes"]
    notes = only(notes, notes["note"] == _NO_AGENT)
    if not len(notes):
        return None
    notes = notes.dropna(subset=["pid", "start_ticks", "text"])
    own = only(notes, _is_of(notes, row))
    if not len(own) and len(notes) and (exe := text_of(row, "exe")):
        processes = recording.rows["processes"]
        alike = only(processes, processes["exe"] == exe)
        own = only(notes, notes["pid"].isin(alike["pid"]) & notes["start_ticks"].isin(alike["start_ticks"]))
    return None if not len(own) else str(own["text"].iloc[0])


def _reason(recording: Recording, row: Row) -> str:
    """A limit that leaves no room, the interpreter's options that keep PYTHONPATH or site from being read, or a guess.

    A limit that the program set itself comes after the agent, who then was there.
    """
    limits = recording.rows["limit_samples"]
    limits = only(limits, _is_of(limits, row)).drop_duplicates("limit_name")
    for name, limit_bytes in cells(limits, "limit_name", "limit_bytes"):
        least_bytes, command = _SCARCE.get(str(name), (0, ""))
        if limit_bytes is not None and limit_bytes < least_bytes:
            text = f"its memory is limited to {format_bytes(limit_bytes)} ({command})"
            return f"{text}, and below {format_bytes(least_bytes)} the agent takes none of it"
    if recording.meta.get("attached"):
        return outside.ATTACHED
    flag = outside.flag_of(_words(row))
    return f"started with {flag}" if flag is not None else outside.UNKNOWN


def _words(row: Row) -> list[str]:
    try:
        return shlex.split(text_of(row, "cmdline") or "")
    except ValueError:
        return []
