"""Loader workers that copy or keep memory: the cost of one is paid once for each of them.

Looks for:     worker processes of a DataLoader whose private memory keeps rising while they live.
Why:           a fork shares its parent's memory only until it touches it, and every reference count is a touch; and
               what a data set remembers, each worker remembers for itself.
Decides by:    growth of the workers since they were born, min_share of the tree's growth or more. Copying moves pages
               from shared to private and adds none; what a worker keeps adds pages of its own.
Mistaken when: a cache that is bounded is still being filled.
Do:            keep rows in arrays, tensors or Arrow instead of Python objects; bound what __getitem__ remembers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..units import MiB, format_bytes, format_count
from ._growth import TreeGrowth, severity_of, tree_growth
from ._growth_processes import ProcessGrowth, rows_of
from ._processes import DATALOADER_WORKER, Process, processes
from ._rows import int_of, text_of
from ._series import Floats, level_at
from ._sharing import copied_by_takes
from ._source_lines import Holder, Line, Source, adding_lines
from ._sources import sources_of
from ._trend import GROWING
from ._worker_code import Code, dataset_name

if TYPE_CHECKING:
    import pandas as pd

    from ..storage import Recording

NEEDS = ("process_samples", "processes")
AFTER_OTHERS = 1  # a worker that is no fork takes inventories: then the holder has been found already
_KIND = "dataloader-workers"
_WARM_UP_S = 2.0  # a worker's imports and first batches
_WARM_UP_LIFE = 0.2  # of a worker that lived shorter
_LAST_S = 2.0  # before the end of the window: workers end a moment before their parent
_ALIKE = 0.5  # growth of the least over that of the most
_IDLE_SHARE = 0.05  # of a core


@dataclass(frozen=True, eq=False)
class _Group:
    """Workers of one parent. ``alive`` were there at the end of the judged window.

    **Units** bytes. ``own`` are pages the workers added in the window; ``copied`` pages of all that became private in
    it, in the parent too; ``copied_in_life`` what each worker copied since it was born; ``data`` what the parent was
    seen to hold in Python objects below the data set's attributes, by (class, attribute).
    """

    parent: ProcessGrowth | None
    ever: tuple[ProcessGrowth, ...]
    alive: tuple[ProcessGrowth, ...]
    own: tuple[float, ...]
    copied: tuple[float, ...]
    copied_in_life: tuple[float, ...]
    loader: pd.Series[Any] | None
    datasets: tuple[str, ...]
    data: dict[tuple[str, str], float]

    @property
    def gained(self) -> int:
        return int(sum(self.own) + sum(self.copied))

    @property
    def by_worker(self) -> list[float]:
        return [own + copied for own, copied in zip(self.own, self.copied)]

    @property
    def copies(self) -> bool:
        """Most of the growth is pages of the parent's that became the worker's own."""
        return sum(self.copied) > sum(self.own)

    @property
    def is_growing(self) -> bool:
        members = [*self.alive, *([self.parent] if self.parent is not None and self.copies else [])]
        return bool(self.alive) and any(member.trend.verdict == GROWING for member in members)


def findings(
    recording: Recording,
    *,
    so_far: Sequence[Finding] = (),
    min_share: float = 0.15,  # of the growth of the tree: less is not what it suffers from
    min_bytes: int = 8 * MiB,  # heaps of Python settle by a few
    min_copied_bytes: int = 64 * MiB,  # all workers: an interpreter with torch in it copies some by itself
    min_copied_share: float = 0.1,  # of what the whole tree holds
    min_data_share: float = 0.4,  # of what a worker copied, seen in the parent as Python objects of the data set
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per parent whose workers keep growing or have copied its data, or what they cost."""
    growth = tree_growth(recording)
    sources = sources_of(recording)
    code = Code(sources)
    groups = _groups(recording, growth, code)
    if not groups:
        yield RuledOut(_KIND, "no loader worker was seen")
        return
    for group in groups:
        copied = sum(group.copied_in_life)
        data = max(group.data.values(), default=0.0)
        enough = max(min_bytes, min_share * growth.growth_bytes)
        if growth.leaking and group.is_growing and group.gained >= enough:
            yield _finding(growth, group, _suspect(code, sources, group, so_far, growing=True), recording)
        elif growth.leaking is None:
            yield Skipped(_KIND, growth.reason)
        elif (
            copied >= max(min_copied_bytes, min_copied_share * float(growth.held_bytes[-1]))
            and data * len(group.alive) >= min_data_share * copied
        ):
            yield _waste(growth, group, _suspect(code, sources, group, so_far, growing=False), int(copied))
        else:
            yield _ruled_out(recording, group)


