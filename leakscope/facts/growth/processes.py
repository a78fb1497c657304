"""The memory of each process over its life, and whether it grows.

A process is judged on what it holds itself: private memory, shared memory and swap. Mapped files are left out: the
kernel takes their pages back when it needs them. Pages that several processes share are counted once, by the
proportional set size where the recorder read it; between two readings the share is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...rising import LEAST_BLOCKS
from ...storage import Recording, Row, Rows
from ...units import EXIT_NOTE, WATCHED_TEXT
from ..series.arithmetic import Floats, level_at
from ..series.trend import CANNOT_TELL, Trend, judge
from ..tables import by_process, cells, figures, narrow, only, process_names, records, text_of
from .arenas import with_snapshots
from .sharing import Family, Ours, copied_by_takes, families, own_bytes, read_by_forks, shares

_GAPS_LOOKED_AT = 512
_LATER_S = 60.0  # a fork may be seen first when its parent was seen last: no pid is given twice so soon
_PEAK = "peak"
BETWEEN = "between samples"
_Key = tuple[int, int]  # pid, start_ticks
_TOLD = (
    "pid", "ppid", "start_ticks", "time_s", "time_mono_ns", "cmdline", "comm", "role", "born_mono_ns", "died_mono_ns",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProcessGrowth:
    """One process over its life. **Units** seconds and bytes; ``held_bytes`` is what the trend judges.

    ``begun_s``: when its interpreter had started and the program's first line came next; None where nobody said.
    """

    pid: int
    start_ticks: int
    name: str
    role: str | None
    time_s: Floats
    private_bytes: Floats
    shared_bytes: Floats
    file_bytes: Floats
    trend: Trend
    growth_bytes: int = 0
    exit_s: float = float("inf")
    first_step_s: float | None = None
    begun_s: float | None = None
    is_fork: bool = False  # of another process here: what was counted before its birth is its parent's
    hides: str = ""  # a sentence, if ``growth_bytes`` exceeds the measured growth
    tables: Mapping[str, Rows] = field(default_factory=dict, repr=False)
    _parted: dict[str, dict[_Key, Rows]] = field(default_factory=dict, repr=False)

    @property
    def held_bytes(self) -> Floats:
        return self.private_bytes + self.shared_bytes

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start_ticks

    @property
    def is_hidden(self) -> bool:
        return bool(self.hides)

    @property
    def label(self) -> str:
        return f"{self.name}[{self.pid}]"

    def rows(self, table: str) -> Rows:
        """Its own rows of a table that has pid and start_ticks, by time. Shared by all who ask: do not change them."""
        if table not in self._parted:  # for all processes at once: each asks for the same tables
            parts = dict(by_process(self.tables[table]))
            if table == "sentinels":
                graphs, takes = (dict(by_process(self.tables[name])) for name in ("heap_graphs", "takes"))
                parts |= {
                    key: with_snapshots(parts[key], graphs[key], takes[key])
                    for key in parts.keys() & graphs.keys() & takes.keys()
                }
            self._parted[table] = parts
        rows = self._parted[table].get((self.pid, self.start_ticks))
        if rows is not None:
            return rows
        of_all = self.tables[table]
        return of_all.iloc[:0] if len(of_all) else of_all

    def is_in(self, rounds_s: Floats, at_s: float) -> bool:
        """Whether it was seen in the round nearest to a moment.

        One that came and went is in no round but its own: of two that followed each other a sum has one.
        """
        first, last = _rounds_of_life(self, rounds_s)
        return first <= _nearest(rounds_s, at_s) <= last

    def held_in(self, rounds_s: Floats, at_s: float) -> int:
        """What it held in the round nearest to a moment, which need be none of its own."""
        if rounds_s.size and not self.is_in(rounds_s, at_s):
            return 0
        return round(level_at(self.time_s, self.held_bytes, at_s))

    def judged(self, at_s: Floats, values: Floats) -> Trend:
        """The trend of what its allocators were asked once a second, from when its work began."""
        least = LEAST_BLOCKS + 2
        return judge(at_s, values, started_s=self.first_step_s, begun_s=self.begun_s, min_samples=least)

    def within(self, start_s: float, end_s: float, rounds_s: Floats) -> ProcessGrowth:
        """The same process, its ``growth_bytes`` what it gained between two moments, by the rounds of its job."""
        return replace(self, growth_bytes=self.held_in(rounds_s, end_s) - self.held_in(rounds_s, start_s))


def process_growths(recording: Recording) -> list[ProcessGrowth]:
    """Every process that was ever seen to hold memory."""
    tables = recording.rows
    steps = _first_steps_s(tables["sentinels"], tables["agent_notes"])
    known = records(tables["processes"], *_TOLD)
    copied = copied_by_takes(tables["takes"], tables["processes"])
    samples = dict(by_process(tables["process_samples"]))
    of_command = families(known, samples)
    row_of = {(row["pid"], row["start_ticks"]): row for row in known}
    names = process_names(known)
    parents = _parents(samples, row_of)
    parted = {"process_samples": samples, "agent_notes": dict(by_process(tables["agent_notes"]))}

    def process(key: _Key, rows: Rows) -> ProcessGrowth:
        row, notes = row_of.get(key), parted["agent_notes"].get(key)
        loaded, exits = (_noted_s(notes, note) for note in ("loaded", EXIT_NOTE))
        exit_s = float(exits[-1]) if exits.size else float("inf")
        at_work = only(rows, rows["time_s"] <= exit_s)
        # What a program gives back while it shuts down says nothing about its life; nor does what it shares by then,
        # which would be drawn on a line from the reading before it.
        rows = at_work if at_work["rss_bytes"].count() >= 2 else rows
        family, ours = of_command.get(text_of(row, "cmdline") or "", Family()), _graphs_of(tables["heap_graphs"], key)
        return ProcessGrowth(
            *key, names.get(key, "process"), text_of(row, "role"), *shares(rows, family, copied.get(key[0], ()), ours),
            Trend(CANNOT_TELL, "not judged yet"), exit_s=exit_s, first_step_s=steps.get(key),
            begun_s=float(loaded[0]) if loaded.size else None, tables=tables, _parted=parted,
        )  # fmt: skip

    processes = (process(key, rows) for key, rows in read_by_forks(samples, parents).items())
    by_key = {one.key: one for one in processes if one.time_s.size}
    seen = _with_what_forks_share(by_key, parents, row_of, samples)
    most, text = recorded_peak(recording)
    if most and BETWEEN not in text:
        seen = [replace(p, private_bytes=_without_snapshots(p, most)) for p in seen]
    rounds_s = rounds_of(seen) if recording.goes_on else np.empty(0)

    def trend(p: ProcessGrowth) -> Trend:
        goes_on = bool(rounds_s.size) and p.is_in(rounds_s, float(rounds_s[-1]))
        return judge(p.time_s, p.held_bytes, started_s=p.first_step_s, begun_s=p.begun_s, is_over=not goes_on)

    return [replace(p, trend=trend(p)) for p in seen]


def _without_snapshots(process: ProcessGrowth, most_bytes: int) -> Floats:
    """Private memory without what a snapshot of ours took at a sample: what came and went again, above the
    ``most_bytes`` that the job had by itself.
    """
    stayed = np.minimum.accumulate(process.held_bytes[::-1])[::-1]
    most = np.maximum(most_bytes, stayed) - process.shared_bytes
    return np.minimum(process.private_bytes, np.maximum(0.0, most))


def recorded_peak(recording: Recording) -> tuple[int, str]:
    """What the recorder took for the most that the job held, without our snapshots, and its words; 0 where it did not
    come to say so. It may be more than there was, never less.
    """
    events = recording.rows["events"]
    told = only(events, (events["event"] == _PEAK) & events["value"].notna()).sort_values("value")
    return (int(told["value"].iloc[-1]), str(told["text"].iloc[-1])) if len(told) else (0, "")


def _with_what_forks_share(
    by_key: dict[_Key, ProcessGrowth],
    parents: Mapping[_Key, _Key],
    row_of: Mapping[_Key, Row],
    samples: Mapping[_Key, Rows],
) -> list[ProcessGrowth]:
    """The processes, with pages that a fork still shares with its parent counted as the parent's alone.

    By shares a birth would be growth of the fork and a loss of its parent, read at two moments, though neither gained
    anything. A fork that has forks of its own is left as it is, since what it shares with them is its own.
    """
    order = list(by_key)
    parents = {key: parent for key, parent in parents.items() if key in by_key and parent in by_key}
    by_key |= {key: replace(by_key[key], is_fork=True) for key in parents}
    lent: dict[_Key, list[tuple[Floats, Floats]]] = {}
    for key in parents.keys() - set(parents.values()):
        p = by_key[key]
        own = np.minimum(p.private_bytes, own_bytes(samples[key], p.time_s, p.private_bytes))
        lent.setdefault(parents[key], []).append(_from_birth_to_death(p, p.private_bytes - own, row_of[key]))
        by_key[key] = replace(p, private_bytes=own)
    for key, forks in lent.items():
        p = by_key[key]
        private = p.private_bytes + sum(np.interp(p.time_s, *fork, left=0.0, right=0.0) for fork in forks)
        by_key[key] = replace(p, private_bytes=private)
    return [by_key[key] for key in order]


def _from_birth_to_death(process: ProcessGrowth, values: Floats, row: Row) -> tuple[Floats, Floats]:
    """The first value from birth, the last until death: a parent shares its pages from then on, seen or not."""
    first_s, last_s = float(process.time_s[0]), float(process.time_s[-1])
    if row["time_mono_ns"] is not None:
        born_s, died_s = (
            row["time_s"] + (row[name] - row["time_mono_ns"]) / 1e9 if row[name] is not None else None
            for name in ("born_mono_ns", "died_mono_ns")
        )
        first_s = first_s if born_s is None else min(first_s, born_s)
        last_s = last_s if died_s is None else max(last_s, died_s)
    return np.concatenate([[first_s], process.time_s, [last_s]]), np.concatenate([values[:1], values, values[-1:]])


def _parents(samples: Mapping[_Key, Rows], row_of: Mapping[_Key, Row]) -> dict[_Key, _Key]:
    """{fork: its parent}, which runs the same command, and was there before."""
    lives = {key: (float(rows["time_s"].min()), float(rows["time_s"].max())) for key, rows in samples.items()}
    of_pid: dict[int, list[_Key]] = {}
    for key in samples:
        of_pid.setdefault(key[0], []).append(key)
    found = {}
    for key, (first_s, _) in lives.items():
        row = row_of.get(key)
        if row is None or row["ppid"] is None or row["cmdline"] is None:
            continue
        for parent in of_pid.get(row["ppid"], ()):
            is_same = parent != key and (row_of.get(parent) or {}).get("cmdline") == row["cmdline"]
            if is_same and lives[parent][0] <= first_s <= lives[parent][1] + _LATER_S:
                found[key] = parent
                break
    return found


def rounds_of(processes: Sequence[ProcessGrowth]) -> Floats:
    """When the process seen longest was sampled and, before and after it, the others: all are read in one round."""
    longest = max(processes, key=lambda p: (p.time_s[-1] - p.time_s[0], p.time_s.size))
    first_s, last_s = longest.time_s[0] - 1, longest.time_s[-1] + 1
    beyond = [p.time_s[(p.time_s < first_s) | (p.time_s > last_s)] for p in processes]
    return np.unique(np.concatenate([longest.time_s, *beyond]))


def alive_in(process: ProcessGrowth, rounds_s: Floats) -> NDArray[np.bool_]:
    """In which rounds it was seen, and those between; one that came and went counts in its own round only.

    A round that is left out of the others' (a snapshot held memory then) is none to count it in: before its birth its
    parent had all pages that they share.
    """
    first, last = _rounds_of_life(process, rounds_s)
    alive = np.zeros(rounds_s.size, dtype=bool)
    alive[first : last + 1] = True
    return alive


def _rounds_of_life(process: ProcessGrowth, rounds_s: Floats) -> tuple[int, int]:
    """Its first and its last; the last is before the first where it is in none. **Cost** 30 us, also of a day."""
    some = np.arange(0, rounds_s.size - 1, max(1, rounds_s.size // _GAPS_LOOKED_AT))
    slack_s = float(np.median(rounds_s[some + 1] - rounds_s[some])) / 2 if some.size else np.inf
    first, last = (_nearest(rounds_s, float(process.time_s[i])) for i in (0, -1))
    if rounds_s[first] < process.time_s[0] - slack_s:
        first += 1
    if rounds_s[last] > process.time_s[-1] + slack_s:
        last -= 1
    return first, last


def _nearest(sorted_s: Floats, at_s: float) -> int:
    after = int(np.searchsorted(sorted_s, at_s))
    if after == 0 or after == sorted_s.size:
        return min(after, sorted_s.size - 1)
    return after if sorted_s[after] - at_s < at_s - sorted_s[after - 1] else after - 1


def _first_steps_s(sentinels: Rows, notes: Rows) -> dict[_Key, float]:
    """When each process that trains made its first step, by its agent.

    What it was born with is none of its own: a fork goes on from its parent's count. While the program was traced
    nobody counted: which was the first is not known then.
    """
    texts = only(notes, notes["text"] == WATCHED_TEXT)
    watched_s = {(pid, ticks): at_s for pid, ticks, at_s in cells(texts, "pid", "start_ticks", "time_s")}
    rows = narrow(sentinels, "pid", "start_ticks", "time_s", "step")
    rows = only(rows, sentinels["pid"].notna()).sort_values("time_s")
    rows = rows.assign(start_ticks=rows["start_ticks"].fillna(0), step=rows["step"].fillna(0))
    found = {}
    for key, own in rows.groupby(["pid", "start_ticks"]):
        first = only(own, own["step"] > own["step"].iloc[0])
        if len(first) and (at_s := float(first["time_s"].iloc[0])) <= watched_s.get(key, at_s):
            found[key] = at_s
    return found


def _graphs_of(graphs: Rows, key: _Key) -> list[Ours]:
    """What the agent had in the process's memory, to read its heap."""
    if not len(graphs):
        return []
    graphs = narrow(graphs, "pid", "start_ticks", "time_s", "held_s", "reading_bytes")
    own = only(graphs, (graphs["pid"] == key[0]) & (graphs["start_ticks"] == key[1]) & graphs["held_s"].notna())
    told = cells(own, "time_s", "held_s", "reading_bytes")
    return [Ours(at, at + held, float("inf") if size is None else size) for at, held, size in told]


def _noted_s(notes: Rows | None, note: str) -> Floats:
    """When the agent of a process noted that it was loaded, or that the interpreter began to shut down."""
    if notes is None:
        return np.empty(0)
    return figures(only(notes, notes["note"] == note), "time_s")
