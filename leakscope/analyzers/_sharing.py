"""What of a process's memory is its own: resident pages, those it shares with others divided among them.

The kernel tells what is shared (PSS) at a price, so that it is read seldom; resident memory is read at every sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ._series import Floats

if TYPE_CHECKING:
    import pandas as pd

_UNSHARED = 0.9  # measured on a training step whose batches come and go: 0.93 to 1.0 without any sharing


def family_changes_s(processes: pd.DataFrame) -> dict[str, Floats]:
    """{command line: when a process with it was born or ended, in order}: forks have that of their parent."""
    began_s = processes["time_s"].astype("float64") - processes["time_mono_ns"].astype("float64") / 1e9
    moments = {name: began_s + processes[name].astype("float64") / 1e9 for name in ("born_mono_ns", "died_mono_ns")}
    changes: dict[str, Floats] = {}
    for cmdline, rows in processes.groupby("cmdline").groups.items():
        known = [moments[name].loc[rows].dropna().to_numpy() for name in moments]
        changes[str(cmdline)] = np.sort(np.concatenate(known))
    return changes


class Copied(NamedTuple):
    """Pages that an inventory of ours copied, as forked children share them; until one of those ends."""

    from_s: float
    until_s: float
    bytes: float


def copied_by_takes(takes: pd.DataFrame, processes: pd.DataFrame) -> dict[int, list[Copied]]:
    """{pid: what the recording itself made it hold more}."""
    began_s = processes["time_s"].astype("float64") - processes["time_mono_ns"].astype("float64") / 1e9
    died_s = began_s + processes["died_mono_ns"].astype("float64") / 1e9
    copied: dict[int, list[Copied]] = {}
    own = takes[takes["copied_bytes"].gt(0).fillna(False) & takes["pid"].notna()]
    for pid, at_s, bytes in zip(own["pid"].astype(int), own["time_s"], own["copied_bytes"]):
        ended_s = died_s[processes["ppid"].eq(pid).fillna(False) & died_s.gt(at_s)]
        until_s = float(ended_s.min()) if len(ended_s) else float("inf")
        copied.setdefault(pid, []).append(Copied(float(at_s), until_s, float(bytes)))
    return copied


def shares(
    rows: pd.DataFrame, changes_s: Floats | None = None, copied: Sequence[Copied] = ()
) -> tuple[Floats, Floats, Floats, Floats]:
    """Times and private (with swap), shared and file bytes of one process, shared pages divided among their users.

    ``changes_s``: when a process of its family was born or ended. ``copied`` is left out, as the job would not hold it
    without us; it is whole in the parent here, though a part of it is each child's, who shares the page with one less.
    """

    def values(name: str) -> Floats:
        return rows[name].to_numpy(dtype=np.float64, na_value=np.nan)

    rows = rows.sort_values("time_s", kind="stable")
    time_s = rows["time_s"].to_numpy(dtype=np.float64)
    rss, anon = values("rss_bytes"), values("anon_bytes")
    split_known = np.isfinite(anon)
    anon = np.where(split_known, anon, rss)
    shmem, file, swap = (
        np.where(split_known, np.nan_to_num(values(n)), 0.0) for n in ("shmem_bytes", "file_bytes", "swap_bytes")
    )
    pss, pss_anon = values("pss_bytes"), values("pss_anon_bytes")
    # From the readings, not from what is between them: that is on a line from one to the next.
    ours = sum(np.where((c.from_s <= time_s) & (time_s < c.until_s), c.bytes, 0.0) for c in copied)
    private_share = _share(time_s, pss_anon - ours, anon, changes_s)
    other_share = _share(time_s, pss - pss_anon, shmem + file, changes_s)
    use = np.isfinite(anon) & (anon + shmem + file > 0)  # a process that is exiting shows as empty
    return (
        time_s[use],
        (anon * private_share + swap)[use],
        (shmem * other_share)[use],
        (file * other_share)[use],
    )


def _share(time_s: Floats, part: Floats, whole: Floats, changes_s: Floats | None) -> Floats:
    read = np.isfinite(part) & (whole > 0)
    if not read.any():
        return np.ones_like(time_s)
    share = np.clip(part[read] / whole[read], 0.0, 1.0)
    # Both are read from a running program, not at the same instant: a few percent apart is no sharing.
    share[share >= _UNSHARED] = 1.0
    return np.interp(time_s, *_with_steps(time_s[read], share, np.empty(0) if changes_s is None else changes_s))


def _with_steps(at_s: Floats, share: Floats, changes_s: Floats) -> tuple[Floats, Floats]:
    """Readings, and before the first change of the family between two of them the earlier one again.

    A fork that ends leaves its share to the others at once. On a busy machine the reading before may be 20 s old: a
    straight line from there would be growth.
    """
    gap = np.searchsorted(at_s, changes_s)
    between = (gap > 0) & (gap < at_s.size)
    after, first = np.unique(gap[between], return_index=True)
    return np.insert(at_s, after, changes_s[between][first]), np.insert(share, after, share[after - 1])
