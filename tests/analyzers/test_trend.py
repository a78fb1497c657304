"""The trend: finds leaks under noise, takes no innocent for one, and its arithmetic is scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.facts.series import arithmetic
from leakscope.facts.series.arithmetic import retained, slope_interval, theil_sen
from leakscope.facts.series.trend import CANNOT_TELL, FLAT, GROWING, judge, least_shown

from ..late import pymannkendall, stats
from ..sentences import says
from . import curves
from .curves import MiB

SEEDS = range(30)


def verdicts(shape):
    return [judge(*curves.sampled(shape, seed)).verdict for seed in SEEDS]


@pytest.mark.cases(2)
@pytest.mark.parametrize("shape", curves.LEAKS, ids=lambda s: s.__name__)
def test_leaks_are_found(shape):
    found = verdicts(shape).count(GROWING)
    assert found >= 0.9 * len(SEEDS)


@pytest.mark.cases(2)
@pytest.mark.parametrize("shape", curves.RESIDENT_INNOCENTS, ids=lambda s: s.__name__)
def test_innocents_raise_no_alarm(shape):
    words = verdicts(shape)
    assert words.count(GROWING) <= 0.04 * len(SEEDS)
    assert words.count(FLAT) >= 0.8 * len(SEEDS)  # "cannot tell" is no way out


def test_stages_that_are_over_are_not_called_a_leak():
    """There may be a third one: that unclear is right, too."""
    runs = [curves.sampled(curves.stages_that_end, seed, duration_s=60) for seed in SEEDS]
    assert GROWING not in {judge(*run).verdict for run in runs}


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.95])
def test_driftless_walks_are_no_trend(phi):
    shape = curves.driftless_walk(phi)
    assert verdicts(shape).count(GROWING) <= 0.05 * len(SEEDS)


@pytest.mark.further
def test_mann_kendall_would_raise_that_alarm():
    """The reason for all this: the usual test sees a trend in most of the same walks."""
    shape = curves.driftless_walk(0.95)
    alarms = [pymannkendall.original_test(curves.sampled(shape, seed)[1][20:]).trend for seed in range(20)]
    assert alarms.count("no trend") < 10


@pytest.mark.parametrize("hours", [1, 24])
def test_a_day_is_judged_like_a_minute(hours):
    t = np.arange(0, hours * 3600, 1.0)
    rng = np.random.default_rng(1)
    noise = 2000 + 40 * rng.random(t.size)
    assert judge(t, (noise + 500 * t / t[-1]) * MiB).verdict == GROWING
    assert judge(t, noise * MiB).verdict == FLAT
    saw = 300 * ((t / 180) % 1)
    assert judge(t, (noise + saw) * MiB).verdict == FLAT
    leak = judge(t, (noise + saw + 500 * t / t[-1]) * MiB)
    assert leak.verdict == GROWING
    assert leak.growth_bytes == pytest.approx(0.85 * 500 * MiB, rel=0.2)


def test_sampling_that_slows_down_is_no_slowing_growth():
    t = np.concatenate([np.arange(0, 60, 0.25), np.arange(60, 300, 1.0)])
    trend = judge(t, (100 + t) * MiB)
    assert trend.verdict == GROWING
    assert trend.slope_per_s == pytest.approx(MiB, rel=0.01)


def test_growth_and_slope_are_those_of_the_judged_window():
    t = np.arange(0, 20, 0.25)
    trend = judge(t, (50 + 10 * t) * MiB)
    assert trend.verdict == GROWING
    assert trend.start_s == pytest.approx(3.0, abs=0.5)  # 15 % of warm-up
    assert trend.growth_bytes == pytest.approx(10 * MiB * (trend.end_s - trend.start_s), rel=0.1)
    assert trend.slope_low <= 10 * MiB <= trend.slope_high * 1.0001


def test_a_step_is_named_with_its_time():
    t = np.arange(0, 20, 0.25)
    trend = judge(t, np.where(t < 12, 100, 400) * MiB)
    assert trend.verdict == FLAT
    assert says(trend.reason, "once", "300 MiB at 12 s")


def test_a_step_at_the_very_end_of_a_growth_that_fades_may_be_more_of_it():
    t = np.arange(0, 24, 0.25)
    fades = 100 + 400 * (1 - np.exp(-t / 5.5))
    assert judge(t, fades * MiB).verdict == FLAT
    again = judge(t, np.where(t < 21.5, fades, fades + 120) * MiB)
    assert again.verdict == CANNOT_TELL
    assert "coming to an end" in again.reason and "MiB at 22 s" in again.reason
    settled = judge(t, np.where(t < 21.5, np.minimum(fades, 400), 430) * MiB)
    assert settled.verdict == FLAT
    early = judge(t, np.where(t < 12, fades, fades + 120) * MiB)
    assert early.verdict == FLAT


@pytest.mark.parametrize(
    ("first", "verdict"),
    [((20.0, 50), CANNOT_TELL), ((54.0, 50), FLAT), ((20.0, 15), FLAT), (None, FLAT)],
    ids=["it came before", "at once with it", "a smaller one came before", "it is the only one"],
)
def test_a_step_at_the_very_end_may_come_again_where_one_like_it_came_before(first, verdict):
    t = np.arange(0, 60, 0.25)
    y = (100 + 50 * (t >= 56)) * MiB
    if first is not None:
        at_s, size = first
        y = y + size * (t >= at_s) * MiB
    assert judge(t, y).verdict == verdict


def test_a_leak_beside_a_large_step_is_seen():
    t = np.arange(0, 30, 0.25)
    assert judge(t, (np.where(t < 12, 100, 500) + 5 * t) * MiB).verdict == GROWING


def test_of_a_fast_start_that_ends_in_a_step_the_growth_after_that_is_told():
    """An engine loads for two minutes, reserves a gigabyte at once, and then keeps a little of each request."""
    t = np.arange(0, 180, 1.0)
    loads, serves = np.minimum(t, 115) * 10, np.maximum(t - 115, 0) * 5
    trend = judge(t, (100 + loads + 1024 * (t >= 115) + serves) * MiB)
    assert (trend.verdict, trend.growth_bytes / MiB) == (GROWING, pytest.approx(5 * 64, rel=0.2))
    assert trend.start_s == pytest.approx(115, abs=8) and trend.end_s > 170


def test_a_last_full_tooth_is_no_leak():
    t = np.arange(0, 24, 0.25)
    trend = judge(t, (20 + 100 * (t % 8) / 8) * MiB)
    assert trend.verdict == FLAT
    assert says(trend.reason, "2 times", "96.9 MiB")


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([], "no memory samples"),
        ([1.0], "too short: 0 s recorded; about 11 s are needed"),
        (np.arange(0, 9, 0.25), "too short: 9 s recorded"),
        (np.arange(0, 60, 10.0), "too few samples: 5 after the warm-up; about 2 min 40 s are needed"),
    ],
)
def test_too_little_to_tell(times, reason):
    t = np.asarray(times, dtype=float)
    trend = judge(t, 1e8 + 1e7 * t)
    assert trend.verdict == CANNOT_TELL
    assert trend.reason.startswith(reason)


def test_order_and_gaps_do_not_matter():
    t, y = curves.sampled(curves.ramp, 3)
    shuffled = np.random.default_rng(0).permutation(t.size)
    holes = y.copy()
    holes[::7] = np.nan
    assert judge(t[shuffled], y[shuffled]) == judge(t, y)
    assert judge(t, holes).verdict == GROWING


def test_two_looks_give_the_same_answer():
    t, y = curves.sampled(curves.leak_under_a_saw_tooth, 5)
    assert judge(t, y) == judge(t, y)


series = st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=40)


@pytest.mark.further
@given(series)
def test_theil_sen_is_scipys(values):
    t, y = np.arange(len(values), dtype=float), np.array(values)
    slope, intercept = theil_sen(t, y)
    expected = stats.theilslopes(y, t)
    assert slope == pytest.approx(expected.slope, rel=1e-9, abs=1e-3)
    assert intercept == pytest.approx(expected.intercept, rel=1e-9, abs=1e-2)


@given(series)
@settings(max_examples=30)
def test_the_interval_holds_the_slope_of_a_straight_line(values):
    t = np.arange(40, dtype=float)
    slope, low, high, noise = slope_interval(t, 7 * t + values[0])
    assert low == pytest.approx(7, abs=1e-2) and high == pytest.approx(7, abs=1e-2)
    assert slope == pytest.approx(7, abs=1e-2) and noise <= 1e-2


@given(series)
def test_what_is_retained_only_rises_and_is_never_more_than_there_is(values):
    y = np.array(values)
    kept = retained(y)
    assert (np.diff(kept) >= 0).all()
    assert (kept <= y).all() and kept[-1] == y[-1]


@given(st.lists(st.floats(0, 1e13), max_size=60), st.floats(0.01, 100))
@settings(max_examples=60)
def test_any_series_gets_a_verdict(values, distance_s):
    trend = judge(np.arange(len(values)) * distance_s, np.array(values))
    assert trend.verdict in (GROWING, FLAT, CANNOT_TELL)
    assert trend.reason and trend.growth_bytes >= 0


def test_what_comes_before_the_work_began_is_no_growth():
    """A slow import of 9 s, then training whose buffers come and go: on a busy machine that looks like growth."""
    t = np.arange(0, 24, 0.25)
    y = (60 + 400 * np.clip(t / 9, 0, 1) + 12 * ((t % 1.5) < 0.5)) * MiB
    assert judge(t, y, started_s=9.0).start_s > 9.0
    assert judge(t, y, started_s=9.0).verdict == FLAT


def test_a_job_that_only_begins_to_work_at_its_end_is_judged_on_all_of_it():
    t = np.arange(0, 100, 0.5)
    assert judge(t, (100 + 5 * t) * MiB, started_s=90.0).start_s < 20


def test_what_is_loaded_for_most_of_the_run_before_the_first_step_is_no_growth():
    """A data set that takes two thirds of a short run to load, and then training that keeps nothing."""
    t = np.arange(0, 105, 0.25)
    y = (100 + 4 * np.minimum(t, 65) + 3 * ((t % 1.5) < 0.5)) * MiB
    trend = judge(t, y, started_s=69.0)
    assert trend.verdict == FLAT and trend.start_s > 69


@pytest.mark.parametrize(("per_s_at_work", "verdict"), [(0.5, CANNOT_TELL), (5.0, GROWING)])
def test_imports_that_take_most_of_the_run_are_not_taken_for_a_leak(per_s_at_work, verdict):
    """A busy machine: the first training step comes after 20 s of 26, and the run is over before much is known."""
    t = np.arange(0, 26, 0.25)
    y = (60 + 8 * np.minimum(t, 20) + per_s_at_work * np.clip(t - 20, 0, None)) * MiB
    trend = judge(t, y, started_s=20.0)
    assert trend.verdict == verdict
    assert "before the first training step" in trend.reason or verdict == GROWING


def test_two_rises_with_a_long_rest_between_them_do_not_tell():
    t = np.arange(0, 20, 0.25)
    y = (200 + 12 * np.clip(t - 3, 0, 3) + 6 * np.clip(t - 14, 0, 2)) * MiB
    assert judge(t, y).verdict == CANNOT_TELL


@pytest.mark.parametrize("teardown_samples", [1, 4, 8])
def test_a_slow_shutdown_does_not_hide_a_leak(teardown_samples):
    t = np.arange(0, 16, 0.25)
    y = 20 + 11 * t
    y[-teardown_samples:] = np.linspace(0.9, 0.2, teardown_samples) * y[-teardown_samples - 1]
    trend = judge(t, y * MiB)
    assert trend.verdict == GROWING and trend.end_s <= t[-teardown_samples]


def test_memory_that_was_given_back_before_the_end_is_no_leak():
    t = np.arange(0, 16, 0.25)
    y = 20 + 11 * t
    y[-8:] = 20.0
    assert judge(t, y * MiB).verdict != GROWING


def test_samples_that_come_late_are_no_steps():
    """As on a machine that swaps: a steady rise, looked at whenever there was a turn."""
    words = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        t = np.cumsum(rng.exponential(0.7, 40))
        words.append(judge(t, 15 * MiB * t + rng.normal(0, MiB, t.size)).verdict)
    assert words.count(GROWING) >= 0.9 * len(SEEDS)
    assert FLAT not in words


def test_what_a_copy_takes_or_gives_back_for_a_moment_is_no_level():
    """A table that grows by being copied: a third of it is gone for two samples, here and there, or there twice."""
    words = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        t = np.arange(0, 33, 0.25)
        y = 110 + 2.2 * t + rng.normal(0, 1.5, t.size)
        for at in rng.choice(range(4, t.size - 4, 6), 8, replace=False):
            y[at : at + 2] += rng.choice([-35.0, 25.0])
        words.append(judge(t, y * MiB).verdict)
    assert words.count(GROWING) >= 0.9 * len(SEEDS)


def test_a_peak_just_before_a_program_ends_is_no_step():
    """The fall back from it is not the first of the program's taking itself down, and what it rose by is no growth."""
    t = np.arange(0, 60, 0.5)
    y = np.full(t.size, 540.0)
    y[-3:] = 600.0, 540.0, 410.0
    trend = judge(t, y * MiB)
    assert trend.verdict == FLAT and "step" not in trend.reason
    assert trend.growth_bytes < MiB and trend.end_s == t[-2]


