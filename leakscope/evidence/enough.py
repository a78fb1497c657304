"""What would have been enough: changes that the bill knows the bytes of, until the job fits under its limit.

A change counts for what it takes off the peak: what is idle later on may have been read as the peak came. So each takes
its bytes from the curve, from the moment on at which they were idle, and what is left has a peak of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.tables import cells, only
from ..facts.where.progress import passed_s
from ..findings import LEVEL, PEAK, Bill, BillRow, Finding
from ..units import FULL, HARDLY, NEARLY_ALL, WORTH, format_bytes, format_count

_FITS = FULL  # of the limit: less room is none for the next batch
_LEAST_BYTES = WORTH
_LEAST_SHARE = HARDLY  # of what the job held: less is no change worth telling
_KEPT_WORKERS = 2
_OF_TRAINING = ("parameter", "buffer", "master-weight", "optimizer-state", "gradient")
_SINGLE = "float32"
_MAPPABLE = ("numpy.ndarray", "pandas.DataFrame", "pyarrow.lib.Table", "datasets.arrow_dataset.Dataset")


class Change(NamedTuple):
    """``text``: what to do. ``saved``: bytes at each moment of the job's curve; None: what a burst has too much."""

    text: str
    saved: Floats | None


class Burst(NamedTuple):
    """What was asked for at once, at last or for a while. ``where``: `` in load() (train.py:3)``; empty: not known."""

    where: str
    since_s: float
    bytes: int
    until_s: float = float("inf")


class Fit(NamedTuple):
    """``chosen``: (what to do, bytes that it takes off the peak). ``held_bytes`` less these are ``left_bytes``."""

    chosen: list[tuple[str, int]]
    held_bytes: int
    left_bytes: int


def remedy(
    case: Case,
    so_far: Sequence[Finding],
    limit_bytes: float,
    held_bytes: float | None = None,
    burst: Burst | None = None,
) -> str | None:
    """The smallest set of changes by which the job would have fitted, or all of them; None: none is known.

    ``held_bytes``: as it ended, which no sample may show. Where memory leaks none is: what grows fills any limit.
    """
    found = None if case.growth.leaking else fit(case, so_far, _FITS * limit_bytes, held_bytes, burst)
    if found is None or not found.chosen:
        return None
    told = ", ".join(f"{text} ({format_bytes(size)})" for text, size in found.chosen)
    fits = f"to fit into {format_bytes(limit_bytes)}" if found.left_bytes <= _FITS * limit_bytes else "to need less"
    return f"{fits}: {told}: {format_bytes(found.held_bytes)} → {format_bytes(found.left_bytes)}"


def fit(
    case: Case,
    so_far: Sequence[Finding],
    most_bytes: float = 0.0,
    held_bytes: float | None = None,
    burst: Burst | None = None,
) -> Fit | None:
    """Changes in turn, until no more than ``most_bytes`` are left; None without a bill."""
    peak = next((bill for bill in case.bills if bill.moment == PEAK), None)
    if peak is None:
        return None
    burst = burst or _of_peak(case, peak)
    # What nobody saw, files among it, is taken to have been there all the time; but for what came as it ended.
    time_s, curve = case.growth.time_s, case.at_most_bytes.copy()
    curve += peak.total_bytes - float(curve.max())
    curve[-1] = max(float(curve[-1]), held_bytes or 0.0)
    held = round(float(curve.max()))
    least = max(_LEAST_BYTES, _LEAST_SHARE * held)
    chosen: list[tuple[str, int]] = []

    def take(left: Floats, text: str) -> None:
        nonlocal curve
        gain = round(float(curve.max() - left.max()))
        if gain >= least:
            chosen.append((text, gain))
            curve = left

    for change in changes(case, so_far, peak, burst):
        if curve.max() <= most_bytes:
            break
        if change.saved is not None:
            take(np.maximum(curve - change.saved, 0.0), change.text)
        elif burst is not None:
            beside = (time_s <= burst.since_s) | (time_s >= burst.until_s)
            room = most_bytes - float(curve[beside].max(initial=0.0))
            if room > 0:
                take(np.where(beside, curve, np.minimum(curve, most_bytes)), change.text.format(format_bytes(room)))
    return Fit(chosen, held, held - sum(size for _, size in chosen))


def _of_peak(case: Case, peak: Bill) -> Burst | None:
    """What came and went with the peak, where it is known who asked for it."""
    passing = case.passing_peak
    if passing is None or peak.asked_in is None or peak.file is None:
        return None
    where = f" in {peak.asked_in} ({PurePath(peak.file).name}:{peak.line})"
    return Burst(where, passing.since_s, passing.bytes - passing.level_bytes, passing.until_s)


