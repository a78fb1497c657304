"""What of a process's memory is its own: resident pages, those it shares with others divided among them.

The kernel tells what is shared (PSS) at a price, so that it is read seldom; resident memory is read at every sample.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...storage import Row, Rows, is_null
from ...units import FEWEST, FULL, SOME
from ..series.arithmetic import Floats
from ..tables import cells, figures, in_time, only

_UNSEEN_READINGS = FEWEST  # to either side: forks that are there half of the time meet seven in a row once in 128
_UNSHARED = FULL  # measured on a training step whose batches come and go: 0.93 to 1.0 without any sharing
_SELDOM = SOME  # of the readings
_AT_ONCE_S = 1e-6


class Family(NamedTuple):
    """When processes of one command line were born and ended, in order: forks have that of their parent."""

    born_s: Floats = np.empty(0)
    died_s: Floats = np.empty(0)

    @property
    def changes_s(self) -> Floats:
        return np.sort(np.concatenate([self.born_s, self.died_s]))

    def size_at(self, time_s: Floats) -> Floats:
        """How many of them were alive; who ends at a sample has been seen by it."""
        born = np.searchsorted(self.born_s, time_s, side="right")
        return (born - np.searchsorted(self.died_s, time_s)).astype(np.float64)


def families(processes: Iterable[Row], sampled: Container[tuple[int, int]]) -> dict[str, Family]:
    """{command line: its processes}, without those that ended before their memory was read."""
    moments: dict[str, tuple[list[float], list[float]]] = {}
    for row in processes:
        is_sampled = (row["pid"], row["start_ticks"] or 0) in sampled
        if row["cmdline"] is None or row["time_mono_ns"] is None or not is_sampled:
            continue
        began_s = row["time_s"] - row["time_mono_ns"] / 1e9
        of_command = moments.setdefault(row["cmdline"], ([], []))
        for times_s, at_ns in zip(of_command, (row["born_mono_ns"], row["died_mono_ns"])):
            if at_ns is not None:
                times_s.append(began_s + at_ns / 1e9)
    return {
        cmdline: Family(*(np.sort(np.array(one, dtype=np.float64)) for one in times_s))
        for cmdline, times_s in moments.items()
    }


def read_by_forks(
    samples: Mapping[tuple[int, int], Rows], parents: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], Rows]:
    """The samples, with a reading of each parent where a fork of its was read first. ``parents``: {fork: its parent}.

    A fork is born with its parent's pages, of which either has the same share. So what others have of the fork's they
    have of the parent's, too, which on a busy machine may be read again only when the fork is long gone.
    """
    found = dict(samples)
    for key, parent in parents.items():
        own, forks = found[parent], only(samples[key], samples[key]["pss_anon_bytes"].notna())
        first = forks.sort_values("time_s").iloc[0] if len(forks) else None
        if first is None or is_null(first["anon_bytes"]):
            continue
        at = int(np.abs(figures(own, "time_s") - first["time_s"]).argmin())  # in the same round
        row = own.iloc[at]
        if is_null(row["anon_bytes"]) or not is_null(row["pss_anon_bytes"]):
            continue
        shared = own["pss_anon_bytes"].tolist()
        shared[at] = max(0, row["anon_bytes"] - first["anon_bytes"] + first["pss_anon_bytes"])
        found[parent] = own.assign(pss_anon_bytes=shared)
    return found


class Copied(NamedTuple):
    """Pages that a snapshot of ours copied, as forked children share them; until one of those ends."""

    from_s: float
    until_s: float
    bytes: float


class Ours(NamedTuple):
    """What the agent had in a process's memory: up to ``bytes``, which may be infinite where nobody said."""

    from_s: float
    until_s: float
    bytes: float


def copied_by_takes(takes: Rows, processes: Rows) -> dict[int, list[Copied]]:
    """{pid: what the recording itself made it hold more}."""
    own = [one for one in cells(takes, "pid", "time_s", "copied_bytes") if one[0] is not None and (one[2] or 0) > 0]
    if not own:
        return {}
    began_s = processes["time_s"] - processes["time_mono_ns"] / 1e9
    died_s = began_s + processes["died_mono_ns"] / 1e9
    copied: dict[int, list[Copied]] = {}
    for pid, at_s, bytes in own:
        ended_s = died_s[(processes["ppid"] == pid) & (died_s > at_s)]
        until_s = float(ended_s.min()) if len(ended_s) else float("inf")
        copied.setdefault(pid, []).append(Copied(float(at_s), until_s, float(bytes)))
    return copied


