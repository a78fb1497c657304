"""Memory curves of programs, leaking and innocent, as a sampler sees them: seeded (time_s, value_bytes)."""

from __future__ import annotations

from typing import Callable

import numpy as np
from numpy.typing import NDArray

MiB = 1024**2
Floats = NDArray[np.float64]
Shape = Callable[[np.random.Generator, Floats, float], Floats]


def sampled(shape: Shape, seed: int, duration_s: float | None = None) -> tuple[Floats, Floats]:
    """One run of 15 to 60 seconds at 4 Hz, with imports at the start; the shape is in MiB on top of 60 MiB."""
    rng = np.random.default_rng(seed)
    length_s = duration_s or float(rng.choice([15, 20, 25, 35, 60]))
    t = np.sort(np.arange(0, length_s, 0.25) + rng.uniform(-0.02, 0.02, int(length_s * 4)))
    imports = rng.uniform(20, 300) * np.clip(t / rng.uniform(0.3, min(5.0, 0.1 * length_s)), 0, 1)
    return t, (60 + imports + shape(rng, t, length_s)) * MiB


def buffers(rng: np.random.Generator, t: Floats, high_mib: float = 25) -> Floats:
    """Memory that comes and goes with each batch, in one of four rhythms."""
    amount = rng.uniform(3, high_mib)
    rhythm = rng.integers(4)
    if rhythm == 0:
        return rng.normal(0, amount / 8, t.size)
    if rhythm == 1:
        return amount * (rng.random(t.size) < 0.3)
    if rhythm == 2:
        return amount * ((t / rng.uniform(0.5, 3)) % 1)
    return amount * ((t % rng.uniform(2, 6)) < 1)


# Leaks.


def ramp(rng, t, length_s):
    return rng.uniform(35, 600) * t / length_s + buffers(rng, t)


def one_jump_per_validation(rng, t, length_s):
    jumps = np.floor(t / length_s * rng.integers(4, 12) + rng.random() * 0.5)
    return rng.uniform(60, 120) * jumps + buffers(rng, t)


def leak_under_a_saw_tooth(rng, t, length_s):
    gained = rng.uniform(40, 300)
    return gained * t / length_s + rng.uniform(0.1, 0.5) * gained * ((t / rng.uniform(0.8, length_s / 6)) % 1)


def leak_after_a_large_beginning(rng, t, length_s):
    """What is loaded in the first third is most of the growth; it goes on all the same."""
    loaded = rng.uniform(150, 300) * np.clip(t / length_s / rng.uniform(0.2, 0.3), 0, 1)
    return loaded + rng.uniform(30, 60) * t / length_s


def stages_that_end(rng, t, length_s):
    """An ETL on a busy machine: a large first stage, a smaller one much later, and then work on what is there."""
    first = rng.uniform(200, 300) * np.clip(t / length_s / 0.42, 0, 1)
    second = rng.uniform(30, 40) * np.clip((t / length_s - 0.6) / 0.16, 0, 1)
    return 150 + first + second


def leak_that_starts_late(rng, t, length_s):
    return rng.uniform(60, 400) * np.clip(t / length_s - 0.3, 0, 1) + buffers(rng, t)


def leak_that_slows_a_little(rng, t, length_s):
    return rng.uniform(60, 400) * np.sqrt(np.clip(t, 0, None) / length_s) + buffers(rng, t)


def leak_under_peaks_that_grow_with_it(rng, t, length_s):
    """What is kept is copied now and then to add to it: twice its size for a moment, and the copies come later on."""
    gained = rng.uniform(80, 300) * t / length_s
    return gained * (1 + rng.uniform(0.5, 1) * (rng.random(t.size) < 0.3 * t / length_s))


def leak_then_shutdown(rng, t, length_s):
    curve = ramp(rng, t, length_s)
    curve[-rng.integers(1, 3) :] -= rng.uniform(0.3, 0.9) * curve.max()
    return curve


# Innocents.


def flat(rng, t, length_s):
    return buffers(rng, t)


def large_buffers(rng, t, length_s):
    return buffers(rng, t, high_mib=150)


def cache_that_fills(rng, t, length_s):
    return rng.uniform(50, 600) * np.clip(t / length_s / rng.uniform(0.2, 0.65), 0, 1) + buffers(rng, t, high_mib=10)


