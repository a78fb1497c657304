"""The ranks of a distributed job within one recording, each as a recording of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..tables import int_of

if TYPE_CHECKING:
    from ...storage import Recording


def ranks_in(recording: Recording) -> list[int]:
    """The ranks that its processes say they are of, in order; empty where none says."""
    return sorted({int(rank) for rank in recording.tables["processes"]["rank"].dropna().unique()})


def of_rank(recording: Recording, rank: int) -> Recording:
    """The same recording with the processes of one rank alone, whose first is the root; rows of no process stay.

    It ended as that process did, where the kernel told.
    """
    processes = recording.tables["processes"]
    own = processes[processes["rank"] == rank].sort_values("born_mono_ns")
    first = own.iloc[0]
    pids = own["pid"].dropna().unique()
    makers: dict[str, Any] = {name: partial(_of_pids, recording, name, pids) for name in recording.names()}
    makers["processes"] = partial(_rooted, own, int(first["pid"]))
    derived = recording.deriving(makers)
    derived.meta = {**recording.meta, "ended": _ended(first) or recording.meta.get("ended")}
    return derived


def beside_ranks(recording: Recording) -> list[int]:
    """Pids of the processes that are of no rank: what launched them, and what was launched beside them."""
    processes = recording.tables["processes"]
    return [int(pid) for pid in processes.loc[processes["rank"].isna(), "pid"].dropna().unique()]


def _of_pids(recording: Recording, table: str, pids: Iterable[Any]) -> pd.DataFrame:
    rows = recording.tables[table]
    if "pid" not in rows:
        return rows
    own: pd.DataFrame = rows[rows["pid"].isna() | rows["pid"].isin(pids)]
    return own.reset_index(drop=True)


def _rooted(own: pd.DataFrame, pid: int) -> pd.DataFrame:
    rows = own.sort_index().reset_index(drop=True)
    rows["is_root"] = (rows["pid"] == pid).astype("boolean")
    return rows


def _ended(row: pd.Series[Any]) -> list[Any] | None:
    signal, code = int_of(row, "exit_signal"), int_of(row, "exit_code")
    if signal:
        return ["signal", None, signal]
    return ["exit", code, None] if code is not None else None
