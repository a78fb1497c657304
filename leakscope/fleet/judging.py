"""Recordings judged by this version: what ``fleet analyze`` writes of each, and ``fleet index`` where nobody has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..engines import map_over
from ..errors import LeakscopeError
from ..storage.catalogue import Catalogue, catalogue, joined
from .columns import REPORT, TYPES
from .rows import FAILED, FINAL, UNFINISHED, UNREADABLE, row_of


class Judged(NamedTuple):
    """``judged`` were judged within the time, ``left`` were not."""

    rows: Catalogue
    judged: int
    left: int


def told(url: str, state: str) -> dict[str, Any]:
    """The columns of a row that say how a recording stands, and ``report_json``. **Errors** LeakscopeError."""
    from ..facts.case import Case
    from ..renderers import render
    from ..reporting import report_of
    from ..reporting.footer import footer
    from ..storage import open_recording

    recording = open_recording(url)
    case = Case(recording)
    report = report_of(case)
    report = replace(report, recording=replace(report.recording, path=url))
    row = row_of({**recording.meta, **footer(case, report.verdict, report.findings)})
    if state == UNFINISHED and recording.meta.get("state") == FINAL:  # it was finalised in passing
        row |= {"state": FINAL, "problem": None}
    return row | {REPORT.name: render(report, "json")}


def judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a verdict, or with the reason why there is none.

    Raises nothing: of thousands one may fail, and the others have to be told of all the same.
    """
    try:
        return {**row, **told(row["url"], row["state"])}
    except LeakscopeError as error:
        return {**row, "state": UNREADABLE, "judged": False, "problem": str(error)}
    except Exception as error:
        return {**row, "state": FAILED, "judged": False, "problem": f"{type(error).__name__}: {error}"}


def with_verdicts(
    found: Catalogue, seconds: float, progress: Callable[[int, int], None] = lambda done, of: None
) -> Judged:
    """Judge finished recordings that have no verdict, or a provisional one, until ``seconds`` are over.

    **Cost** 0.5 to 1 s of CPU each, by as many processes as there are cores, and one recording each beyond the time.
    """
    wanting = [
        state == FINAL and (not is_judged or as_of_s is not None)
        for state, is_judged, as_of_s in zip(*(found.column(name) for name in ("state", "judged", "as_of_s")))
    ]
    rows = found.only(wanting).rows() if seconds > 0 else []
    until_s = time.monotonic() + seconds
    fresh: list[dict[str, Any]] = []
    for number, row in enumerate(map_over(_judged_until, [(row, until_s) for row in rows]), 1):
        fresh += [row] if row is not None else []
        progress(number, len(rows))
    new = {row["url"] for row in fresh}
    kept = found.only([url not in new for url in found.column("url")])
    whole = joined([kept, catalogue(TYPES, [_plain(fresh)], {})], found.said)
    return Judged(whole, len(fresh), sum(wanting) - len(fresh))


def _judged_until(item: tuple[dict[str, Any], float]) -> dict[str, Any] | None:
    """CLOCK_MONOTONIC is the same in all processes of a machine."""
    row, until_s = item
    return judged(row) if time.monotonic() < until_s else None


def _plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Without what an index has no column for."""
    return [{name: value for name, value in row.items() if name in TYPES} for row in rows]