# ---- who works for whom


def _groups(recording: Recording, growth: TreeGrowth, code: Code) -> list[_Group]:
    parents: dict[int, list[Process]] = defaultdict(list)
    for process in processes(recording):
        if process.role == DATALOADER_WORKER and process.growth is not None:
            parents[process.ppid].append(process)
    return [_group(recording, growth, code, parent, workers) for parent, workers in sorted(parents.items())]


def _alive(workers: list[Process], end_s: float) -> list[Process]:
    """Those there at the end, or a moment before it; of several generations, one each epoch, the last."""
    late = [worker for worker in workers if worker.died_s >= end_s - _LAST_S]
    last_s = max((worker.born_s for worker in late), default=0.0)
    return [worker for worker in late if worker.died_s > last_s]  # one look sees the old end and the new begin


def _group(recording: Recording, growth: TreeGrowth, code: Code, ppid: int, workers: list[Process]) -> _Group:
    ever = [worker.growth for worker in workers if worker.growth is not None]
    alive = [worker.growth for worker in _alive(workers, growth.end_s) if worker.growth is not None]
    loader = _loader_of(recording.tables["loaders"], {worker.pid for worker in workers})
    trainer = int_of(loader, "pid") or ppid  # workers of a fork server are its children, not the trainer's
    parent = growth.process(ppid)
    known = dataset_name(text_of(loader, "dataset_type"))
    datasets = (known,) if known in code.bases else tuple(code.datasets())
    gains = [_gains(recording, growth, worker, worker) for worker in alive]
    copied = [copied for _, copied in gains]
    if parent is not None and alive:
        copied.append(_gains(recording, growth, parent, alive[0])[1])  # no longer shared with whoever has copied it
    takes = copied_by_takes(recording.tables["takes"], recording.tables["processes"]).get(ppid, ())
    # What the parent copies is private to the only other process that shared it: nothing that this one has written to.
    by_us = sum(t.bytes for t in takes if t.from_s >= alive[0].time_s[0]) if len(alive) == 1 else 0.0
    return _Group(
        parent=parent,
        ever=tuple(ever),
        alive=tuple(alive),
        own=tuple(own for own, _ in gains),
        copied=tuple(copied),
        copied_in_life=tuple(_copied_in_life(recording, worker, by_us) for worker in alive),
        loader=loader,
        datasets=datasets,
        data=_data(recording, trainer, datasets),
    )


def _loader_of(loaders: pd.DataFrame, pids: set[int]) -> pd.Series[Any] | None:
    """The newest iterator that has one of these workers."""
    named = [any(pid in pids for pid in _pids(text)) for text in loaders["worker_pids"]]
    own = loaders[named]
    return own.iloc[-1] if len(own) else None


def _pids(text: Any) -> list[int]:
    return [int(pid) for pid in text.split(",") if pid] if isinstance(text, str) else []


def _gains(
    recording: Recording, growth: TreeGrowth, process: ProcessGrowth, worker: ProcessGrowth
) -> tuple[float, float]:
    """(own, copied) bytes a process gained in the judged window while a worker lived, the worker's start left out.

    Anonymous memory counts pages shared with the parent in full from the start: copying one does not raise it.
    """
    lived_s = float(worker.time_s[-1] - worker.time_s[0])
    settled_s = float(worker.time_s[0]) + min(_WARM_UP_S, _WARM_UP_LIFE * lived_s)
    window = max(growth.start_s, settled_s), min(growth.end_s, float(worker.time_s[-1]))
    start, end = (level_at(process.time_s, process.held_bytes, at_s) for at_s in window)
    time_s, pages = _pages(recording, process)
    added = level_at(time_s, pages, window[1]) - level_at(time_s, pages, window[0])
    own = min(max(0.0, added), max(0.0, end - start))
    return own, max(0.0, end - start - own)


def _pages(recording: Recording, process: ProcessGrowth) -> tuple[Floats, Floats]:
    rows = rows_of(recording.tables["process_samples"], process)
    rows = rows[rows["anon_bytes"].notna()]
    pages = rows["anon_bytes"] + rows["shmem_bytes"].fillna(0)
    return rows["time_s"].to_numpy(dtype=np.float64), pages.to_numpy(dtype=np.float64)


