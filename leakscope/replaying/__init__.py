"""`leakscope whatif`: what a process would hold under other allocators and settings, replayed from its samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..facts.case import Case
from ..facts.growth.kept import free_and_room
from ..facts.growth.lives import Lives, lives_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.tables import figures, only, text_of
from ..storage import Recording
from ..units import GiB, KiB, MiB, format_bytes, format_count
from ..words import printable
from .steps import MEASURES, plan
from .variants import AS_RECORDED, Variant, served_by, variants

__all__ = ["Outcome", "WhatIf", "as_json", "as_text", "what_if"]

_HERE = Path(__file__).parent
_LIBRARY = _HERE / "libleakscope_replay.so"
_MOST_ERROR = 0.1  # of what was asked for, by so few samples: large pieces are all drawn, and have none
_LATE = 0.5  # of the recorded time: the level is a mean there, as of a saw-tooth a median is either end by chance
_MOST_RESIDENT = 1 * GiB  # of this machine's memory for a replay, or
_SHARE_OF_AVAILABLE = 0.25  # of what it has
_MAY_DIFFER = 0.35  # of what malloc kept free, between the recording and its replay
_NOT_MUCH = 16 * MiB
_TRIM_FROM, _TRIM_TO, _TRIES = 17.0, 27.0, 5  # powers of two: what malloc begins with, and more than an arena is
_LIKE_IT = 0.1  # of what was held
_MMAP_THRESHOLD, _MOST_LEARNED = 128 * KiB, 32 * MiB
_LONGEST_S = 120.0
_PERIOD_S = 0.1  # between two measures
_DROPPED = ("LD_PRELOAD", "GLIBC_TUNABLES", "LEAKSCOPE", "MALLOC_", "MIMALLOC_", "PYTHON")


@dataclass(frozen=True)
class Outcome:
    """Under one allocator or setting. **Units** bytes of the whole process; None: it is not installed, or failed.

    ``level``: mean of the later half of the recorded time; ``peak``: at the most.
    """

    name: str
    level_bytes: int | None = None
    peak_bytes: int | None = None
    why_not: str | None = None


@dataclass(frozen=True)
class WhatIf:
    """One process, replayed. ``kept_bytes``: what malloc kept free, by its own figures, or None where it has none; and
    in the replay."""

    process: str
    sample_count: int
    thread_count: int
    asked_bytes: int
    scale: float
    held_bytes: int
    kept_bytes: int | None
    replayed_kept_bytes: int
    outcomes: tuple[Outcome, ...]

    @property
    def is_true(self) -> bool:
        """Whether the replay of what was recorded comes out as it was; False where nobody can tell."""
        if self.kept_bytes is None:
            return False
        difference = abs(self.replayed_kept_bytes - self.kept_bytes)
        return difference <= max(_NOT_MUCH, _MAY_DIFFER * max(self.kept_bytes, self.replayed_kept_bytes))


def what_if(recording: Recording, pid: int | None = None) -> WhatIf:
    """Of the process ``pid``, or of the one of which malloc kept most.

    **Errors** BadInput where there is nothing to replay, or no way to.
    """
    if not _LIBRARY.exists():
        raise BadInput("the library that replays is missing: leakscope was installed without a C compiler")
    case = Case(recording)
    process = _chosen(case, pid)
    library = text_of(process.rows("sentinels").iloc[-1], "malloc_library")
    serving = served_by(library)
    if serving.is_missing:
        raise BadInput(
            f"malloc was {library}'s, which is not installed here: the replay needs what it is compared with"
        )
    rng = np.random.default_rng(0)
    lives = lives_of(process.rows("allocation_lives"), rng)
    if error_of(lives) > _MOST_ERROR:
        text = f"{process.name}[{process.pid}]: {len(lives)} allocations were sampled, too few to be replayed"
        raise BadInput(f"{text}: record a program that asks for more memory of malloc, or for longer")
    end_s = min(process.exit_s, float(process.time_s[-1]))
    moments = np.linspace(min(float(lives.at_s[0]), end_s), end_s, MEASURES + 1)[1:]
    orders = lives.orders(moments)
    in_use = in_use_at(lives, orders)
    span_s = float(moments[-1] - moments[0])
    late = moments >= moments[0] + _LATE * span_s
    held = np.interp(moments, process.time_s, process.held_bytes)
    kept = _kept(process, moments)
    scale = max(1.0, float(in_use.max()) / _room())
    level, peak = float(np.mean(held[late])), float(process.held_bytes.max())
    # Compared as wholes: what was in use, and what was resident, were not read at the same moments.
    of_malloc = None if kept is None else kept + in_use
    wanted = None if of_malloc is None else min(level, float(np.mean(of_malloc[late])))
    with tempfile.TemporaryDirectory(prefix="leakscope-") as folder:
        replay = _Replay(Path(folder, "steps"), lives, orders, scale, span_s)
        largest_freed = float(lives.bytes[np.isfinite(lives.end_order)].max(initial=0.0))
        like_it, lasting, now = _like_it(serving, largest_freed, replay, wanted, late)
        others = [(one, replay.under(one)) for one in variants(serving, like_it, lasting)]
    found = [(Variant(AS_RECORDED), now), *others]
    wanted = min(level, _level(now, late)) if wanted is None else wanted
    figures = late, now, (level, wanted), (peak, min(peak, float((now if of_malloc is None else of_malloc).max())))
    return WhatIf(
        f"{process.name}[{process.pid}]",
        len(lives),
        len(np.unique(lives.thread)),
        round(float(lives.weight.sum())),
        replay.planned.scale,
        round(level),
        None if kept is None else round(float(np.mean(kept[late]))),
        round(float(np.mean((now[:, 0] - in_use)[late]))),
        tuple(_outcome(one, got, *figures) for one, got in found),
    )


def error_of(lives: Lives) -> float:
    """Of the bytes that were asked for, as a share: of what is sure to be drawn there is none."""
    unseen = np.maximum(0.0, lives.weight - lives.bytes)
    return float(np.sqrt((lives.weight * unseen).sum()) / lives.weight.sum()) if len(lives) else 1.0


def in_use_at(lives: Lives, orders: Floats) -> Floats:
    """Bytes in use when it had come so far, of what was sampled."""
    begun = np.concatenate([[0.0], np.cumsum(lives.weight)])[np.searchsorted(lives.begin_order, orders, "right")]
    by_end = np.argsort(lives.end_order, kind="stable")
    gone = np.concatenate([[0.0], np.cumsum(lives.weight[by_end])])
    left: Floats = begun - gone[np.searchsorted(lives.end_order[by_end], orders, "right")]
    return left


def _like_it(
    serving: Variant, largest: float, replay: _Replay, wanted: float | None, late: NDArray[np.bool_]
) -> tuple[dict[str, str], dict[str, str], Floats]:
    """Settings with which the replay keeps as much as the program did, as nearly as any do; those of them that hold
    whatever else is set; and what it kept.

    A few small pieces that stay keep an arena from shrinking where they lie at its end, and samples of bytes hardly
    ever show where that is. Where the program kept more than its replay, it is to malloc the same as if it shrank
    arenas only from so much on: up to twice the largest buffer that was freed it may be malloc's own doing, which
    learns that much unless a threshold is set. Where it kept less, some of what stays lay aside of what went.

    **Errors** BadInput where it cannot be replayed.
    """

    def tried(at: float) -> tuple[float, float, dict[str, str], Floats]:
        trims_from = 2 ** (_TRIM_FROM + at * (_TRIM_TO - _TRIM_FROM)) if at > 0 else 0.0
        settings = {"MALLOC_TRIM_THRESHOLD_": f"{trims_from:.0f}", "MALLOC_MMAP_THRESHOLD_": f"{learned + 1:.0f}"}
        settings = settings if at > 0 else {}
        replay.lay_aside(max(0.0, -at))
        found = replay.under(replace(serving, environment={**serving.environment, **settings}))
        if isinstance(found, str):
            raise BadInput(f"the replay failed: {found}")
        return _level(found, late) - (wanted or 0.0), trims_from, settings, found

    learned = max(_MMAP_THRESHOLD, min(_MOST_LEARNED, largest))  # malloc's own threshold rises as larger ones are freed
    best_at, best = 0.0, tried(0.0)
    at = near = -1.0 if best[0] > 0 else 1.0  # first as far as it goes; then between that and nothing
    low, high = min(at, 0.0), max(at, 0.0)
    for _ in range(_TRIES if serving.library is None and wanted is not None else 0):
        if abs(best[0]) <= _LIKE_IT * (wanted or 0.0):
            break
        one = tried(at)
        best_at, best = min((best_at, best), (at, one), key=lambda pair: abs(pair[1][0]))
        if at == near and one[0] * at < 0:
            break  # it keeps still more, or still less
        low, high = (low, at) if one[0] > 0 else (at, high)
        at = 0.5 * (low + high)
    replay.lay_aside(max(0.0, -best_at))
    _, trims_from, settings, now = best
    return settings, settings if trims_from > 2 * learned else {}, now


def _chosen(case: Case, pid: int | None) -> ProcessGrowth:
    processes = [process for process in case.growth.processes if pid is None or process.pid == pid]
    if not processes:
        raise BadInput(f"no process {pid} was recorded")
    able = [process for process in processes if len(process.rows("allocation_lives"))]
    if not able:
        notes = case.rows("agent_notes")
        why = only(notes, notes["note"] == "no-allocation-samples")["text"]
        said = f": {why.iloc[0]}" if len(why) else ": sampling begins after the first second"
        raise BadInput(f"no allocations of malloc were sampled{said}")

    def free(process: ProcessGrowth) -> float:
        read = np.nan_to_num(figures(process.rows("sentinels"), "malloc_free_bytes"))
        return float(np.median(read)) if read.size else 0.0

    return max(able, key=free)


def _kept(process: ProcessGrowth, moments: Floats) -> Floats | None:
    """Free inside malloc and resident: malloc also counts what it has returned. None where it counts neither."""
    at_s, free, _, room = free_and_room(process, process.rows("sentinels"))
    return np.interp(moments, at_s, np.minimum(free, np.maximum(0.0, room))) if at_s.size else None


def _room() -> float:
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MOST_RESIDENT, _SHARE_OF_AVAILABLE * available)


@dataclass
class _Replay:
    """Steps in a file at ``path``, and for how long the program took them: ``span_s``. ``orders``, ``scale``: as of
    ``plan``.

    ``lasts_s``: as long a replay takes where an allocator gives memory back after a while. Twice what the steps alone
    were seen to take: on a busy machine that is much, and so long it may wait between two measures.
    """

    path: Path
    lives: Lives
    orders: Floats
    scale: float
    span_s: float
    lasts_s: float = MEASURES * _PERIOD_S
    aside: float | None = None

    def __post_init__(self) -> None:
        self.lay_aside(0.0)

    def lay_aside(self, share: float) -> None:
        """Of what is there for long, from now on."""
        if share != self.aside:
            self.aside = share
            self.planned = plan(self.lives, self.orders, self.scale, np.random.default_rng(0), share)
            self.planned.steps.tofile(self.path)

    def under(self, one: Variant) -> Floats | str:
        """Resident at each measure, as of the whole program, and behind a trim if there is one; or why not."""
        if one.is_missing:
            return "not installed here"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
        environment |= one.environment
        for decay in one.decays:
            environment[decay.name] = decay.text.format(max(1, round(decay.ms * self.lasts_s / max(self.span_s, 1.0))))
        period_us = round(1e6 * self.lasts_s / MEASURES) if one.decays else 0
        counts = self.planned.thread_count, self.planned.place_count, MEASURES << one.is_trimmed
        figures = map(str, (*counts, int(one.is_trimmed), period_us))
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", _HERE / "_child.py", _LIBRARY, self.path, *figures],
                capture_output=True, text=True, env=environment, timeout=_LONGEST_S, check=False,
            )  # fmt: skip
            answer = json.loads(done.stdout) if done.returncode == 0 else {"failed": 1}
        except subprocess.TimeoutExpired:
            return f"its replay took more than {_LONGEST_S:.0f} s"
        except (OSError, ValueError):
            return "its replay did not start"
        if answer["failed"]:
            return "its replay ended before its time: too little memory, or too many threads"
        if not one.decays:
            self.lasts_s = max(self.lasts_s, min(2 * answer["lasted_s"], 0.5 * _LONGEST_S))
        resident = np.array(answer["resident_bytes"], dtype=np.float64).reshape(MEASURES, -1)
        of_all: Floats = np.maximum(0.0, resident) * self.planned.scale
        return of_all


def _level(got: Floats, late: NDArray[np.bool_]) -> float:
    """Half way between what there is before a trim and after it, where there is one."""
    return float(np.mean(got[late]))


def _outcome(
    one: Variant,
    got: Floats | str,
    late: NDArray[np.bool_],
    now: Floats,
    level: tuple[float, float],
    peak: tuple[float, float],
) -> Outcome:
    """``level``, ``peak``: what the process held, and malloc's part of it, which is scaled as the replay is."""
    if isinstance(got, str):
        return Outcome(one.name, why_not=got)
    then = _scaled(*level, _level(got, late), _level(now, late))
    return Outcome(one.name, then, max(then, _scaled(*peak, float(got.max()), float(now.max()))))