def test_moments_alone_are_no_growth():
    words = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        t = np.arange(0, 33, 0.25)
        y = 110 + rng.normal(0, 1.5, t.size)
        for at in rng.choice(range(4, t.size - 4, 6), 12, replace=False):
            y[at : at + 2] += 4.0 * t[at]
        words.append(judge(t, y * MiB).verdict)
    assert words.count(FLAT) >= 0.9 * len(SEEDS)


def test_a_leak_goes_on_where_samples_become_rare():
    """A starved recorder saw a program start up four times a second, and its workers leak once in three seconds."""
    early_s = np.arange(0, 62, 0.25)
    late_s = np.array([62.4, 77.5, 78.5, 81.3, 83.8, 87.3, 88.5, 90.9, 93.6, 96.4])
    early = np.interp(early_s, [0, 15, 40, 62], [3, 96, 290, 314])
    late = np.array([485, 485, 497, 527, 550, 563, 575, 589, 632, 653])
    level = MiB * np.concatenate([early, late]).astype(float)
    assert judge(np.concatenate([early_s, late_s]), level).verdict == GROWING


@pytest.mark.parametrize("seed", range(10))
def test_what_stands_where_samples_are_rare_is_no_leak(seed):
    random = np.random.default_rng(seed)
    t = np.concatenate([np.arange(0, 40, 0.25), np.arange(40, 80, 3.0)])
    level = 100 * MiB + 3 * MiB * np.minimum(t, 40) + random.normal(0, MiB, t.size)
    assert judge(t, level).verdict != GROWING


