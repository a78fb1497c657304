"""What forks inherit in Python objects: the container of their parent's that holds most of them.

Reading an object writes its reference count, and a collection writes to every container; arrays and tensors keep their
numbers apart from the object, and stay shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...units import MOST
from ..code.adding import Holder, Line, adding_lines
from ..code.index import Source
from ..code.names import holder_of
from ..heap.paths import NAMING_EDGES
from ..heap.place import Place
from ..tables import only
from .holders import holder_name

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording


@dataclass(frozen=True, eq=False)
class Inherited:
    """A container as a person calls it. ``bytes`` of Python objects in it, without arrays and tensors."""

    name: str
    bytes: float
    path: str
    holder: Holder
    line: Line | None


def inherited(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> Inherited | None:
    """Of a parent whose forks lived between these moments, by the snapshot that saw most of it then, or before."""
    rows = recording.tables["holders"]
    rows = only(rows, (rows["pid"] == pid) & (rows["time_s"] <= end_s))
    during = only(rows, rows["time_s"] >= start_s)
    rows = during if len(during) else only(rows, rows["time_s"] == rows["time_s"].max())
    rows = rows.assign(object_bytes=_object_bytes(rows))
    single = rows["object_count"].fillna(1) <= 1  # attributes of each of many rows are no place of their own
    is_named = rows["is_user"].fillna(False) & rows["edge_kind"].isin(NAMING_EDGES) & rows["variable"].notna()
    named = rows[is_named & single].sort_values("object_bytes", ascending=False, kind="stable")
    if not len(named):
        return None
    heaviest = named.iloc[0]
    row = _deepest(only(rows, rows["take"] == heaviest["take"]), named, heaviest)
    record: dict[str, Any] = {str(name): value for name, value in row.items()}
    holder = holder_of(record)
    size = np.array([float(row["object_bytes"])])
    place = Place(str(row["path"]), str(row["type_name"]), record, size, size, size, size, size)
    line = next(iter(adding_lines(sources, holder)), None)
    return Inherited(holder_name(place), float(size[0]), place.path, holder, line)


def object_bytes(recording: Recording, pid: int) -> dict[tuple[str, str], float]:
    """{(class, attribute): the most Python objects that any snapshot of a process saw below it}. **Units** bytes."""
    rows = recording.tables["holders"]
    rows = only(rows, (rows["pid"] == pid) & rows["edge_kind"].eq("attribute").fillna(False))
    most = _object_bytes(rows).groupby([rows["owner"], rows["variable"]]).max()
    return dict(zip(most.index, most.astype(float)))


def _object_bytes(rows: pd.DataFrame) -> pd.Series[Any]:
    return (
        rows["deep_bytes"].astype("float64").fillna(0)
        - rows["array_deep_bytes"].astype("float64").fillna(0)
        - rows["tensor_deep_bytes"].astype("float64").fillna(0)
    )


def _deepest(take: pd.DataFrame, named: pd.DataFrame, heaviest: pd.Series[Any]) -> pd.Series[Any]:
    """The last name on the way down from the heaviest that still has most of it."""
    take = only(take, take["parent_path"].notna())
    parents = dict(zip(take["path"], take["parent_path"]))
    enough = only(
        named, (named["take"] == heaviest["take"]) & (named["object_bytes"] >= MOST * heaviest["object_bytes"])
    )
    best, best_depth = heaviest, 0
    for _, row in enough.iterrows():
        depth, at = 0, row["path"]
        while at != heaviest["path"] and at in parents:
            depth, at = depth + 1, parents[at]
        if at == heaviest["path"] and depth > best_depth:
            best, best_depth = row, depth
    return best
