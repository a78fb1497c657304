"""What every form of a comparison says alike: the figures of both runs, and over what they were compared."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence

from ..findings import LEVEL, PEAK
from ..units import (
    format_bytes,
    format_count,
    format_duration,
    format_per_step,
    per_clock,
    per_step,
    steps_together,
)  # fmt: skip
from ..words import BILL_NAMES, ending
from ._comparison import (
    BETTER,
    CANNOT_TELL,
    NO_STEADY_GROWTH,
    ONLY_AFTER,
    ONLY_BEFORE,
    SAME,
    WORSE,
    BillChange,
    Comparison,
    History,
    Side,
)
from ._curves import STEP
from ._ran import shown

WORDS = {BETTER: "Better", SAME: "Same", WORSE: "Worse", CANNOT_TELL: "Cannot tell"}


_LEAST_CHANGE = 0.03  # of the larger whole: less moves from run to run


def rows(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """What is told of both: its name, before, after."""
    one, two = comparison.before, comparison.after
    yield "recording", *_short(one.path, two.path)
    yield "command", _command(one), _command(two)
    yield "ended", _ended(one), _ended(two)
    yield "recorded", format_duration(one.duration_s), format_duration(two.duration_s)
    yield "keeps growing", _yes_no(one), _yes_no(two)
    if comparison.aligned_by == STEP:
        unit = comparison.step_unit
        yield f"growth {per_step(unit)}", growth(comparison, one, True), growth(comparison, two, True)
    yield f"growth {clock_of(comparison)[0]}", growth(comparison, one, False), growth(comparison, two, False)
    yield "peak", format_bytes(one.peak_bytes), format_bytes(two.peak_bytes)
    if one.wasted_bytes or two.wasted_bytes:
        yield "wasted", format_bytes(one.wasted_bytes), format_bytes(two.wasted_bytes)
    level, most = ([one for one in comparison.bill if one.moment == moment] for moment in (LEVEL, PEAK))
    yield from _bill("memory as usual", level)
    if any(high > (1 + _LEAST_CHANGE) * low for low, high in zip(_wholes(level), _wholes(most))):
        yield from _bill("memory at its peak", most)
    for row in comparison.workers:
        yield (
            f"{row.role}s at once, private",
            _workers(row.before_count, row.before_bytes_each),
            _workers(row.after_count, row.after_bytes_each),
        )


def _short(one: str, two: str) -> tuple[str, str]:
    """Two paths by as much of their ends as tells them apart; the file's name alone, where that does."""
    parts = [path.split("/") for path in (one, two)]
    for count in range(1, max(map(len, parts))):
        ends = ["/".join(part[-count:]) for part in parts]
        if ends[0] != ends[1]:
            return ends[0], ends[1]
    return one, two


def _wholes(changes: Sequence[BillChange]) -> tuple[int, int]:
    return sum(one.before_bytes or 0 for one in changes), sum(one.after_bytes or 0 for one in changes)


def _bill(when: str, changes: Sequence[BillChange]) -> Iterator[tuple[str, str, str]]:
    """What differs of it, and at which moment of each run."""
    least = _LEAST_CHANGE * max(_wholes(changes))
    told = []
    for one in changes:
        sizes = one.before_bytes, one.after_bytes
        if sizes != (None, None) and abs((sizes[1] or 0) - (sizes[0] or 0)) >= least:
            before, after = ("not measured" if size is None else format_bytes(size) for size in sizes)
            told.append((f"· {BILL_NAMES.get(one.account, one.account)}", before, after))
    if told and changes[0].before_s is not None and changes[0].after_s is not None:
        yield when, f"at {format_duration(changes[0].before_s)}", f"at {format_duration(changes[0].after_s)}"
    yield from told


def _command(side: Side) -> str:
    return shown(side.command) if side.command else "not known"


def _ended(side: Side) -> str:
    return ending(side.ended, side.exit_code, side.signal)


def _yes_no(side: Side) -> str:
    return {True: "yes", False: "no", None: "cannot tell"}[side.grows]


def clock_of(told: Comparison | History) -> tuple[str, float]:
    """``per minute`` and how many of an hour's bytes that is: all runs are told alike."""
    sides = [run.side for run in told.runs] if isinstance(told, History) else [told.before, told.after]
    return per_clock(max(side.duration_s for side in sides))