def started(begun_s, duration_s=60.0):
    """Times of a run whose interpreter needed ``begun_s`` to start, and its memory until then."""
    t = np.arange(0, duration_s, 0.25)
    return t, 4 + 5 * np.clip(t / begun_s, 0, 1)


def test_an_interpreter_that_starts_slowly_hides_no_leak():
    """Half of the run on a busy machine: beside the level of that half, the leak looks like one step."""
    t, y = started(30.0)
    y = (y + 0.7 * np.clip(t - 30, 0, None)) * MiB
    trend = judge(t, y, begun_s=30.0)
    assert trend.verdict == GROWING and trend.start_s > 30


def test_what_an_interpreter_takes_to_start_is_no_growth():
    t, y = started(30.0)
    y = (y * 4 + 0.2 * np.random.default_rng(0).random(t.size)) * MiB
    assert judge(t, y, begun_s=30.0).verdict == FLAT


def test_a_start_after_which_too_little_came_is_judged_with_it():
    t, y = started(55.0)
    assert judge(t, y * MiB, begun_s=55.0).start_s < 15


@pytest.mark.parametrize(("each_mib", "verdict"), [(4, FLAT), (20, CANNOT_TELL)])
def test_a_few_floors_that_rise_by_little_of_a_tooth_may_do_so_by_chance(each_mib, verdict):
    """A batch of 200 MiB is freed every 10 s; where in that the samples meet it differs a little."""
    t = np.arange(0, 60, 0.25)
    y = (100 + each_mib * np.floor(t / 10) + 200 * (t % 10) / 10) * MiB
    assert judge(t, y).verdict == verdict


