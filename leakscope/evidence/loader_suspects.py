"""What loader workers keep or copy, as far as the parent's inventories and the source can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..facts.code.adding import Holder, Line, Source, adding_lines
from ..facts.processes.loaders import Group
from ..facts.processes.worker_code import Code
from ..facts.where.stacks import GrowthLine, share_at
from ..findings import Finding


@dataclass(frozen=True)
class Suspect:
    """What the workers keep or copy, as far as it can be told. ``how`` says by what: found, adds, read or nothing."""

    how: str
    name: str | None = None
    holder: Holder | None = None
    line: Line | None = None
    others: tuple[str, ...] = ()
    finding: Finding | None = None


def suspect_of(
    code: Code,
    sources: Sequence[Source],
    group: Group,
    so_far: Sequence[Finding],
    grown: Sequence[GrowthLine] = (),
    *,
    growing: bool,
) -> Suspect:
    """``grown``: lines under which memory was seen to grow in a worker."""
    pids = {worker.pid for worker in group.alive}
    inside = [f for f in so_far if f.subject.pid in pids and f.subject.variable]
    if inside and growing:
        first = max(inside, key=lambda finding: finding.bytes)
        return Suspect("found", first.subject.holder, finding=first)
    if (not growing or group.copies) and group.inherited is not None and not group.is_of_data_set:
        found = group.inherited
        return Suspect("read", found.name, found.holder, found.line)
    for how in ("adds", "read") if growing and not group.copies else ("read",):
        holders = [h for name in group.datasets for h in (code.kept(name, grown) if how == "adds" else code.read(name))]
        if how == "read":  # by what the parent's inventories saw; without any, as they stand in the source
            holders.sort(key=lambda h: -group.data.get((h.owner or "", h.variable), 0.0))
        else:
            holders.sort(key=lambda h: -share_at(grown, adding_lines(sources, h)))
        if holders:
            line = next(iter(adding_lines(sources, holders[0])), None)
            return Suspect(how, _name(holders[0]), holders[0], line, tuple(map(_name, holders[1:4])))
    return Suspect("nothing")


def _name(holder: Holder) -> str:
    if holder.edge_kind == "cache":
        return f"{holder.owner}() (lru_cache)"
    return f"{holder.owner}.{holder.variable}" if holder.owner else holder.variable
