"""What no name leads to, by type: garbage, and what C code alone refers to. From the graphs of the heap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...storage import Rows
from ...units import FEWEST, MOST
from ..heap.accumulation import keeps_growing
from ..series.arithmetic import Floats
from ..tables import only, without_last
from .processes import ProcessGrowth

_MEASURES = (
    "unreached_count", "unreached_bytes", "frozen_count", "outside_count", "outside_bytes", "loose_count",
    "loose_bytes",
)  # fmt: skip


_LARGEST_BLOCK = 2.0  # of its object: so much larger is a block at most


@dataclass(frozen=True, eq=False)
class Stray:
    """Objects of one type. **Shape** every array has one value a snapshot; ``loose``: found in a sample of pools."""

    type_name: str
    chain: str | None  # an example of a cycle
    unreached_count: Floats
    unreached_bytes: Floats
    frozen_count: Floats
    outside_count: Floats
    outside_bytes: Floats
    loose_count: Floats
    loose_bytes: Floats


@dataclass(frozen=True, eq=False)
class Strays:
    """Of one process, in those of its snapshots that read the graph. ``reached_bytes``: what names, or C code, hold."""

    time_s: Floats
    unreached_bytes: Floats
    reached_bytes: Floats
    weighs_tensors: bool
    types: tuple[Stray, ...]

    @property
    def passed_s(self) -> float:
        return float(self.time_s[-1] - self.time_s[0])

    @property
    def frozen_count(self) -> Floats:
        """Garbage that gc.freeze() hides, of all types that are told."""
        return sum((stray.frozen_count for stray in self.types), np.zeros(len(self.time_s)))

    def gained(self, values: Floats, window_s: float) -> float:
        """In a window of this length, if it went on as between the snapshots."""
        return float(values[-1] - values[0]) / self.passed_s * window_s

    def pile_up(self, values: Floats) -> bool:
        return _piles_up(self.time_s, values)


def strays_of(process: ProcessGrowth, start_s: float, end_s: float, *, to_the_end: bool = False) -> Strays | None:
    """None where no two snapshots of the window, with one before it, tell of them: there is no graph.

    ``to_the_end``: with the snapshot at the end of the program. What C code alone refers to is still there, while the
    cycles that variables of main() held are garbage only then.
    """
    graphs, rows, takes = (process.rows(name) for name in ("heap_graphs", "heap_strays", "takes"))
    graphs = only(graphs, graphs["take"].notna()).drop_duplicates("take", keep="last")
    if not len(rows) or not len(graphs):
        return None
    graphs = only(graphs, graphs["take"].isin(rows["take"]))
    if to_the_end:
        graphs = _of_window(graphs, start_s, float("inf"))
    else:
        graphs = _of_window(without_last(graphs, takes), start_s, end_s)
    if len(graphs) < 2 or graphs["time_s"].iloc[-1] <= graphs["time_s"].iloc[0]:
        return None
    numbers = [int(take) for take in graphs["take"]]
    unreached = graphs["unreached_bytes"].to_numpy(dtype=np.float64, na_value=0.0)
    held = graphs["retained_bytes"].to_numpy(dtype=np.float64, na_value=0.0)
    return Strays(
        time_s=graphs["time_s"].to_numpy(dtype=np.float64),
        unreached_bytes=unreached,
        reached_bytes=held - unreached,
        weighs_tensors=bool(graphs["weighs_tensors"].fillna(False).all()),
        types=tuple(_by_type(rows, numbers)),
    )


@dataclass(frozen=True)
class Outside:
    """Objects of one type that C code alone referred to when one snapshot read all, and what names reached later.

    ``later_s`` and ``reached_bytes``: of the first and the last of the snapshots that found too many to read.
    """

    type_name: str
    object_count: float
    bytes: float
    at_s: float
    later_s: tuple[float, float]
    reached_bytes: tuple[float, float]


def outside_once(process: ProcessGrowth) -> Outside | None:
    """The type of which C code alone held most, in the one snapshot that read all. None where others had as much."""
    rows = only(process.rows("heap_strays"), process.rows("heap_strays")["outside_bytes"] > 0)
    graphs = without_last(process.rows("heap_graphs"), process.rows("takes"))
    is_whole = graphs["take"].isin(rows["take"])
    whole, later = only(graphs, is_whole), only(graphs, ~is_whole & graphs["retained_bytes"].notna())
    if len(whole) != 1 or len(later) < 2:
        return None
    most = rows.sort_values("outside_bytes").iloc[-1]
    if most["outside_bytes"] < MOST * rows["outside_bytes"].sum():
        return None
    count, bytes = float(most["outside_count"]), float(most["outside_bytes"])
    ends = later.iloc[[0, -1]]
    times, reached = ((float(one.iloc[0]), float(one.iloc[1])) for one in (ends["time_s"], ends["retained_bytes"]))
    return Outside(str(most["type_name"]), count, bytes, float(whole["time_s"].iloc[0]), times, reached)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Of Python's own allocator: what is in use, and what of it are objects. **Shape** one value a snapshot, bytes."""

    time_s: Floats
    in_use_bytes: Floats
    object_bytes: Floats

    @property
    def other_bytes(self) -> Floats:
        return self.in_use_bytes - self.object_bytes

    @property
    def gained_bytes(self) -> float:
        """That are no objects."""
        return float(self.other_bytes[-1] - self.other_bytes[0])