def _copied_in_life(recording: Recording, worker: ProcessGrowth, by_us: float) -> float:
    """Private bytes at the last reading less those at the first, without pages it added itself and our inventories'."""
    rows = rows_of(recording.tables["process_samples"], worker)
    rows = rows[rows["uss_bytes"].notna() & rows["anon_bytes"].notna()]
    if len(rows) < 2:
        return 0.0
    private, pages = (rows[name].to_numpy(dtype=np.float64) for name in ("uss_bytes", "anon_bytes"))
    return max(0.0, float(private[-1] - private[0]) - max(0.0, float(pages[-1] - pages[0])) - by_us)


def _data(recording: Recording, ppid: int, datasets: Sequence[str]) -> dict[tuple[str, str], float]:
    rows = recording.tables["holders"]
    rows = rows[(rows["pid"] == ppid) & rows["edge_kind"].eq("attribute").fillna(False) & rows["owner"].isin(datasets)]
    objects = rows["deep_bytes"] - rows["array_deep_bytes"].fillna(0) - rows["tensor_deep_bytes"].fillna(0)
    most: dict[tuple[str, str], float] = {}
    for owner, variable, size in zip(rows["owner"], rows["variable"], objects.astype("float64")):
        most[owner, variable] = max(most.get((owner, variable), 0.0), size)
    return most


# ---- what they keep


@dataclass(frozen=True)
class _Suspect:
    """What the workers keep or copy, as far as it can be told. ``how`` says by what: found, adds, read or nothing."""

    how: str
    name: str | None = None
    holder: Holder | None = None
    line: Line | None = None
    others: tuple[str, ...] = ()
    finding: Finding | None = None


def _suspect(
    code: Code, sources: Sequence[Source], group: _Group, so_far: Sequence[Finding], *, growing: bool
) -> _Suspect:
    pids = {worker.pid for worker in group.alive}
    inside = [f for f in so_far if f.subject.pid in pids and f.subject.variable]
    if inside and growing:
        first = max(inside, key=lambda finding: finding.bytes)
        return _Suspect("found", first.subject.holder, finding=first)
    for how in ("adds", "read") if growing and not group.copies else ("read",):
        holders = [h for name in group.datasets for h in (code.kept(name) if how == "adds" else code.read(name))]
        if how == "read":  # by what the parent's inventories saw; without any, as they stand in the source
            holders.sort(key=lambda h: -group.data.get((h.owner or "", h.variable), 0.0))
        if holders:
            line = next(iter(adding_lines(sources, holders[0])), None)
            return _Suspect(how, _name(holders[0]), holders[0], line, tuple(map(_name, holders[1:4])))
    return _Suspect("nothing")


def _name(holder: Holder) -> str:
    if holder.edge_kind == "cache":
        return f"{holder.owner}() (lru_cache)"
    return f"{holder.owner}.{holder.variable}" if holder.owner else holder.variable


# ---- what to say


def _finding(growth: TreeGrowth, group: _Group, suspect: _Suspect, recording: Recording) -> Finding:
    count, gained = len(group.alive), group.gained
    share = min(1.0, gained / max(growth.growth_bytes, 1))
    verb = "copies the memory it inherited" if group.copies else "keeps more and more memory"
    title = f"{_who(group)} {verb}: {format_bytes(gained, signed=True)} in all"
    if suspect.name is not None:
        title += f", {'most likely' if group.copies else 'likely in'} {suspect.name}"
    return Finding(
        kind=_KIND,
        title=title,
        severity=severity_of(growth, gained),
        confidence=_confidence(group, share),
        bytes=gained,
        subject=_subject(group, suspect),
        bytes_per_hour=round(gained / max(growth.end_s - growth.start_s, 1e-9) * 3600, 1),
        evidence=list(_evidence(recording, growth, group, suspect, share)),
        doubts=list(_doubts(group, suspect)),
        remedy=list(_remedy(group, suspect, gained / max(1, count))),
        series=[Series(w.label, w.time_s.tolist()[:500], w.private_bytes.tolist()[:500]) for w in group.alive[:4]],
    )