def shares(
    rows: Rows, family: Family, copied: Sequence[Copied] = (), ours: Sequence[Ours] = ()
) -> tuple[Floats, Floats, Floats, Floats]:
    """Times and private (with swap), shared and file bytes of one process, shared pages divided among their users.

    ``copied`` is left out, as the job would not hold it without us; it is whole in the parent here, though a part of it
    is each child's, who shares the page with one less.

    ``ours``: what we had in there ourselves. It comes and goes within its time: a process is taken to have held what it
    did before and after, as far as a sample of both does not say otherwise. Where nobody said how much, a sample says
    nothing of the job and is left out, unless all are such.
    """

    def values(name: str) -> Floats:
        return rows[name].to_numpy(dtype=np.float64)

    rows = in_time(rows)
    time_s = rows["time_s"].to_numpy(dtype=np.float64)
    rss, anon = values("rss_bytes"), values("anon_bytes")
    split_known = np.isfinite(anon)
    anon = np.where(split_known, anon, rss)
    shmem, file, swap = (
        np.where(split_known, np.nan_to_num(values(n)), 0.0) for n in ("shmem_bytes", "file_bytes", "swap_bytes")
    )
    pss, pss_anon = values("pss_bytes"), values("pss_anon_bytes")
    # From the readings, not from what is between them: that is on a line from one to the next.
    of_copies = sum(np.where((c.from_s <= time_s) & (time_s < c.until_s), c.bytes, 0.0) for c in copied)
    private_share = _share(time_s, pss_anon - of_copies, anon, family, are_copied_at_forks=True)
    of_shmem, of_both = values("pss_shmem_bytes"), pss - pss_anon
    # Another job on the machine that has the same libraries mapped takes a share of the files, and none of our memory.
    parts = (of_shmem, shmem, of_both - of_shmem, file)
    if not np.isfinite(of_shmem).any():  # nobody read which is which
        parts = (of_both, shmem + file, of_both, shmem + file)
    # What anybody else has mapped takes a little of each file: there a few percent are no noise.
    shmem_share = _share(time_s, *parts[:2], family)
    file_share = _share(time_s, *parts[2:], family, unshared=1.0)
    use = np.isfinite(anon) & (anon + shmem + file > 0)  # a process that is exiting shows as empty
    private, use = _without_ours(time_s, anon * private_share, use, ours)
    return time_s[use], (private + swap)[use], (shmem * shmem_share)[use], (file * file_share)[use]


def _without_ours(
    time_s: Floats, private: Floats, use: NDArray[np.bool_], ours: Sequence[Ours]
) -> tuple[Floats, NDArray[np.bool_]]:
    most = np.zeros_like(time_s)
    for one in ours:
        most = np.where((one.from_s <= time_s) & (time_s <= one.until_s), np.maximum(most, one.bytes), most)
    clean = use & (most <= 0)
    if clean.sum() < 2:
        return private, use
    else_held = np.interp(time_s, time_s[clean], private[clean])
    without: Floats = np.clip(else_held, np.maximum(private - most, 0.0), private)
    return without, use & np.isfinite(most)


def own_bytes(rows: Rows, time_s: Floats, private_bytes: Floats) -> Floats:
    """What no other process shares, at ``time_s``: less than ``private_bytes`` by what the readings say is shared."""
    rows = in_time(rows)
    pss, uss = (rows[name].to_numpy(dtype=np.float64) for name in ("pss_anon_bytes", "uss_bytes"))
    read = np.isfinite(pss) & np.isfinite(uss)
    if not read.any():
        return private_bytes
    at_s = rows["time_s"].to_numpy(dtype=np.float64)[read]
    shared = np.interp(time_s, at_s, np.maximum(pss[read] - uss[read], 0.0))
    own: Floats = np.maximum(private_bytes - shared, 0.0)
    return own


def _share(
    time_s: Floats,
    part: Floats,
    whole: Floats,
    family: Family,
    *,
    unshared: float = _UNSHARED,
    are_copied_at_forks: bool = False,  # else others may have them for reasons of their own
) -> Floats:
    read = np.isfinite(part) & (whole > 0)
    if not read.any():
        return np.ones_like(time_s)
    at_s, share = time_s[read], np.clip(part[read] / whole[read], 0.0, 1.0)
    _without_noise(share, family.size_at(at_s) <= 1, unshared)
    share = _without_unseen_forks(at_s, share, whole[read] if are_copied_at_forks else None, family)
    alone, later = share[family.size_at(at_s) <= 1], family.changes_s[family.changes_s > at_s[-1]] + _AT_ONCE_S
    # Whose last fork ends after the last reading has the share of when it was alone before; else nobody knows.
    if later.size and alone.size and family.size_at(later[-1:])[0] <= 1:
        at_s, share = np.append(at_s, later[-1]), np.append(share, alone[-1])
    return np.interp(time_s, *_with_steps(at_s, share, family))


