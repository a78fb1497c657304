"""``leakscope fleet analyze``: a whole report of each of many recordings, as rows of an index; here or on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..addresses import without_credentials
from ..engines import map_over
from ..errors import BadInput, LeakscopeError
from ..storage.catalogue import Catalogue, catalogue, write_catalogue
from ..units import format_bytes, format_duration
from ..words import printable
from .columns import REPORT, TYPES
from .index import FORMAT_VERSION, KEY, run_of
from .judging import judged
from .listing import as_csv, as_json_value
from .places import Place, Source
from .rows import FAILED, FOREIGN, UNREADABLE, rows_at

_TYPES = TYPES | {REPORT.name: REPORT.type}
_SHOWN = 30
_LINE = 110
_LEAKING = "leaking"


def analyze_all(
    urls: Sequence[str],
    engine: str = "local",
    *,
    address: str | None = None,
    workers: int | None = None,
    now: datetime | None = None,
) -> Catalogue:
    """A row for each recording that ``fleet index`` finds at ``urls``, in its order, whatever the engine.

    **Shape** the columns of an index, judged by this version whatever the footers say, and ``report_json``.
    ``address``: of a Dask scheduler, a Ray cluster or a Spark master; None: a cluster of ``workers`` processes is
    started here. **Errors** BadInput for an engine that is not there, an address with nothing behind it.
    """
    found: dict[str, tuple[Source, Place]] = {}
    for url in urls:
        source = Source(url)
        places = source.places()
        if not places:
            raise BadInput(
                f"{without_credentials(url)} has no recording in it: name a folder with files such as run.parquet"
            )
        found |= {place.url: (source, place) for place in places if place.url not in found}
    rows = list(map_over(analyzed, list(found.values()), engine, address=address, workers=workers))
    rows = [row for row in rows if row["state"] != FOREIGN]
    run = run_of(1, urls, len(rows), len(rows), 0, now or datetime.now(timezone.utc))
    return catalogue(_TYPES, [rows], {"format_version": FORMAT_VERSION, "runs": [run]})


def analyzed(where: tuple[Source, Place]) -> dict[str, Any]:
    """The row of one recording. What its footer says of the run stays; verdict and figures are told anew.

    Raises nothing: of thousands one may fail, and the others have to be told of all the same.
    """
    source, place = where
    (row,) = rows_at(source, [place])
    row |= {"first_index": 1, "read_index": 1}
    if row["state"] in (UNREADABLE, FOREIGN):
        return row
    return judged(row)


def why_none_is_readable(found: Catalogue) -> str | None:
    """In a line, with the first one's reason; None if one was read."""
    states = found.column("state")
    if not states or any(state != UNREADABLE for state in states):
        return None
    return f"none of {len(found)} recordings can be read: {found.column('problem')[0]}"


def write(found: Catalogue, output: Path) -> None:
    """By its suffix: an index (.parquet), CSV without the whole reports, or a JSON object a line."""
    if output.suffix == ".parquet":
        write_catalogue(output, KEY, found)
        return
    frame = found.frame()
    if output.suffix == ".csv":
        text = as_csv(frame[list(TYPES)])
    else:
        rows = ({str(name): as_json_value(value) for name, value in row.items()} for row in frame.to_dict("records"))
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LeakscopeError(f"cannot write {output}: {error.strerror or error}") from error


def summary(found: Catalogue, seconds: float, engine: str) -> str:
    """What leaks before all else, then what could not be read, and how many there are of each."""
    order = {_LEAKING: 0, FAILED: 1, UNREADABLE: 1}
    told = sorted(found.rows(), key=lambda row: (order.get(_verdict(row), 2), -(row["growth_bytes"] or 0)))
    cells = [_cells(row) for row in told[:_SHOWN]]
    widths = [max(map(len, column)) for column in zip(*cells)] if cells else []
    lines = []
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        lines.append(line if len(line) <= _LINE else line[: _LINE - 1] + "…")
    counts: dict[str, int] = {}
    for verdict in map(_verdict, told):
        counts[verdict] = counts.get(verdict, 0) + 1
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    closing = f"{len(told)} recordings: {said} ({engine}, {format_duration(seconds)})"
    return "\n".join([*lines, *more, closing])


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["judged"]:
        return str(row["state"])
    return {True: _LEAKING, False: "not leaking"}.get(row["leaking"], "cannot tell")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rank = f"rank {row['rank']}" if row["rank"] is not None else ""
    growth = format_bytes(row["growth_bytes"], signed=True) if row["growth_bytes"] is not None else ""
    said = row["findings"][0]["title"] if row["findings"] else "" if row["judged"] else row["problem"]
    return tuple(map(printable, (_verdict(row), growth, row["url"].rpartition("/")[2], rank, said or "")))
