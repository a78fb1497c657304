"""``leakscope fleet index``: one row a recording, from footers; a second run reads what is new or changed.

What has no verdict of its end in its footer is judged here, within a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from ..engines import map_over
from ..errors import BadInput, UnreadableRecording
from ..storage.catalogue import Catalogue, catalogue, joined, read_catalogue, write_catalogue
from .columns import TYPES
from .judging import with_verdicts
from .places import Place, Source
from .rows import UNFINISHED, rows_at

KEY = "leakscope-fleet-index"
FORMAT_VERSION = 1
_AT_ONCE = 2000  # rows that are Python's dicts at the same time
_Known = dict[str, tuple["int | None", str, str, int]]  # address -> size, stamp, state, the run that saw it first


@dataclass(frozen=True)
class Indexed:
    """What one index run did; counts of recordings. ``states``: how many are in each state now.

    ``judged``: those that had no final verdict and have one now; ``unjudged``: those that still have none.
    """

    number: int
    total: int
    read: int
    new: int
    gone: int
    states: dict[str, int]
    judged: int = 0
    unjudged: int = 0


def read_index(path: Path) -> Catalogue:
    """All rows. **Errors** UnreadableRecording: there is none, or it is of another version."""
    found = read_catalogue(path, KEY, "index of a fleet", TYPES)
    if found.said.get("format_version") != FORMAT_VERSION:
        raise UnreadableRecording(f"{path} is an index of another version: rebuild it with `leakscope fleet index`")
    return found


def index(
    urls: Sequence[str],
    output: Path,
    *,
    anew: bool = False,
    judge_s: float = 0.0,
    now: datetime | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Indexed:
    """Bring the index at ``output`` up to date with what lies at ``urls``; rows from elsewhere stay.

    ``judge_s``: recordings without a verdict of their end are judged, until so many seconds are over.
    **Errors** BadInput for a URL where nothing is; a recording that cannot be read is a row that says why.
    **Cost** 0.2 ms a recording on a local disk; 800 MB of memory for a million.
    """
    if not urls:
        raise BadInput("say where recordings are: a folder, a glob in quotes, or an address such as s3://bucket/runs")
    before = read_index(output) if output.exists() and not anew else None
    runs = list(before.said.get("runs", [])) if before is not None else []
    number = runs[-1]["number"] + 1 if runs else 1
    known = _known(before)
    sources = [Source(url) for url in urls]
    listed: dict[str, tuple[Source, Place]] = {}
    for source in sources:
        for place in source.places():
            if place.url != str(output.absolute()):
                listed.setdefault(place.url, (source, place))
    to_read = [(source, place) for source, place in listed.values() if not _is_known(place, known)]
    fresh = _read(list(_parts(to_read, known, number)), progress)
    told = {place.url for _, place in to_read}
    kept, gone = _kept(before, sources, listed.keys(), told)
    new = sum(place.url not in known for _, place in to_read)
    runs.append(run_of(number, urls, len(to_read), new, gone, now))
    whole = joined([fresh, kept] if kept is not None else [fresh], {"format_version": FORMAT_VERSION, "runs": runs})
    judged = with_verdicts(whole, judge_s, progress)
    whole = judged.rows
    whole.table = whole.table.sort_by("url")
    write_catalogue(output, KEY, whole)
    states = _counts(whole.column("state"))
    return Indexed(number, len(whole), len(to_read), new, gone, states, judged.judged, judged.left)


def run_of(number: int, urls: Sequence[str], read: int, new: int, gone: int, now: datetime | None) -> dict[str, Any]:
    """What an index says of each run that made it."""
    at = (now or datetime.now(timezone.utc)).isoformat(timespec="seconds")
    return {"number": number, "at": at, "urls": list(urls), "read": read, "new": new, "gone": gone}


def _known(before: Catalogue | None) -> _Known:
    if before is None:
        return {}
    values = (before.column(name) for name in ("size_bytes", "stamp", "state", "first_index"))
    return dict(zip(before.column("url"), zip(*values)))


def _is_known(place: Place, known: _Known) -> bool:
    """A journal changes without a sign that could be seen from outside."""
    size, stamp, state, _ = known.get(place.url, (None, "", UNFINISHED, 0))
    return state != UNFINISHED and (size, stamp) == (place.size_bytes, place.stamp)


def _kept(
    before: Catalogue | None, sources: Sequence[Source], listed: Iterable[str], told: set[str]
) -> tuple[Catalogue | None, int]:
    """Rows of the index before that still hold, and how many recordings are gone."""
    if before is None:
        return None, 0
    there, bases = set(listed), tuple(source.base for source in sources)
    urls = before.column("url")
    gone = [url not in there and url.startswith(bases) for url in urls]
    return before.only([not is_gone and url not in told for url, is_gone in zip(urls, gone)]), sum(gone)


class _Part(NamedTuple):
    """Places of one source, which run saw each first, and the number of this run."""

    source: Source
    places: list[Place]
    first: dict[str, int]
    number: int


def _parts(places: Sequence[tuple[Source, Place]], known: _Known, number: int) -> Iterator[_Part]:
    by_source: dict[str, tuple[Source, list[Place]]] = {}
    for source, place in places:
        by_source.setdefault(source.url, (source, []))[1].append(place)
    for source, own in by_source.values():
        for start in range(0, len(own), _AT_ONCE):
            part = own[start : start + _AT_ONCE]
            yield _Part(source, part, {p.url: known[p.url][3] if p.url in known else number for p in part}, number)


def _read(parts: Sequence[_Part], progress: Callable[[int, int], None]) -> Catalogue:
    """The rows of all, in order; of many files of this computer by as many processes as it has cores."""
    count, done = sum(len(part.places) for part in parts), 0
    workers = None if all(part.source.is_local for part in parts) else 1  # the network is waited for by threads
    found = [catalogue(TYPES, [], {})]
    for one in map_over(_rows, parts, workers=workers):
        found.append(one)
        done += len(one)
        progress(done, count)
    return joined(found, {})


def _rows(part: _Part) -> Catalogue:
    rows = [
        row | {"first_index": part.first[row["url"]], "read_index": part.number}
        for row in rows_at(part.source, part.places)
    ]
    return catalogue(TYPES, [rows], {})


def _counts(states: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return dict(sorted(counts.items()))


def as_text(done: Indexed, output: Path) -> str:
    """``fleet.parquet: 4,096 recordings, 12 read anew (10 new), 1 gone; 3 unreadable``."""
    counts = dict(done.states)
    foreign = counts.pop("foreign", 0)
    other = ", ".join(f"{count:,} {state}" for state, count in counts.items() if state != "final")
    said = [
        f"{output}: {done.total - foreign:,} recordings",
        f"{done.read:,} read ({done.new:,} new)",
        *([f"{done.gone:,} gone"] if done.gone else []),
        *([f"{done.judged:,} judged"] if done.judged else []),
        *([f"{done.unjudged:,} without a final verdict: index them again"] if done.unjudged else []),
        *([other] if other else []),
        *([f"{foreign:,} other parquet files left out"] if foreign else []),
    ]
    return ", ".join(said)