def test_a_copy_of_everything_at_the_end_is_no_growth():
    """What a program joined, and wrote, and let go of, as it ended."""
    t = np.arange(0, 60, 0.25)
    y = np.full(t.size, 40.0) + np.random.default_rng(0).normal(0, 0.3, t.size)
    at = t >= 55
    y[at] = np.interp(t[at], [55, 58, 58.5, 59.75], [40, 95, 95, 10])
    trend = judge(t, y * MiB)
    assert trend.verdict == FLAT and trend.end_s <= 57 and trend.growth_bytes < 5 * MiB


def test_a_leak_that_is_let_go_of_at_the_end_is_one_all_the_same():
    t = np.arange(0, 60, 0.25)
    y = 40 + 1.5 * t
    y[t >= 59] = 12.0
    trend = judge(t, y * MiB)
    assert trend.verdict == GROWING and trend.end_s > 57


def test_a_slow_rise_without_a_pause_is_not_called_flat():
    t = np.arange(0, 40, 0.25)
    trend = judge(t, (20 + 0.33 * t) * MiB)
    assert trend.verdict == CANNOT_TELL and "without a pause" in trend.reason


@pytest.mark.parametrize(("gained_mib", "verdict"), [(9, CANNOT_TELL), (5, CANNOT_TELL), (2, FLAT)])
def test_a_rise_of_nearly_what_counts_is_not_called_flat_if_it_never_pauses(gained_mib, verdict):
    t = np.arange(0.0, 26.0, 0.25)
    trend = judge(t, (11 + gained_mib * t / 21) * MiB)
    assert trend.verdict == verdict


