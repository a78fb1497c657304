"""Holders of snapshots that read the graph of the heap and nothing else, as rows like those of other snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from .graph import graph_places
from .place import Place

if TYPE_CHECKING:
    from ...storage import Recording

_CLOCKS = ("pid", "start_ticks", "take", "time_s", "time_unix_ns", "time_mono_ns", "time_boot_ns")


def exact_takes(takes: pd.DataFrame, graphs: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of ``takes`` those of snapshots without a walk along names: their graph says all there is."""
    read = set(zip(graphs["pid"], graphs["take"]))
    is_read = [key in read for key in zip(takes["pid"], takes["take"])]
    return takes[takes["visited_count"].isna() & pd.Series(is_read, index=takes.index, dtype=bool)]


def with_exact_holders(recording: Recording) -> Recording:
    """The same recording, whose tables ``holders`` and ``data_forms`` have what their graphs say of such snapshots."""
    takes = exact_takes(recording.tables["takes"], recording.tables["heap_graphs"])
    if not len(takes):
        return recording
    found: list[pd.DataFrame] = []

    def holders() -> pd.DataFrame:
        if not found:
            written = recording.tables["holders"]
            rows = (
                pd.DataFrame(list(exact_holders(recording, takes)))
                .reindex(columns=written.columns)
                .astype(written.dtypes)
            )
            found.append(pd.concat([written, rows], ignore_index=True) if len(written) else rows)
        return found[0]

    return recording.deriving({"holders": holders, "data_forms": lambda: _data_forms(recording, takes)})


def exact_holders(recording: Recording, takes: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as in the table ``holders`` of snapshots whose graph says all there is."""
    for pid in takes["pid"].unique():
        own = takes[takes["pid"] == pid]
        moments: list[dict[str, Any]]
        moments = own[[column for column in _CLOCKS if column in own]].to_dict("records")
        for place in graph_places(recording, int(pid), [int(take) for take in own["take"]], by_holder=True):
            for at, moment in enumerate(moments):
                if place.count[at] > 0:
                    yield {**place.row, **moment, **_figures(place, at)}


def _figures(place: Place, at: int) -> dict[str, Any]:
    return {
        "type_name": place.type_name,
        "object_count": int(place.count[at]),
        "length": int(place.length[at]) if place.has_length else None,
        "deep_bytes": int(place.deep_bytes[at]),
        "array_deep_bytes": int(place.array_bytes[at]),
        "tensor_deep_bytes": int(place.tensor_bytes[at]),
    }


def _data_forms(recording: Recording, takes: pd.DataFrame) -> pd.DataFrame:
    """With the path of the object that was looked into."""
    rows = recording.tables["data_forms"].copy()
    for pid in takes["pid"].unique():
        own = takes[takes["pid"] == pid]
        places = graph_places(recording, int(pid), [int(take) for take in own["take"]], by_holder=True)
        paths = {place.row["node"]: place.path for place in places if place.row["node"] is not None}
        is_own = (rows["pid"] == pid) & rows["node"].notna()
        rows.loc[is_own, "path"] = rows.loc[is_own, "node"].map(paths)
    return rows[rows["path"].notna()]
