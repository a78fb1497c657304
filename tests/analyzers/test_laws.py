"""Laws of the judge: what changes nothing about a leak changes no verdict, and more of it makes none smaller."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.facts.growth.tree import tree_growth
from leakscope.facts.series.trend import FLAT, GROWING, judge
from leakscope.recorder.figures import Course

from ..builders import RecordingBuilder
from . import curves
from .curves import MiB

GiB = 1024 * MiB
SHAPES = (*curves.LEAKS, *curves.RESIDENT_INNOCENTS)
seeds = st.integers(0, 10_000)
SEEDS = range(30)


def run(shape, seed):
    """Whole bytes, as files have them: adding a constant then changes no digit."""
    t, y = curves.sampled(shape, seed)
    return t, np.rint(y)


@given(st.sampled_from(SHAPES), seeds, st.sampled_from([1, 10, 64]))
@settings(max_examples=60)
def test_how_much_a_process_holds_changes_no_verdict(shape, seed, gib):
    t, y = run(shape, seed)
    assert judge(t, y + gib * GiB).verdict == judge(t, y).verdict


@given(st.sampled_from(SHAPES), seeds, st.floats(1, 30))
@settings(max_examples=60)
def test_a_slower_clock_changes_no_verdict(shape, seed, slower):
    t, y = run(shape, seed)
    assert {judge(t * slower, y).verdict, judge(t, y).verdict} != {FLAT, GROWING}


@given(st.sampled_from(curves.RESIDENT_INNOCENTS), seeds, st.floats(20, 200), st.floats(1, 6))
@settings(max_examples=60)
def test_more_of_the_same_leak_is_no_less_of_one(shape, seed, mib, times):
    t, y = run(shape, seed)
    leaked = mib * MiB * t / t[-1]
    if judge(t, y + leaked).verdict == GROWING:
        assert judge(t, y + times * leaked).verdict != FLAT


@given(seeds, st.floats(2, 20), st.floats(30, 300), st.floats(40, 200))
@settings(max_examples=60)
def test_what_was_loaded_first_changes_no_rate_of_a_leak(seed, loaded_s, loaded_mib, mib_per_min):
    """Its window begins where it begins: no step of a training tells."""
    t = np.arange(0, 60, 0.25)
    loaded = loaded_mib * np.clip(t / loaded_s, 0, 1)
    leaked = mib_per_min / 60 * np.clip(t - loaded_s, 0, None)
    trend = judge(t, (20 + loaded + leaked + np.random.default_rng(seed).normal(0, 0.2, t.size)) * MiB)
    if trend.verdict == GROWING:
        rate = trend.growth_bytes / (trend.end_s - trend.start_s) / MiB * 60
        assert rate == pytest.approx(mib_per_min, rel=0.25)


@given(st.sampled_from(SHAPES), seeds, st.floats(0.25, 4))
@settings(max_examples=60)
def test_a_longer_rest_makes_no_leak(shape, seed, times):
    t, y = run(shape, seed)
    if judge(t, y).verdict == FLAT:
        rest = np.arange(1, times * t.size) * 0.25
        level = np.median(y[-max(4, t.size // 10) :])
        longer_s, longer = np.concatenate([t, t[-1] + rest]), np.concatenate([y, np.full(rest.size, level)])
        assert judge(longer_s, longer).verdict != GROWING


@pytest.mark.parametrize(("shape", "seed"), [(curves.ramp, 51), (curves.leak_that_slows_a_little, 144)])
def test_half_the_samples_turn_no_verdict_round(shape, seed):
    assert not turned_by_half_the_samples(shape, seed)


def test_half_the_samples_turn_hardly_any_verdict_round():
    """Half of them may miss a tooth, or what tells two loads from growth: of a hundred series in one at most."""
    turned = [
        (shape.__name__, seed) for shape in SHAPES for seed in range(30) if turned_by_half_the_samples(shape, seed)
    ]
    assert len(turned) <= 0.01 * len(SEEDS) * len(SHAPES), turned


def turned_by_half_the_samples(shape, seed):
    t, y = run(shape, seed)
    return {judge(t[::2], y[::2]).verdict, judge(t, y).verdict} == {FLAT, GROWING}


def test_a_hole_in_the_samples_is_no_step_of_a_leak():
    t = np.arange(0, 60, 0.25)
    t = t[(t < 25) | (t > 45)]
    trend = judge(t, (100 + 2 * t) * MiB)
    assert trend.verdict == GROWING
    assert trend.start_s < 15 and trend.growth_bytes > 80 * MiB


def test_a_load_beside_a_leak_is_a_step_however_large_the_leak():
    t = np.arange(0, 60, 0.25)
    loads = 60 + 257 * (t > 15) + 213 * (t > 27)
    assert {judge(t, (loads + gained * t / 60) * MiB).verdict for gained in (60, 135, 270, 540)} == {GROWING}


def test_what_a_program_lets_go_of_at_its_end_hides_no_leak_of_a_large_one():
    t = np.arange(0, 60, 0.25)
    y = 40 + 2.0 * t
    y[-3:] = 70, 50, 40
    assert judge(t, y * MiB).verdict == judge(t, (y + 64 * 1024) * MiB).verdict == GROWING


@pytest.mark.parametrize("leaks_mib", [0, 3])
@pytest.mark.parametrize("sibling", [False, True])
def test_a_sibling_that_comes_and_goes_changes_no_verdict(tmp_path, leaks_mib, sibling):
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [(200 + leaks_mib * second) * MiB for second in range(60)])
    for number, born in enumerate(range(5, 50, 12) if sibling else ()):
        builder.process(10 + number).samples(10 + number, [80 * MiB] * 6, from_s=born)
    assert tree_growth(builder.ends(60.0).open()).leaking is (leaks_mib > 0)


@given(st.sampled_from(curves.LEAKS), seeds)
@settings(max_examples=40)
def test_what_is_seen_live_is_no_step_or_level_afterwards(shape, seed):
    """Both have one rule: a rate that was shown while it ran is of growth, or of what nobody can tell the end of."""
    t, y = curves.sampled(shape, seed, 60)
    course = Course()
    for at_s, value in zip(t.tolist(), y.tolist()):
        course.add(at_s, int(value))
    if course.steady() is not None:
        assert judge(t, y).verdict != FLAT
