"""How often torch.compile and tf.function compiled, and why again: read from what they keep, nothing is imported.

The counters exist since torch 2.0; the history of compilations (bounded, the newest 64) and with it the function since
2.1; the reason is part of that history since 2.6 and was kept apart before.
"""

from __future__ import annotations

import sys
import types
from _collections import deque

from ..compilers import tensorflow
from ..interpreter import names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from . import Snapshot

TABLE = "compile_counters"

_MOST_REASON_CHARACTERS = 300
_RESUMED = "torch_dynamo_resume_in_"  # what dynamo calls the rest of a function after a graph break


def rows(snapshot: Snapshot | None) -> Iterator[dict[str, Any]]:
    """A row of dynamo's, if it ever looked at a frame, and one of tf.function's.

    **Cost** 40 us of dynamo: a dict, and 64 entries of history.
    """
    for look in (_row, tensorflow.row):
        try:
            row = look()
        except Exception as error:
            if names.is_foreign(error):
                raise
            continue
        if row is not None:
            yield row


def _row() -> dict[str, Any] | None:
    utils = sys.modules.get("torch._dynamo.utils")
    counters = names.getattr_plain(utils, "counters")
    if counters is None:
        return None
    # dict.get: both are dicts that make an entry for whoever asks for one.
    frames, stats = (dict.get(counters, name, {}) for name in ("frames", "stats"))
    looked_at = dict.get(frames, "total", 0)
    workers = _forked_workers()
    if not looked_at and not workers:
        return None
    function, file, line, reason = _most_often(_history(utils))
    return {
        "unique_graph_count": dict.get(stats, "unique_graphs", 0),
        "compiled_frame_count": looked_at,
        "recompile_count": _recompile_count(),
        "function": function,
        "owner_file": file,
        "owner_line": line,
        "recompile_reason": reason or _older_reason(utils),
        "compile_worker_pids": ",".join(map(str, workers)) or None,
    }


def _forked_workers() -> list[int]:
    """Pids of compile workers that are forks of this process; those of a sidecar have a command line that says so."""
    pools = names.getattr_plain(sys.modules.get("torch._inductor.async_compile"), "_pool_set")
    slot = names.namespace_of(type(pools)).get("_dict")
    if type(slot) is types.MemberDescriptorType:  # torch 2.6 and later: a set that keeps its order, by a dict
        pools = slot.__get__(pools)
    pids = []
    kind = type(pools)
    for pool in reading.members(reading.KEYS if kind is dict else kind, pools) if kind is set or kind is dict else ():
        workers = (reading.attributes_of(pool) or {}).get(
            "_processes"
        )  # of a concurrent.futures.ProcessPoolExecutor, by pid
        own = reading.members(reading.KEYS, workers) if type(workers) is dict else ()
        pids += [pid for pid in own if type(pid) is int]
    return pids


def _recompile_count() -> int | None:
    """Compilations of a function beyond its first; None before torch 2.1. ``torch._dynamo.reset`` sets it back to 0."""
    compiled = names.getattr_plain(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER")
    if type(compiled) is not names.getattr_plain(sys.modules.get("collections"), "Counter"):
        return None
    return sum(count - 1 for count in list(dict.values(compiled)) if count > 1)


def _history(utils: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """[(function, file, first line), reason] of the newest compilations, oldest first."""
    metrics = names.getattr_plain(utils, "_compilation_metrics")
    kind = type(metrics)
    if kind is not deque and kind is not list:
        return
    for entry in reading.members(kind, metrics):
        fields = reading.attributes_of(entry) or {}
        place = tuple(fields.get(name) for name in ("co_name", "co_filename", "co_firstlineno"))
        if type(place[0]) is str and type(place[1]) is str:  # a backward pass and a failure have no place
            yield place, fields.get("recompile_reason")


def _most_often(
    history: Iterable[tuple[tuple[Any, ...], Any]],
) -> tuple[str | None, str | None, int | None, str | None]:
    """(function, file, line, newest reason) of what was compiled most often lately; Nones without a history."""
    counts: dict[tuple[Any, ...], int] = {}
    reasons = {}
    for place, reason in history:
        counts[place] = counts.get(place, 0) + 1
        if type(reason) is str:
            reasons[place] = reason
    if not counts:
        return None, None, None, None
    place = max(counts, key=counts.__getitem__)
    function, file, line = place
    if function.startswith(_RESUMED):
        function = function[len(_RESUMED) :].rpartition("_at_")[0] or function
    return function, file, line, _one_line(reasons.get(place))


def _older_reason(utils: Any) -> str | None:
    """The last guard that failed, as torch before 2.6 kept it: {code: [reason, …]}."""
    failures = names.getattr_plain(utils, "guard_failures")
    reasons = list(dict.values(failures))[-1:] if failures else ()
    return _one_line(reasons[0][-1]) if reasons and reasons[0] else None


def _one_line(reason: Any) -> str | None:
    return " ".join(reason.split())[:_MOST_REASON_CHARACTERS] if type(reason) is str else None