def test_what_begins_to_grow_late_and_goes_on_is_not_called_over():
    """A data set that is built for two thirds of the run, and then work that keeps all it reads."""
    t = np.arange(0, 100, 0.5)
    late = judge(t, (14 + 2 * np.clip(t - 70, 0, None)) * MiB)
    assert late.verdict == CANNOT_TELL and "towards its end" in late.reason
    assert judge(t, (14 + 2 * np.clip(t - 70, 0, 15)) * MiB).verdict != GROWING


def test_a_slow_start_of_an_interpreter_takes_no_growth_away():
    """After it too little came to be judged by itself, which was growth before anybody knew of the start."""
    t, y = started(20.0, 50.0)
    y = (y + 0.35 * np.clip(t - 8, 0, None)) * MiB
    assert judge(t, y).verdict == judge(t, y, begun_s=20.0).verdict == GROWING


@pytest.mark.parametrize("beside", [2, 1, 3, 0, 10**9])
def test_a_blip_is_no_level_whatever_counts_as_around_it(monkeypatch, beside):
    """The sweep of tests/golden changes that number, to any other."""
    monkeypatch.setattr(arithmetic, "_BESIDE", beside)
    y = np.full(30, 10.0)
    y[12] = 90.0
    left = arithmetic.without_blips(y)
    assert left.size == y.size
    assert (left.max() < 90.0) == (1 <= beside <= 3)


STEADY = [shape for shape in curves.LEAKS if shape is not curves.leak_then_shutdown]  # a fall is seen beside a level


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*STEADY, *curves.INNOCENTS]),
    st.integers(0, 10_000),
    st.sampled_from([None, 300.0]),
    st.integers(1, 100),
)
def test_the_level_on_which_it_happens_changes_no_verdict(shape, seed, duration_s, level_gib):
    t, y = curves.sampled(shape, seed, duration_s)
    grows = judge(t, y).verdict == GROWING
    assert (judge(t, y + level_gib * 1024 * MiB).verdict == GROWING) == grows


@settings(max_examples=30, deadline=None)
@given(st.floats(1.5, 50), st.integers(600, 3600), st.integers(0, 60_000))
def test_a_straight_line_is_seen_whatever_the_process_holds(per_minute_mib, lasted_s, level_mib):
    t = np.arange(0.0, lasted_s, 2.0)
    assert judge(t, (level_mib + per_minute_mib * t / 60) * MiB).verdict == GROWING


