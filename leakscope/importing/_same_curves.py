"""Files that do not name their process: which of the processes of other files it is, by the memory it had and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..units import KiB
from ._spool import Part, Seen

_LEAST_SAMPLES = 3  # two curves of fewer agree by chance
_LEAST_SHARED = 0.5  # of the shorter one's time, within which both have to be seen
_MOST_COMPARED = 500  # samples of a process: more cost memory and decide nothing
_ALIKE, _ALIKE_BYTES = 0.01, 512 * KiB  # kernels count pages of a thread in batches, and tools round
_MOST_OFF = 0.1  # of the samples: those between which it jumped
_PEAKS_APART = 2.0  # a file that began later may have seen another peak

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def name(parts: Sequence[Part], pids: Sequence[dict[int, int]], shifts: Sequence[float]) -> None:
    """Give a process without a pid the pid of the one whose curve it has; where that is open, say that it is counted
    beside the others.
    """
    curves: dict[int, dict[int, Curve]] = {}
    for index, part in enumerate(parts):
        for pid, seen in part.seen.items():
            if pid >= 0 or seen.sample_count < _LEAST_SAMPLES or pids[index][pid] in _named(parts, pids, index):
                continue
            near = [
                (at, other_pid)
                for at, other in enumerate(parts)
                for other_pid, other_seen in other.seen.items()
                if at != index
                and (other_pid >= 0 or at < index)
                and _may_be(seen, shifts[index], other_seen, shifts[at])
            ]
            fitting = {}
            for at, other_pid in near:
                one = _curves(parts, curves, index).get(pid)
                two = _curves(parts, curves, at).get(other_pid)
                if one is not None and two is not None and _agree(one, shifts[index], two, shifts[at]):
                    fitting[pids[at][other_pid]] = at
            if len(fitting) == 1:
                ((found, at),) = fitting.items()
                pids[index][pid] = found
                part.source.notes.append(
                    f"its process is taken for that of {parts[at].source.name} ({found}), which held as much all along"
                )
            elif _others(parts, index, shifts):
                part.source.notes.append(
                    "it does not name its process, which is counted in addition to those of the other files: if it is "
                    "one of them, put its pid into the name of the file"
                )


def _named(parts: Sequence[Part], pids: Sequence[Mapping[int, int]], index: int) -> set[int]:
    """Pids of processes that another file tells as well."""
    return {pids[at][pid] for at, part in enumerate(parts) for pid in part.seen if at != index}


def _may_be(seen: Seen, shift: float, other: Seen, other_shift: float) -> bool:
    if other.sample_count < _LEAST_SAMPLES or not other.peak_bytes or not seen.peak_bytes:
        return False
    begin = max(seen.first_s + shift, other.first_s + other_shift)
    end = min(seen.last_s + shift, other.last_s + other_shift)
    shorter = min(seen.last_s - seen.first_s, other.last_s - other.first_s)
    return (
        end - begin >= _LEAST_SHARED * shorter
        and 1 / _PEAKS_APART <= seen.peak_bytes / other.peak_bytes <= _PEAKS_APART
    )


def _others(parts: Sequence[Part], index: int, shifts: Sequence[float]) -> bool:
    """Whether a file beside it has processes at the same time."""
    own = parts[index]
    return any(
        at != index
        and any(seen.sample_count for seen in part.seen.values())
        and part.first_s + shifts[at] <= own.last_s + shifts[index]
        and own.first_s + shifts[index] <= part.last_s + shifts[at]
        for at, part in enumerate(parts)
    )


def _curves(parts: Sequence[Part], known: dict[int, dict[int, Curve]], index: int) -> Mapping[int, Curve]:
    if index not in known:
        part = parts[index]
        every = {pid: max(1, seen.sample_count // _MOST_COMPARED) for pid, seen in part.seen.items()}
        count: dict[int, int] = {}
        found: dict[int, tuple[list[float], list[float]]] = {}
        for fact in part.facts():
            pid, rss = fact.row.get("pid"), fact.row.get("rss_bytes")
            if fact.table != "process_samples" or pid is None or not rss:
                continue
            count[pid] = count.get(pid, -1) + 1
            if count[pid] % every[pid] == 0:
                times, sizes = found.setdefault(pid, ([], []))
                times.append(fact.at_s)
                sizes.append(float(rss))
        known[index] = {}
        for pid, (times, sizes) in found.items():
            order = np.argsort(times, kind="stable")
            known[index][pid] = np.asarray(times)[order], np.asarray(sizes)[order]
    return known[index]


def _agree(one: Curve, shift: float, other: Curve, other_shift: float) -> bool:
    """Whether one has, at its moments within the other's time, what the other has round them."""
    at, size = one[0] + shift, one[1]
    times, sizes = other[0] + other_shift, other[1]
    is_within = (at >= times[0]) & (at <= times[-1])
    at, size = at[is_within], size[is_within]
    if len(at) < _LEAST_SAMPLES:
        return False
    after = np.clip(np.searchsorted(times, at), 1, len(times) - 1)
    low, high = np.minimum(sizes[after - 1], sizes[after]), np.maximum(sizes[after - 1], sizes[after])
    slack = np.maximum(_ALIKE * size, _ALIKE_BYTES)
    is_off = (size < low - slack) | (size > high + slack)
    return bool(np.mean(is_off) <= _MOST_OFF)
