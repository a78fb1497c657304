"""What would have been enough: changes that the bill knows the bytes of, until the job fits under its limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..facts.tables import only
from ..findings import PEAK, Bill, BillRow, Finding
from ..units import FULL, HARDLY, WORTH, format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

_FITS = FULL  # of the limit: less room is none for the next batch
_LEAST_BYTES = WORTH
_LEAST_SHARE = HARDLY  # of what the job held: less is no change worth telling
_KEPT_WORKERS = 2
_WEIGHTS = ("parameter", "buffer")
_DTYPE = "float32"


class Change(NamedTuple):
    """``text``: what to do, without the bytes that it would have saved."""

    text: str
    bytes: int


def remedy(case: Case, so_far: Sequence[Finding], limit_bytes: float, held_bytes: float | None = None) -> str | None:
    """The smallest set of changes by which the job would have fitted, or all of them; None: none is known.

    Where memory leaks none is: what grows fills any limit.
    """
    if case.growth.leaking:
        return None
    peak = next((bill for bill in case.bills if bill.moment == PEAK), None)
    if peak is None:
        return None
    held = max(peak.total_bytes, round(held_bytes or 0.0))
    least = max(_LEAST_BYTES, _LEAST_SHARE * held)
    chosen: list[Change] = []
    left = held
    for change in changes(case, so_far, peak):
        if left <= _FITS * limit_bytes:
            break
        if change.bytes >= least:
            chosen.append(change)
            left -= change.bytes
    if not chosen or left >= held:
        return None
    told = ", ".join(f"{change.text} ({format_bytes(change.bytes)})" for change in chosen)
    fits = f"to fit into {format_bytes(limit_bytes)}" if left <= _FITS * limit_bytes else "to need less"
    return f"{fits}: {told}: {format_bytes(held)} → {format_bytes(max(0, left))}"


def changes(case: Case, so_far: Sequence[Finding], bill: Bill) -> Iterator[Change]:
    """What costs nothing first: what nothing needs, the largest of it first; then what costs time, or digits."""
    wasted = [f for f in so_far if f.wasted and f.bytes > 0 and f.subject.holder]
    for finding in sorted(wasted, key=lambda f: -f.bytes):
        is_one_of = finding.kind == "dataset-copies"
        yield Change(f"{'keep one form of' if is_one_of else 'drop'} {finding.subject.holder}", finding.bytes)
    main = max(case.growth.processes, key=lambda process: float(process.held_bytes.max()))
    forks = {process.pid for process in case.growth.processes if process.is_fork and process.pid != main.pid}
    freed = sum(f.bytes for f in wasted if f.subject.pid in forks)  # of what workers have: it goes but once
    for row in bill.rows:
        if row.account == "workers" and (row.count or 0) > _KEPT_WORKERS:
            left, freed = max(0, row.bytes - freed), max(0, freed - row.bytes)
            saved = round(left * (1 - _KEPT_WORKERS / (row.count or 1)))
            yield Change(f"{_KEPT_WORKERS} workers instead of {format_count(row.count or 0)}", saved)
    for row in _arrays(bill):
        is_told = any(row.name in f.title or f.subject.path == row.name for f in wasted)
        if not is_told:
            yield Change(f"memory-map {row.name} instead of reading it in", row.bytes)
    model = sum(row.bytes for row in bill.rows if row.account == "model")
    if model and _is_single(case):
        yield Change("hold the model in half precision", model // 2)


def _arrays(bill: Bill) -> Iterator[BillRow]:
    """Of what variables hold, arrays and tables that could lie in a file."""
    stack = [row for row in bill.rows if row.account == "data"]
    found = []
    while stack:
        row = stack.pop()
        if (row.type or "") in ("numpy.ndarray", "pandas.DataFrame", "pyarrow.lib.Table"):
            found.append(row)
        else:
            stack += row.parts
    yield from sorted(found, key=lambda row: -row.bytes)


def _is_single(case: Case) -> bool:
    """Whether the weights are numbers of 32 bits."""
    rows = case.rows("tensors")
    rows = only(rows, rows["tensor_owner"].isin(_WEIGHTS) & (rows["device"] == "cpu"))
    sizes = rows.groupby("dtype")["storage_bytes"].sum()
    return bool(len(sizes)) and str(sizes.idxmax()) == _DTYPE