def blocks_of(process: ProcessGrowth, start_s: float, end_s: float) -> Blocks | None:
    """None where no three snapshots of the window read all objects and the allocator's pools."""
    graphs = process.rows("heap_graphs")
    if len(graphs) < FEWEST:
        return None
    graphs = only(graphs, graphs["take"].notna()).drop_duplicates("take", keep="last")
    graphs = _of_window(without_last(graphs, process.rows("takes")), start_s, end_s)
    is_whole = ~graphs["is_sampled"].fillna(False)
    graphs = only(graphs, is_whole & graphs["block_bytes"].notna() & graphs["small_object_bytes"].notna())
    if len(graphs) < FEWEST:
        return None
    # Objects that nothing refers to are not in the graph: a sample of pools has those.
    loose = process.rows("heap_strays").sums("take", "loose_bytes")
    of_sample = graphs["take"].map(loose).to_numpy(dtype=np.float64, na_value=0.0)
    time_s, in_use, in_graph = (
        graphs[column].to_numpy(dtype=np.float64) for column in ("time_s", "block_bytes", "small_object_bytes")
    )
    return Blocks(time_s, in_use, in_graph + of_sample)


def kept_by_c(process: ProcessGrowth, start_s: float, end_s: float) -> Blocks | None:
    """What C code keeps of Python's allocator. None where that does not pile up, or growing objects may explain it."""
    blocks = blocks_of(process, start_s, end_s)
    if blocks is None or not _piles_up(blocks.time_s, blocks.other_bytes):
        return None
    other, objects = (float(values[-1] - values[0]) for values in (blocks.other_bytes, blocks.object_bytes))
    return blocks if other >= _LARGEST_BLOCK * max(objects, 0.0) else None


def _of_window(graphs: Rows, start_s: float, end_s: float) -> Rows:
    """With one before it where they are few, as the places of the heap are compared."""
    inside = only(graphs, (graphs["time_s"] >= start_s) & (graphs["time_s"] <= end_s + 1))
    if len(inside) >= FEWEST:
        return inside
    before = only(graphs, graphs["time_s"] < start_s).iloc[-1:]
    return only(graphs, graphs["take"].isin([*before["take"], *inside["take"]]))


def _by_type(rows: Rows, takes: list[int]) -> Iterator[Stray]:
    """A type that is not among the rows of a snapshot had next to nothing then."""
    names = rows["type_name"].dropna().unique()
    number_of = {name: number for number, name in enumerate(names)}
    of_type = np.array([number_of.get(name, -1) for name in rows["type_name"]], dtype=np.intp)
    at = rows["take"].map({take: i for i, take in enumerate(takes)}).to_numpy(dtype=np.float64)
    is_told = ~np.isnan(at) & (of_type >= 0)
    where = of_type[is_told], at[is_told].astype(np.intp)
    figures = np.zeros((len(_MEASURES), len(names), len(takes)))
    for measure, values in zip(_MEASURES, figures):
        values[where] = rows[measure].to_numpy(dtype=np.float64, na_value=0.0)[is_told]  # of two rows the last counts
    told = zip(of_type.tolist(), rows["chain"].tolist())
    chains = {number: chain for number, chain in told if isinstance(chain, str)}  # the last of each
    for number, name in enumerate(names):
        yield Stray(str(name), chains.get(number), *figures[:, number])


def _piles_up(time_s: Floats, values: Floats) -> bool:
    """Ever more of it, and not what waits at one time and is gone at another."""
    return keeps_growing(time_s, values, min_persistence=0.8)