def _waste(growth: TreeGrowth, group: _Group, suspect: _Suspect, copied: int) -> Finding:
    """Copying that is done, or nearly: it does not go on for ever, but the memory is gone."""
    each = copied / len(group.alive)
    held = float(growth.held_bytes[-1])
    data = max(group.data.values(), default=0.0)
    name = suspect.name or "the data set"
    figures = {"worker_count": len(group.alive), "copied_bytes": copied, "data_bytes": int(data)}
    shared = f"{format_bytes(copied)} that the workers shared with their parent when they began are now copies of it"
    return Finding(
        kind=_KIND,
        title=f"{_who(group)} has copied {format_bytes(each)} of what it inherited, most likely {name}",
        severity="warning",
        confidence=0.8,
        bytes=copied,
        subject=_subject(group, suspect),
        evidence=[
            Evidence(f"{shared}: {copied / max(held, 1.0):.0%} of what all processes hold", figures),
            Evidence(f"the parent held {format_bytes(data)} of Python objects in {name}", {"data_bytes": int(data)}),
            *_line_evidence(suspect),
        ],
        doubts=["part of it is the interpreter's own and would be copied by any worker"],
        remedy=list(_remedy(group, suspect, each)),
        series=[Series(w.label, w.time_s.tolist()[:500], w.private_bytes.tolist()[:500]) for w in group.alive[:4]],
        wasted=True,
    )


def _who(group: _Group) -> str:
    return f"Each of {len(group.alive)} loader workers" if len(group.alive) > 1 else "The loader worker"


def _subject(group: _Group, suspect: _Suspect) -> Subject:
    most = max(zip(group.by_worker, group.alive), key=lambda pair: pair[0])[1]
    count = len(group.alive)
    workers = f"each of {count} loader workers" if count > 1 else "the loader worker"
    known = suspect.finding.subject if suspect.finding is not None else Subject()
    if suspect.holder is not None:
        holder, line = suspect.holder, suspect.line
        known = Subject(
            variable=holder.variable,
            file=line.file if line else holder.owner_file,
            line=line.line if line else None,
            function=line.function if line else None,
            module=holder.owner_module,
        )
    return replace(
        known,
        pid=most.pid,
        process=most.name,
        role=DATALOADER_WORKER,
        device="cpu",
        holder=f"{suspect.name} in {workers}" if suspect.name else workers,
        type=known.type or text_of(group.loader, "dataset_type"),
        library="torch.utils.data",
    )


def _line_evidence(suspect: _Suspect) -> Iterator[Evidence]:
    line = suspect.line
    if line is not None:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})
    if suspect.others:
        yield Evidence(f"also to be looked at: {', '.join(suspect.others)}", {})


def _confidence(group: _Group, share: float) -> float:
    sure = 0.5 + 0.35 * min(1.0, share / 0.7)
    sure += 0.07 if len(group.alive) > 1 and _are_alike(group) else 0.0
    return round(min(sure, 0.95), 2)


def _are_alike(group: _Group) -> bool:
    return min(group.by_worker) >= _ALIKE * max(group.by_worker)


def _evidence(
    recording: Recording, growth: TreeGrowth, group: _Group, suspect: _Suspect, share: float
) -> Iterator[Evidence]:
    each = [format_bytes(gained, signed=True) for gained in group.by_worker[:8]]
    figures = {"worker_count": len(group.alive), "gained_bytes": group.gained, "explained_share": round(share, 3)}
    alike = ", all alike" if len(each) > 1 and _are_alike(group) else ""
    text = f"since they started up the workers gained {', '.join(each)}{alike}"
    of_parent = sum(group.copied[len(group.alive) :])
    if of_parent >= MiB:
        text += f", and their parent {format_bytes(of_parent, signed=True)} that it no longer shares with them"
    yield Evidence(f"{text}: {share:.0%} of all growth", figures)
    own, copied = int(sum(group.own)), int(sum(group.copied))
    text = f"{format_bytes(own)} are pages the workers added themselves, {format_bytes(copied)} are copies of pages "
    yield Evidence(text + "they shared with their parent", {"own_bytes": own, "copied_bytes": copied})
    if group.parent is not None and not group.copies:
        gained = group.parent.growth_bytes
        yield Evidence(
            f"their parent, {group.parent.label}, gained {format_bytes(gained)}", {"parent_growth_bytes": gained}
        )
    in_use = _handed_out(recording, growth, group)
    if not group.copies and in_use > 0.3 * group.gained:
        text = f"malloc handed out {format_bytes(in_use)} more in them: what they keep is arrays, buffers or C memory"
        yield Evidence(text, {"malloc_growth_bytes": in_use})
    dataset = text_of(group.loader, "dataset_type")
    if dataset is not None:
        yield Evidence(f"they read {dataset}", {"dataset_type": dataset})
    yield from _line_evidence(suspect)