def with_a_late_leak(per_minute_mib=8.0, from_s=480.0, until_s=720.0):
    """Loading for 40 s, a level with a checkpoint of 80 MiB each minute, then a leak."""
    t = np.arange(0.0, until_s, 1.0)
    loaded = 1000 * np.clip(t / 40, 0, 1) + 80 * (t % 60 < 2)
    return t, (loaded + per_minute_mib * np.clip(t - from_s, 0, None) / 60) * MiB


def test_a_leak_that_began_late_is_seen_four_minutes_later_with_its_beginning():
    trend = judge(*with_a_late_leak())
    assert trend.verdict == GROWING
    assert 480 <= trend.start_s <= 600 and says(trend.reason, "since")
    assert trend.slope_per_s * 60 == pytest.approx(8 * MiB, rel=0.1)
    assert judge(*with_a_late_leak(per_minute_mib=0.0)).verdict == FLAT


def test_what_was_loaded_before_hides_no_leak():
    t = np.arange(0.0, 300.0, 1.0)
    y = 6000 * np.clip(t / 75, 0, 1) + 4.1 * np.clip(t - 75, 0, None) / 60
    assert judge(t, y * MiB).verdict == GROWING
    assert judge(t, 6000 * np.clip(t / 75, 0, 1) * MiB).verdict == FLAT


@pytest.mark.parametrize("time_constant", [0.1, 0.2, 0.3, 0.4])
def test_the_end_of_a_rise_that_approaches_a_level_is_no_straight_line(time_constant):
    """Looked at closely enough it is; what came before tells."""
    t = np.arange(0.0, 1200.0, 2.0)
    assert judge(t, (100 + 600 * (1 - np.exp(-t / 1200 / time_constant))) * MiB).verdict != GROWING


def test_the_last_of_a_few_long_teeth_is_no_late_leak():
    """Two epochs; the run ends with a full buffer."""
    t = np.arange(0.0, 600.0, 1.0)
    assert judge(t, (200 + 300 * (t / 300 % 1)) * MiB).verdict != GROWING


@pytest.mark.parametrize("shape", [curves.flat, curves.one_time_load, curves.store_that_fills_and_drifts])
def test_what_would_have_shown_does(shape):
    shown = 0
    for seed in range(20):
        t, y = curves.sampled(shape, seed, 60.0)
        trend = judge(t, y)
        assert trend.verdict == FLAT
        shown += judge(t, y + least_shown(trend, t, y) * t).verdict == GROWING
    assert shown >= 18


@pytest.mark.parametrize("lasted_s", [192, 198, 204])
def test_what_stands_for_a_fifth_of_the_run_is_not_said_to_be_growing_still(lasted_s):
    """Workers that load on a busy machine, now slowly and now fast, until 157 s, and serve from then on."""
    t = np.arange(0, lasted_s, 0.5)
    held = np.interp(t, [0, 32, 44, 64, 105, 126, 157], [20, 263, 399, 469, 555, 649, 808])
    assert judge(t, held * MiB).verdict != GROWING


def test_growth_in_bursts_that_ends_in_a_pause_like_those_before_is_growth():
    t = np.arange(0, 120, 0.5)
    assert judge(t, (60 + 60 * np.floor((t + 2) / 20)) * MiB).verdict == GROWING


def test_what_leaks_is_hardly_ever_called_flat_since_few_samples_were_taken():
    """A stretch that spans a hole in them rises more than the others, by itself: nothing comes and goes."""
    words = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        t = np.cumsum(rng.pareto(1.2, 40) + 0.2)
        words.append(judge(t, (30 + 2 * t + rng.normal(0, 1, t.size)) * MiB).verdict)
    assert words.count(FLAT) <= 1


@pytest.mark.parametrize("seed", [101, 134])
def test_a_job_that_was_stopped_for_most_of_the_recording_gets_a_verdict(seed):
    rng = np.random.default_rng(seed)
    stopped, before, after = rng.uniform(0.5, 0.7), rng.integers(14, 30), rng.integers(8, 20)
    t = 90 * np.concatenate([np.sort(rng.uniform(0, 0.4, before)), np.sort(rng.uniform(0.4 + 0.6 * stopped, 1, after))])
    assert judge(t, (30 + t + rng.normal(0, 1, t.size)) * MiB).verdict != FLAT
