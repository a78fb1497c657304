"""Live tensors over the run, by whose they are: parameters, gradients, optimizer state, what the user keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage import Recording
from ._axes import TIME_LABEL, axes, legend, nothing, stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Live tensors, by owner"


def tensors(recording: Recording, ax: Axes | None = None, *, pid: int | None = None) -> Axes:
    """Of one process: the one with most of them if none is named. Each storage counts once, at each snapshot."""
    rows = recording.tables.tensors
    rows = rows[(rows["moment"] == "take").fillna(False).to_numpy(dtype=bool)]
    if pid is not None:
        rows = rows[(rows["pid"] == pid).fillna(False).to_numpy(dtype=bool)]
    if not len(rows):
        return nothing(ax, _TITLE, "no snapshot saw a tensor")
    of_process = rows.groupby(["pid", "start_ticks"])["storage_bytes"].transform("sum")
    rows = rows[(of_process == of_process.max()).to_numpy(dtype=bool)]
    layer = rows["tensor_owner"].astype(str)
    if rows["device"].nunique() > 1:
        layer = layer + " on " + rows["device"].astype(str)
    moments = rows.groupby("take")["time_s"].max()
    table = rows.groupby(["take", layer.rename("layer")])["storage_bytes"].sum().unstack(fill_value=0)
    table = table[table.mean().sort_values(ascending=False).index]
    ax = axes(ax, f"{_TITLE}, in process {rows['pid'].iloc[0]}")
    time_s = moments.loc[table.index].to_numpy(dtype=float)
    stack(ax, time_s, [(str(name), table[name].to_numpy(dtype=float)) for name in table])
    ax.set_xlabel(f"{TIME_LABEL}; {len(time_s)} snapshots")
    legend(ax)
    return ax