def slow_plateau(rng, t, length_s):
    return rng.uniform(50, 600) * (1 - np.exp(-t / length_s / rng.uniform(0.05, 0.3))) + buffers(rng, t, high_mib=4)


def store_that_fills_and_drifts(rng, t, length_s):
    """Full after a third of the run; then a few hundred KiB now and again, as entries of another size replace old."""
    full_s = rng.uniform(0.3, 0.4) * length_s
    later = rng.uniform(0.3, 0.5) * np.floor(np.clip(t - full_s, 0, None) / (length_s / 12))
    return rng.uniform(25, 40) * np.clip(t / full_s, 0, 1) + later


def one_time_load(rng, t, length_s):
    at_s, takes_s = rng.uniform(0.15, 0.9) * length_s, rng.uniform(0.05, 1.5)
    return rng.uniform(50, 600) * np.clip((t - at_s) / takes_s, 0, 1) + buffers(rng, t)


def two_loads(rng, t, length_s):
    curve = buffers(rng, t)
    for at_s in rng.uniform(0.15, 0.9, 2) * length_s:
        curve = curve + rng.uniform(50, 300) * np.clip((t - at_s) / 0.3, 0, 1)
    return curve


def buffer_cleared_each_epoch(rng, t, length_s):
    epochs = t / length_s * rng.integers(2, 12)  # whole epochs: the run ends with a full buffer
    heights = rng.uniform(40, 400) * (1 + rng.uniform(0, 0.1) * rng.standard_normal(40))
    return (epochs % 1) * heights[np.floor(epochs).astype(int)] + rng.normal(0, 1, t.size)


def evaluation_peaks(rng, t, length_s):
    phase = (t / length_s * rng.integers(2, 6) + rng.random()) % 1
    return rng.uniform(50, 500) * np.clip((phase - 0.7) / 0.3, 0, 1) + buffers(rng, t)


def cache_that_fills_then_peaks(rng, t, length_s):
    """Work begins in earnest once the cache is there."""
    full = rng.uniform(0.35, 0.55) * length_s
    peaks = rng.uniform(60, 200) * (rng.random(t.size) < 0.3) * (t > full)
    return rng.uniform(60, 200) * np.clip(t / full, 0, 1) + peaks


def requests_that_come_and_go(rng, t, length_s):
    curve = np.zeros(t.size)
    for _ in range(rng.integers(10, 60)):
        born_s, lives_s = rng.uniform(-0.3, 1) * length_s, rng.exponential(0.1 * length_s)
        curve += rng.uniform(1, 20) * ((t > born_s) & (t < born_s + lives_s))
    return curve


def tops_of_a_fragmenting_heap(rng, t, length_s):
    """Chunks of one size, of which the allocator gives back less each time: floors rise to where the tops have been."""
    period_s = rng.uniform(1.4, length_s / 7)
    height, low = rng.uniform(30, 200), rng.uniform(0.2, 0.5)
    phase = (t + rng.uniform(0, period_s)) % period_s / period_s
    floor = height * (1 - (1 - low) * np.exp(-2.0 * t / length_s))
    return np.maximum(floor, height * phase) + rng.normal(0, 0.01 * height, t.size)


def driftless_walk(phi: float) -> Shape:
    """AR(1) around a level, 5 to 40 MiB wide: what plain Mann-Kendall takes for a trend."""

    def shape(rng, t, length_s):
        walk = np.zeros(t.size)
        for i, push in enumerate(rng.standard_normal(t.size - 1), 1):
            walk[i] = phi * walk[i - 1] + push
        return 200 + rng.uniform(5, 40) * walk * np.sqrt(1 - phi**2)

    return shape


LEAKS = (
    ramp,
    one_jump_per_validation,
    leak_under_a_saw_tooth,
    leak_after_a_large_beginning,
    leak_that_starts_late,
    leak_that_slows_a_little,
    leak_under_peaks_that_grow_with_it,
    leak_then_shutdown,
)
INNOCENTS = (
    store_that_fills_and_drifts,
    flat,
    large_buffers,
    cache_that_fills,
    slow_plateau,
    one_time_load,
    two_loads,
    buffer_cleared_each_epoch,
    evaluation_peaks,
    cache_that_fills_then_peaks,
    requests_that_come_and_go,
)
# Of resident memory alone: what is allocated, on a device too, has no free memory between it.
RESIDENT_INNOCENTS = (*INNOCENTS, tops_of_a_fragmenting_heap)