def changes(case: Case, so_far: Sequence[Finding], bill: Bill, burst: Burst | None = None) -> Iterator[Change]:
    """What costs nothing first: what nothing needs, the largest of it first; then what costs time, or digits."""
    time_s = case.growth.time_s
    always = np.ones_like(time_s)
    wasted = _wasted(so_far)
    for finding in wasted:
        is_one_of = finding.kind == "dataset-copies"
        text = f"{'keep one form of' if is_one_of else 'drop'} {finding.subject.holder}"
        yield Change(text, _idle_bytes(case, finding, time_s))
    if burst is not None:
        yield Change(f"take at most {{}} at once{burst.where}, not {format_bytes(burst.bytes)}", None)
    main = case.growth.largest
    forks = {process.pid: process for process in case.growth.processes if process.is_fork and process is not main}
    freed = sum(f.bytes for f in wasted if f.subject.pid in forks)  # of what workers have: it goes but once
    for row in bill.rows:
        if row.account == "workers" and (row.count or 0) > _KEPT_WORKERS:
            left, freed = max(0, row.bytes - freed), max(0, freed - row.bytes)
            saved = left * (1 - _KEPT_WORKERS / (row.count or 1))
            alive = _alive(time_s, [*forks.values()])
            yield Change(f"{_KEPT_WORKERS} workers instead of {format_count(row.count or 0)}", saved * alive)
    told = {finding.subject.path for finding in wasted} | {idle.path for f in wasted for idle in f.idle}
    within = tuple(f"{path}{step}" for path in told if path for step in ".[")
    for row in _arrays(bill):
        if row.name not in told and not row.name.startswith(within):
            yield Change(f"memory-map {row.name} instead of reading it in", row.bytes * always)
    activations = sum(row.bytes for row in bill.rows if row.account == "activations")
    if activations:
        yield Change("halve the batch", activations / 2 * always)
    rows = case.rows("tensors")
    rows = only(rows, (rows["moment"] == "take") & (rows["device"] == "cpu") & rows["node"].isna())
    last = {pid: own["take"].max() for pid, own in rows.groupby("pid")}
    is_last = np.array([last.get(pid) == take for pid, take in cells(rows, "pid", "take")], dtype=bool)
    rows = only(rows, rows["tensor_owner"].isin(_OF_TRAINING) & is_last)
    singles = float(rows["storage_bytes"][rows["dtype"] == _SINGLE].sum())
    if singles:  # an optimizer's state has the type of its parameters
        yield Change("hold the model, its gradients and optimizer state in half precision", singles / 2 * always)


def without_waste(case: Case, so_far: Sequence[Finding]) -> tuple[int, int] | None:
    """What the job would have held without what nothing needs: at its level, and at most. None: nothing is wasted."""
    wasted = _wasted(so_far)
    level_s = next((bill.time_s for bill in case.bills if bill.moment == LEVEL), None)
    if not wasted or level_s is None or case.peak is None:
        return None
    held, time_s = case.growth.held_bytes, case.growth.time_s
    curve = np.maximum(case.at_most_bytes - sum(_idle_bytes(case, finding, time_s) for finding in wasted), 0.0)
    most = float(curve.max())
    if case.peak.since_s is not None:  # it was reached between two samples: what was idle by then was not needed
        idle = sum(float(_idle_bytes(case, finding, np.array([case.peak.since_s]))[0]) for finding in wasted)
        most = max(case.peak.bytes - idle, most)
    then = sum(float(_idle_bytes(case, finding, np.array([level_s]))[0]) for finding in wasted)
    return round(max(0.0, float(np.interp(level_s, time_s, held)) - then)), round(most)


def _wasted(so_far: Sequence[Finding]) -> list[Finding]:
    """The largest first."""
    return sorted((f for f in so_far if f.wasted and f.bytes > 0 and f.subject.holder), key=lambda f: -f.bytes)


# ---- when it was idle


def _idle_bytes(case: Case, finding: Finding, time_s: Floats) -> Floats:
    """Of what a finding says is wasted, what was idle at each moment."""
    saved = np.zeros_like(time_s)
    process = case.growth.process(finding.subject.pid)
    if process is not None and process.is_fork and not finding.idle:
        return finding.bytes * _come(time_s, [one for one in case.growth.processes if one.is_fork])
    since_s = _there_s(case, finding, process)
    known = 0
    for idle in finding.idle if process is not None else ():
        assert process is not None
        passed = passed_s(process, idle)  # that it was idle is known of the level, by who then ran
        saved[time_s >= (since_s if passed is None else min(passed, _level_s(case)))] += idle.bytes
        known += idle.bytes
    saved[time_s >= since_s] += max(0, finding.bytes - known)
    return saved


def _come(time_s: Floats, forks: Sequence[ProcessGrowth]) -> Floats:
    """Of what forks have copied, the share that they had at each moment: as they grew."""
    when = np.unique(np.concatenate([one.time_s for one in forks]))
    held = sum(np.interp(when, one.time_s, one.held_bytes, left=0.0, right=0.0) for one in forks)
    share: Floats = np.interp(time_s, when, held / max(1.0, float(np.max(held))), left=0.0, right=0.0)
    return share


def _there_s(case: Case, finding: Finding, process: ProcessGrowth | None) -> float:
    """When a snapshot first saw it whole; the level's moment where none did."""
    heap = case.heap(process.pid) if process is not None else None
    place = next((one for one in heap.places if one.path == finding.subject.path), None) if heap is not None else None
    if heap is not None and place is not None:
        whole = np.flatnonzero(place.deep_bytes >= NEARLY_ALL * float(place.deep_bytes.max()))
        return float(heap.time_s[int(whole[0])])
    return _level_s(case)


def _level_s(case: Case) -> float:
    return next((bill.time_s for bill in case.bills if bill.moment == LEVEL), 0.0)


def _alive(time_s: Floats, processes: Sequence[ProcessGrowth]) -> Floats:
    """Of processes, what share was there at each moment."""
    there = [(time_s >= one.time_s[0]) & (time_s <= one.time_s[-1]) for one in processes]
    return np.mean(there, axis=0) if there else np.ones_like(time_s)


# ---- what could be otherwise


def _arrays(bill: Bill) -> Iterator[BillRow]:
    """Of what variables hold, arrays and tables that could lie in a file."""
    stack = [row for row in bill.rows if row.account == "data"]
    found = []
    while stack:
        row = stack.pop()
        if (row.type or "") in _MAPPABLE:
            found.append(row)
        else:
            stack += row.parts
    yield from sorted(found, key=lambda row: -row.bytes)