def _scaled(held: float, of_malloc: float, got: float, now: float) -> int:
    return max(0, round(held + of_malloc * (got / max(now, 1.0) - 1.0)))


def as_json(found: WhatIf) -> dict[str, Any]:
    """The contract ``leakscope.whatif/1``."""
    return {
        "schema": "leakscope.whatif/1",
        **{name: getattr(found, name) for name in WhatIf.__dataclass_fields__ if name != "outcomes"},
        "is_true": found.is_true,
        "outcomes": [vars(one) for one in found.outcomes],
    }


def as_text(found: WhatIf) -> str:
    """A table for a terminal."""
    return "\n".join(map(printable, _lines(found))) + "\n"


def _lines(found: WhatIf) -> Iterator[str]:
    threads = "one thread" if found.thread_count == 1 else f"{format_count(found.thread_count)} threads"
    yield (
        f"{found.process}: {format_count(found.sample_count)} sampled allocations of {threads}, for "
        f"{format_bytes(found.asked_bytes)}, replayed"
    )
    if found.scale > 1.05:
        yield f"1 of {found.scale:.1f} pieces was replayed, so as not to take as much memory here"
    yield ""
    width = max(len(one.name) for one in found.outcomes)
    yield f"{'':{width}}  {'would hold':>12}  {'less':>10}  {'peak':>10}"
    for one in found.outcomes:
        if one.level_bytes is None or one.peak_bytes is None:
            yield f"{one.name:{width}}  {one.why_not}"
            continue
        less = "" if one.name == AS_RECORDED else format_bytes(one.level_bytes - found.held_bytes, signed=True)
        yield f"{one.name:{width}}  {format_bytes(one.level_bytes):>12}  {less:>10}  {format_bytes(one.peak_bytes):>10}"
    yield ""
    if found.kept_bytes is None:
        yield "what serves malloc does not say what it keeps: whether the replay is like the program, nobody can tell"
        return
    kept, replayed = format_bytes(found.kept_bytes), format_bytes(found.replayed_kept_bytes)
    yield f"malloc kept {kept} free in the program, and {replayed} in the replay of it"
    if not found.is_true:
        yield (
            "these differ much, so the figures above are no prediction: it ran with other settings of malloc, or "
            "frees and asks for memory in a way that samples do not show"
        )
