"""The ranks of a distributed job within one recording, each as a recording of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ...storage import Recording, Row, Rows, derived
from ...units import spans
from ..growth.tree import tree_growth
from ..tables import int_of, only

_MOST_NAMED = 8  # ranges of ranks in one sentence


def ranks_in(recording: Recording) -> list[int]:
    """The ranks that its processes say they are of, in order; empty where none says."""
    return sorted({int(rank) for rank in recording.rows["processes"]["rank"].dropna().unique()})


def of_rank(recording: Recording, rank: int) -> Recording:
    """The same recording with the processes of one rank alone, whose first is the root; rows of no process stay.

    It ended as that process did, where the kernel told.
    """
    processes = recording.rows["processes"]
    own = only(processes, processes["rank"] == rank).sort_values("born_mono_ns")
    first = own.iloc[0]
    pids = own["pid"].dropna().unique()
    makers: dict[str, Any] = {name: partial(_of_pids, recording, name, pids) for name in recording.names()}
    makers["processes"] = partial(_rooted, own, int(first["pid"]))
    part = derived(recording, makers)
    part.meta = {**recording.meta, "ended": _ended(first) or recording.meta.get("ended")}
    return part


def growth_of_ranks(recording: Recording) -> dict[int, bool | None]:
    """Of a recording with several ranks whether each grows without end, by itself; empty for any other."""
    ranks = ranks_in(recording)
    return {rank: tree_growth(of_rank(recording, rank)).leaking for rank in ranks} if len(ranks) > 1 else {}


def named_ranks(ranks: Sequence[int]) -> str:
    """``rank 17``, ``ranks 0-7 and 9``; of a long list the beginning, and how many they are."""
    found = spans(sorted(ranks))  # of two neighbours both are named
    texts = [t for low, high in found for t in ([f"{low}-{high}"] if high > low + 1 else map(str, sorted({low, high})))]
    if len(texts) > _MOST_NAMED:
        return f"{len(ranks)} ranks ({', '.join(texts[:_MOST_NAMED])}, …)"
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"{word} {' and '.join([', '.join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)}"


def who_leaks(leaking: Sequence[int], steady: Sequence[int], count: int) -> str:
    """``Rank 2 leaks, the other 3 do not``; of ``count`` ranks those that are in neither list are not spoken of."""
    if len(leaking) == count > 1:
        return f"All {count} ranks leak"
    who = named_ranks(leaking)
    said = f"{who[:1].upper()}{who[1:]} {'leaks' if len(leaking) == 1 else 'leak'}"
    if not steady:
        return said
    does = "does not" if len(steady) == 1 else "do not"
    if len(leaking) + len(steady) < count:
        return f"{said}, {len(steady)} {does}"
    return f"{said}, the other {does}" if len(steady) == 1 else f"{said}, the other {len(steady)} {does}"


def _of_pids(recording: Recording, table: str, pids: Iterable[Any]) -> Rows:
    rows = recording.rows[table]
    if "pid" not in rows:
        return rows
    return only(rows, rows["pid"].isna() | rows["pid"].isin(pids))


def _rooted(own: Rows, pid: int) -> Rows:
    rows = own.sort_values(("pid", "start_ticks", "time_mono_ns"))
    return rows.assign(is_root=rows["pid"] == pid)


def _ended(row: Row) -> list[Any] | None:
    signal, code = int_of(row, "exit_signal"), int_of(row, "exit_code")
    if signal:
        return ["signal", None, signal]
    return ["exit", code, None] if code is not None else None