def _handed_out(recording: Recording, growth: TreeGrowth, group: _Group) -> int:
    """What malloc handed out more of in the workers, by their sentinels."""
    total = 0.0
    for worker in group.alive:
        rows = rows_of(recording.tables["sentinels"], worker)
        rows = rows[rows["malloc_in_use_bytes"].notna()]
        time_s = rows["time_s"].to_numpy(dtype=np.float64)
        if time_s.size:
            in_use = rows["malloc_in_use_bytes"].to_numpy(dtype=np.float64)
            start_s = max(growth.start_s, float(time_s[0]))
            total += level_at(time_s, in_use, min(growth.end_s, time_s[-1])) - level_at(time_s, in_use, start_s)
    return int(total)


def _doubts(group: _Group, suspect: _Suspect) -> Iterator[str]:
    if group.copies:
        yield "copying ends when each worker has its own copy of all it reads; it starts again with new workers"
    if suspect.how == "adds":
        yield (
            f"{suspect.name} is the place the source adds to in code that workers run; what is in it was not measured, "
            "since a forked worker takes no inventory: num_workers=0 in a short run would"
        )
    elif suspect.how == "read" and not group.copies:
        yield (
            f"no line in the sources adds to anything there; members of {suspect.name} may grow when they are used "
            "(pictures that are decoded, properties that are cached): num_workers=0 in a short run would show it"
        )
    elif suspect.how == "nothing":
        yield (
            "nothing was looked at inside them, since a forked worker takes no inventory: "
            "num_workers=0 in a short run lets the holder be named"
        )


def _remedy(group: _Group, suspect: _Suspect, bytes_each: float) -> Iterator[str]:
    each, line = format_bytes(bytes_each), suspect.line
    where = f" at {line.file.rsplit('/', 1)[-1]}:{line.line}" if line is not None else ""
    if group.copies:
        what = suspect.name or "the data set"
        yield (
            f"keep {what}{where} as one array, tensor or Arrow table instead of Python objects, whose reference counts "
            f"are written when they are read: saves up to {each} a worker"
        )
    elif suspect.how in ("found", "adds"):
        yield f"bound or empty {suspect.name}{where}: each worker has its own, about {each} of this run's growth"
    if len(group.alive) > 1:
        yield f"each worker less saves about {each} of this run's growth"


def _ruled_out(recording: Recording, group: _Group) -> RuledOut:
    """What the workers cost, for whoever wonders about them."""
    if not group.alive:
        last = group.ever[-1]
        figures: dict[str, object] = {"worker_count": len(group.ever), "private_bytes": _private_now(recording, last)}
        return RuledOut(_KIND, f"{len(group.ever)} loader workers came and went: their memory went with them", figures)
    private = [_private_now(recording, worker) for worker in group.alive]
    count, born = len(group.alive), len(group.ever)
    busy = [_busy_share(recording, worker) for worker in group.alive]
    text = f"{count} loader workers hold {format_bytes(sum(private))} of their own and do not keep growing"
    if born > count:
        text += f"; {format_count(born)} were started in all: persistent_workers is off, or loaders are made anew"
    if count > 1 and max(busy) < _IDLE_SHARE:
        text += f"; none was busy for more than {max(busy):.0%} of its life: fewer would do"
    figures = {
        "worker_count": count,
        "workers_started": born,
        "private_bytes": sum(private),
        "gained_bytes": group.gained,
        "busiest_share": round(max(busy), 3),
    }
    return RuledOut(_KIND, text, figures)


def _private_now(recording: Recording, worker: ProcessGrowth) -> int:
    """What ending the worker would free, by the last reading; its share of all where it was never read."""
    read = rows_of(recording.tables["process_samples"], worker)["uss_bytes"].dropna()
    return int(read.iloc[-1]) if len(read) else int(worker.private_bytes[-1])


def _busy_share(recording: Recording, worker: ProcessGrowth) -> float:
    rows = rows_of(recording.tables["process_samples"], worker)
    rows = rows[rows["cpu_s"].notna()]
    lived_s = float(rows["time_s"].max() - rows["time_s"].min()) if len(rows) > 1 else 0.0
    return float(rows["cpu_s"].max() - rows["cpu_s"].min()) / lived_s if lived_s > 0 else 1.0