def growth(told: Comparison | History, side: Side, by_step: bool, *, bounds: bool = True) -> str:
    """``+265 MiB (260 to 270 MiB)`` per step or minute; without ``bounds`` the figure alone."""
    name, smallest, together = "hour", told.smallest_leak_bytes_per_hour, clock_of(told)[1]
    if by_step:
        name, smallest, together = "step", told.smallest_leak_bytes_per_step, steps_together(told.step_unit)
    value, low, high = (getattr(side, f"growth_bytes_per_{name}{end}") for end in ("", "_low", "_high"))
    text = rate(side.grows, (value, low, high), smallest, lambda size: format_bytes(size * together), "+")
    if not bounds or low is None or high is None or not text[1:2].isdigit():  # it is no figure
        return text
    (least, unit), (most, same) = (format_bytes(bound * together).split(" ") for bound in (low, high))
    return f"{text} ({least}{'' if unit == same else f' {unit}'} to {most} {same})"


def growths(comparison: Comparison) -> tuple[str, str]:
    """``+265 MiB per minute`` and ``at most 3.0 MiB``: of both, by time."""
    before, after = (growth(comparison, side, False, bounds=False) for side in (comparison.before, comparison.after))
    return f"{before} {clock_of(comparison)[0]}", after


def rate(
    grows: bool | None,
    known: tuple[float | None, float | None, float | None],
    smallest: float | None,
    said: Callable[[float], str],
    sign: str = "",
) -> str:
    """How fast a run grew, ``said`` with its unit: of what is ``known`` the figure, the least and the most.

    Of one that does not grow, drift is no figure: it would pass for a leak. So it is what it can have been at most, or
    less than the least difference that is told.
    """
    value, least, most = known
    if value is None or smallest is None:
        return "not known"
    if not grows and least is None and most is not None and value <= most:
        return f"at most {said(most)}"
    if not grows and value < smallest:
        return f"less than {said(smallest)}"
    if grows is False:
        return f"{NO_STEADY_GROWTH} ({said(value)} on average)"
    return f"{sign if value >= 0 else ''}{said(value)}"


def _workers(count: int, bytes_each: int) -> str:
    return f"{count} x {format_bytes(bytes_each)}" if count else "none"


def closing(comparison: Comparison) -> Iterator[str]:
    """The range, what it could not have shown, and what speaks against the verdict."""
    start, end = comparison.range_start, comparison.range_end
    if comparison.aligned_by == STEP:
        unit = comparison.step_unit
        over = f"{unit}s {format_count(start)} to {format_count(end)}, counted from each run's first"
        smallest = comparison.smallest_leak_bytes_per_step
        least = format_per_step(smallest or 0.0, unit)
    else:
        over = f"{format_duration(end - start)} in which both were busy, by time"
        smallest, (clock, share) = comparison.smallest_leak_bytes_per_hour, clock_of(comparison)
        least = f"{format_bytes((smallest or 0.0) * share)} {clock}"
    if end > start:
        yield f"Compared over {over}."
    if smallest is not None:
        yield f"A difference below {least} would not have been seen."
    if any(change.change in (ONLY_BEFORE, ONLY_AFTER) for change in comparison.findings):
        yield "Whether the other run has what was found in one run only was not seen."
    yield from (f"But: {doubt}." for doubt in comparison.doubts)


def names(history: History) -> list[str]:
    """``3 nightly.parquet``: the number of each run and its file, with its folder where files are called alike."""
    paths = [run.side.path for run in history.runs]
    short = [os.path.basename(path) for path in paths]
    shown = short if len(set(short)) == len(short) else paths
    return [f"{number} {name}" for number, name in enumerate(shown, 1)]


def history_headline(history: History) -> str:
    """``Worse since run 3 nightly.parquet: memory leaks now: …``."""
    since = f" since run {names(history)[history.since - 1]}" if history.since is not None else ""
    return f"{WORDS[history.verdict]}{since}: {history.reason}"


def history_table(history: History) -> tuple[list[str], list[list[str]]]:
    """The head, and a row for each run."""
    by_step, unit = history.aligned_by == STEP, history.step_unit
    heads = [
        "run",
        "against the first",
        "keeps growing",
        f"growth {per_step(unit) if by_step else clock_of(history)[0]}",
        "peak",
    ]
    found = []
    for name, run in zip(names(history), history.runs):
        verdict = WORDS[run.verdict] if run.verdict is not None else ""
        rate_text = growth(history, run.side, by_step)
        found.append([name, verdict, _yes_no(run.side), rate_text, format_bytes(run.side.peak_bytes)])
    return heads, found


def history_closing(history: History) -> Iterator[str]:
    """What could not have been seen, and what speaks against the verdict."""
    by_step = history.aligned_by == STEP
    smallest = history.smallest_leak_bytes_per_step if by_step else history.smallest_leak_bytes_per_hour
    if smallest is not None:
        clock, share = clock_of(history)
        least = f"{format_bytes(smallest * share)} {clock}"
        if by_step:
            least = format_per_step(smallest, history.step_unit)
        yield f"Between the first and the last a difference below {least} would not have been seen."
    yield from (f"But: {doubt}." for doubt in history.doubts)
