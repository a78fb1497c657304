"""The budget of tensors: what a process's memory went to, at the end of the run and at the peak of a training step.

Rows come from the agent's snapshots, each storage once. What is left of the process's resident memory without mapped
files (or, on a GPU, of what the allocator reserved) is a row of its own, ``not-tensors``, so that a column adds up to
the whole.
"""

from __future__ import annotations

import numpy as np

from ...findings import BudgetRow
from ...storage import Recording, Rows
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..heap.handles import in_step_by_sample
from ..series.arithmetic import level_at
from ..tables import AT_EXIT, figures, narrow, only

# In the order of a person's question: the model, what training adds to it, what a step adds, what the program keeps.
OWNERS = {
    "parameter": "model",
    "buffer": "model",
    "master-weight": "optimizer",
    "optimizer-state": "optimizer",
    "gradient": "gradients",
    "saved-for-backward": "activations",
    "activation": "activations",
    "batch": "batch",
    "user-held": "user-held",
    "other": "other-tensors",
}


def has_unweighed_tensors(process: ProcessGrowth, start_s: float, end_s: float) -> bool:
    """Whether there were tensors, and no two snapshots of the window say what they hold: that is not zero bytes."""
    counts = process.rows("sentinels")["tensor_count"].dropna()
    takes = process.rows("takes")
    weighed = only(takes, takes["tensor_bytes"].notna() & takes["time_s"].between(start_s, end_s))
    return bool((counts > 0).any()) and len(weighed) < 2


def ever_more_tensors(process: ProcessGrowth, start_s: float, end_s: float) -> bool:
    """Whether tensors came to live as memory came into use: somebody keeps them, whether a snapshot reached it or not.

    They are counted by the references that their type has, without a look at any of them.
    """
    rows = narrow(process.rows("sentinels"), "time_s", "tensor_count", "malloc_in_use_bytes").dropna()
    rows = only(rows, rows["time_s"].between(start_s, end_s))
    count, in_use = (rows[column].to_numpy(dtype=np.float64) for column in ("tensor_count", "malloc_in_use_bytes"))
    return in_step_by_sample(count, in_use) is not None


_END, _PEAK = "end", "peak"
_REST = "not-tensors"
MOST_PROCESSES = 4  # that are divided, the largest


def tensor_budget(recording: Recording, growth: TreeGrowth) -> list[BudgetRow]:
    """Rows by process, the largest tensors first, then device, moment and account; empty without a snapshot."""
    table = recording.rows["tensors"]
    if not len(table):
        return []
    table = only(table, table["node"].isna() & table["pid"].notna())
    pids = [int(pid) for pid in table["pid"].unique()]
    budgets = [_of_process(recording, growth, pid, only(table, table["pid"] == pid)) for pid in pids]
    budgets.sort(key=lambda rows: -sum(row.bytes for row in rows if row.account != _REST))
    return [row for rows in budgets[:MOST_PROCESSES] for row in rows]


def _of_process(recording: Recording, growth: TreeGrowth, pid: int, rows: Rows) -> list[BudgetRow]:
    process = growth.process(pid)
    if process is None:
        return []
    takes = process.rows("takes")
    at_work = takes["take"][takes["reason"] != AT_EXIT]  # as an exception ends it the frames still stand
    snapshots = only(rows, (rows["moment"] == "take") & rows["take"].isin(at_work))
    found = []
    if len(snapshots):
        last = only(snapshots, snapshots["take"] == snapshots["take"].max())
        found += _rows(recording, process, last, _END)
    peak = only(rows, rows["moment"] == "backward")
    found += _rows(recording, process, peak, _PEAK)
    return found


def _rows(recording: Recording, process: ProcessGrowth, rows: Rows, moment: str) -> list[BudgetRow]:
    found = []
    for device, own in rows.groupby("device"):
        accounts: dict[str, int] = {}
        for owner, size in zip(own["tensor_owner"], own["storage_bytes"]):
            account = OWNERS.get(str(owner), "other-tensors")
            accounts[account] = accounts.get(account, 0) + int(size)
        at_s = float(own["time_s"].iloc[0])
        whole = _whole(recording, process, str(device), at_s)
        if whole is not None:
            accounts[_REST] = max(0, whole - sum(accounts.values()))
        order = [*dict.fromkeys(OWNERS.values()), _REST]
        found += [
            BudgetRow(process.label, str(device), moment, name, accounts[name], round(at_s, 3))
            for name in order
            if name in accounts
        ]
    return found


def _whole(recording: Recording, process: ProcessGrowth, device: str, at_s: float) -> int | None:
    """What the process held, or what torch's allocator reserved on the device, around that moment."""
    if device == "cpu":
        return int(level_at(process.time_s, process.held_bytes, at_s)) or None
    rows = recording.rows["allocator"]
    rows = only(rows, (rows["pid"] == process.pid) & rows["reserved_bytes"].notna() & (rows["device"] == device))
    if not len(rows):
        return None
    return int(level_at(figures(rows, "time_s"), figures(rows, "reserved_bytes"), at_s)) or None
