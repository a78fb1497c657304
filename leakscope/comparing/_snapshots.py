"""Better or worse by memory snapshots of torch, where a recording has nothing else: what steps leave, then the peak."""

from __future__ import annotations

from collections import Counter

from ..findings import Report
from ..units import MiB, format_bytes
from ._comparison import BETTER, CANNOT_TELL, SAME, WORSE

_RETENTION = "gpu-retention"
_FREE = ("cached", "fragmented", "rounding")
_LEAST_BYTES = 16 * MiB
_LEAST_SHARE = 0.05  # of the larger peak: two runs of one program have the same, byte by byte
_LEAK_CHANGE = 0.25  # of the leak


def by_snapshots(before: Report, after: Report) -> tuple[str, str] | None:
    """(verdict, reason); None where not both have snapshots."""
    if not (before.gpu_lines and after.gpu_lines):
        return None
    leaks = _per_step(before), _per_step(after)
    if any(leaks):
        return _by_leak(*leaks, after)
    peaks = _peak(before), _peak(after)
    saved = peaks[0] - peaks[1]
    levels = f"{format_bytes(peaks[0])} before, {format_bytes(peaks[1])} after"
    if abs(saved) < max(_LEAST_BYTES, _LEAST_SHARE * max(peaks)):
        return SAME, f"the peak on the GPU is alike: {levels}"
    way = "lower" if saved > 0 else "higher"
    return (
        BETTER if saved > 0 else WORSE
    ), f"the peak on the GPU is {way}: {levels}{_most_changed(before, after, saved)}"


def _by_leak(before: float, after: float, newer: Report) -> tuple[str, str]:
    if before and not after:
        if newer.verdict.leaking is None:
            return (
                CANNOT_TELL,
                f"steps left memory on the GPU before, and after it shows no steps: {newer.verdict.headline}",
            )
        return BETTER, f"steps no longer leave memory on the GPU; {format_bytes(before)} per step before"
    rates = f"{format_bytes(before)} per step before, {format_bytes(after)} after"
    if abs(after - before) <= _LEAK_CHANGE * max(before, after):
        return SAME, f"steps still leave memory on the GPU: {rates}"
    if after < before:
        return BETTER, f"steps leave less memory on the GPU, but still some: {rates}"
    return WORSE, f"steps leave {'more' if before else 'now'} memory on the GPU: {rates}"


def _per_step(report: Report) -> float:
    return sum(f.bytes_per_step or 0.0 for f in report.findings if f.kind == _RETENTION)


def _peak(report: Report) -> int:
    """Of the fullest device what was in use at its peak, or at a snapshot without a history."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in report.tensor_budget:
        if row.account not in _FREE:
            sums[row.process, row.device, row.moment] += row.bytes
    peaks = [size for (_, _, moment), size in sums.items() if moment == "snapshot-peak"]
    return max(peaks or sums.values(), default=0)


def _most_changed(before: Report, after: Report, saved: int) -> str:
    """The function whose memory at the peak changed most in that direction, as the end of a sentence."""
    changes: Counter[tuple[str, str]] = Counter()
    for report, sign in ((after, 1), (before, -1)):
        for line in report.gpu_lines:
            file = (line.file or line.place).rsplit("/", 1)[-1]
            changes[f"{line.function}() of {file}" if line.function else file, line.account] += sign * line.peak_bytes
    choose = min if saved > 0 else max
    (where, account), change = choose(changes.items(), key=lambda pair: pair[1])
    return f"; most at {where}: {format_bytes(change, signed=True)} ({account})" if change else ""