def _without_noise(share: Floats, is_alone: NDArray[np.bool_], unshared: float) -> None:
    """Both are read from a running program, not at the same instant: a few percent apart is no sharing.

    Of one that has its parent's pages, or its children's, and grows, the share that is its own passes the same mark:
    then it still has them. That it seldom lies below tells the two apart.
    """
    is_noise = share >= unshared
    if not is_alone.all() and np.quantile(share[~is_alone], _SELDOM) < unshared:
        is_noise &= is_alone
    share[is_noise] = 1.0


def _without_unseen_forks(at_s: Floats, share: Floats, whole: Floats | None, family: Family) -> Floats:
    """Readings as they would be without forks that came and went between two samples.

    A program may fork a child for each piece of work. Then many readings meet one that has half of every page, and is
    gone before it is seen itself: what the program was said to hold would be nobody's. Of a process alone, whose share
    is all, the highest of a few readings in a row is taken. In a family a reading is left out by which others have more
    of it than by those before and those after it, with as large a family; or than by those before the last.
    """
    share, sizes = share.copy(), family.size_at(at_s)
    for size in np.unique(sizes):
        is_it = sizes == size
        own = share[is_it]
        if size <= 1 and own.size > 1:
            padded = np.pad(own, _UNSEEN_READINGS)
            own = np.lib.stride_tricks.sliding_window_view(padded, 2 * _UNSEEN_READINGS + 1).max(axis=1)
        elif whole is not None and own.size > _UNSEEN_READINGS:
            all_of_it = whole[is_it]
            of_others = (1.0 - own) * all_of_it
            usual = np.maximum(*_medians_beside(of_others, np.inf))
            is_less = own < _UNSHARED * np.minimum(*_medians_beside(own, -np.inf))
            is_met = is_less & (of_others - usual > (1.0 - _UNSHARED) * all_of_it)
            own = np.where(is_met, 1.0 - usual / all_of_it, own)
        share[is_it] = own
    return share


def _medians_beside(values: Floats, beyond: float) -> tuple[Floats, Floats]:
    """Of a few before each and of a few behind it; ``beyond`` is what counts before the first, its opposite after."""
    before = np.pad(values, (_UNSEEN_READINGS, 0), constant_values=beyond)[:-1]
    after = np.pad(values, (0, _UNSEEN_READINGS), constant_values=-beyond)[1:]
    one, other = (np.lib.stride_tricks.sliding_window_view(side, _UNSEEN_READINGS) for side in (before, after))
    return np.median(one, axis=1), np.median(other, axis=1)


def _with_steps(at_s: Floats, share: Floats, family: Family) -> tuple[Floats, Floats]:
    """Readings; between two of them the earlier one until the family first changes, the later from where it last does.

    A fork takes its share at once, and leaves it to the others as it ends. On a busy machine the reading before may be
    20 s old: a straight line from there would be growth, and one to the next, of a fork long gone, a saw-tooth. Between
    the changes that one of both holds which was made with about as many: all shared the same pages.
    """
    changes_s = np.unique(family.changes_s)
    gap = np.searchsorted(at_s, changes_s)
    between = (gap > 0) & (gap < at_s.size)
    gap, changes_s = gap[between], changes_s[between]
    if not gap.size:
        return at_s, share
    size, at_readings = (np.log(np.maximum(family.size_at(t), 1.0)) for t in (changes_s + _AT_ONCE_S, at_s))
    is_like_later = np.abs(size - at_readings[gap]) < np.abs(size - at_readings[gap - 1])
    is_new = gap[1:] != gap[:-1]
    since = np.where(np.append(is_new, True) | is_like_later, share[gap], share[gap - 1])
    until = np.where(np.append(True, is_new), share[gap - 1], np.roll(since, 1))
    times = np.concatenate([at_s, changes_s, np.minimum(changes_s + _AT_ONCE_S, at_s[gap])])
    values = np.concatenate([share, until, since])
    order = np.argsort(times, kind="stable")
    return times[order], values[order]
