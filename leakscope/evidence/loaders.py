"""What a report says of loader workers that keep or copy memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.processes.loaders import Group
from ..facts.processes.table import DATALOADER_WORKER
from ..facts.series.arithmetic import level_at
from ..facts.tables import text_of
from ..findings import Evidence, Finding, Subject
from ..units import MiB, format_bytes
from .copies import copied_finding, curves, line_evidence, remedy
from .loader_suspects import Suspect

if TYPE_CHECKING:
    from ..facts.case import Case

KIND = "dataloader-workers"


def growing(growth: TreeGrowth, group: Group, suspect: Suspect, case: Case) -> Finding:
    count, gained = len(group.alive), group.gained
    share = min(1.0, gained / max(growth.growth_bytes, 1))
    verb = "copies the memory it inherited" if group.copies else "keeps more and more memory"
    title = f"{_who(len(group.alive))} {verb}: {format_bytes(gained, signed=True)} in all"
    if suspect.name is not None:
        title += f", {'most likely' if group.copies else 'likely in'} {suspect.name}"
    return Finding(
        kind=KIND,
        title=title,
        severity=severity_of(growth, gained),
        confidence=_confidence(group, share),
        bytes=gained,
        subject=_subject(group, suspect, _most(group.alive, group.by_worker), count),
        bytes_per_hour=round(gained / max(growth.end_s - growth.start_s, 1e-9) * 3600, 1),
        evidence=list(_evidence(case, growth, group, suspect, share)),
        doubts=list(_doubts(group, suspect)),
        remedy=list(_remedy(group, suspect, gained / max(1, count))),
        series=curves(group.alive),
    )


def has_copied(growth: TreeGrowth, group: Group, suspect: Suspect) -> Finding:
    """Copying that is done, or nearly: it does not go on for ever, but the memory is gone."""
    copies = group.copies_in_life
    return copied_finding(
        KIND,
        growth,
        copies,
        who=_who(len(copies.workers)),
        name=suspect.name or "the data set",
        data_bytes=group.most_data_bytes,
        subject=_subject(group, suspect, _most(copies.workers, copies.bytes_each), len(copies.workers)),
        line=suspect.line,
        others=suspect.others,
    )


def _who(count: int) -> str:
    return f"Each of {count} loader workers" if count > 1 else "The loader worker"


def _most(workers: Sequence[ProcessGrowth], figures: Sequence[float]) -> ProcessGrowth:
    return workers[max(range(len(workers)), key=figures.__getitem__)]


def _subject(group: Group, suspect: Suspect, most: ProcessGrowth, count: int) -> Subject:
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


def _confidence(group: Group, share: float) -> float:
    sure = 0.5 + 0.35 * min(1.0, share / 0.7)
    sure += 0.07 if len(group.alive) > 1 and group.are_alike else 0.0
    return round(min(sure, 0.95), 2)


def _evidence(case: Case, growth: TreeGrowth, group: Group, suspect: Suspect, share: float) -> Iterator[Evidence]:
    each = [format_bytes(gained, signed=True) for gained in group.by_worker[:8]]
    figures = {"worker_count": len(group.alive), "gained_bytes": group.gained, "explained_share": round(share, 3)}
    alike = ", all alike" if len(each) > 1 and group.are_alike else ""
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
    in_use = _handed_out(case, growth, group)
    if not group.copies and in_use > 0.3 * group.gained:
        text = f"malloc handed out {format_bytes(in_use)} more in them: what they keep is arrays, buffers or C memory"
        yield Evidence(text, {"malloc_growth_bytes": in_use})
    dataset = text_of(group.loader, "dataset_type")
    if dataset is not None:
        yield Evidence(f"they read {dataset}", {"dataset_type": dataset})
    yield from line_evidence(suspect.line, suspect.others)


def _handed_out(case: Case, growth: TreeGrowth, group: Group) -> int:
    """What malloc handed out more of in the workers, by their sentinels."""
    total = 0.0
    for worker in group.alive:
        rows = worker.rows("sentinels")
        rows = rows[rows["malloc_in_use_bytes"].notna()]
        time_s = rows["time_s"].to_numpy(dtype=np.float64)
        if time_s.size:
            in_use = rows["malloc_in_use_bytes"].to_numpy(dtype=np.float64)
            start_s = max(growth.start_s, float(time_s[0]))
            total += level_at(time_s, in_use, min(growth.end_s, time_s[-1])) - level_at(time_s, in_use, start_s)
    return int(total)


def _doubts(group: Group, suspect: Suspect) -> Iterator[str]:
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


def _remedy(group: Group, suspect: Suspect, bytes_each: float) -> Iterator[str]:
    each, line = format_bytes(bytes_each), suspect.line
    where = f" at {line.file.rsplit('/', 1)[-1]}:{line.line}" if line is not None else ""
    if group.copies:
        yield from remedy(suspect.name or "the data set", line, bytes_each, len(group.alive))
        return
    if suspect.how in ("found", "adds"):
        yield f"bound or empty {suspect.name}{where}: each worker has its own, about {each} of this run's growth"
    if len(group.alive) > 1:
        yield f"each worker less saves about {each} of this run's growth"
