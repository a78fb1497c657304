"""Remedies that were tried: folklore is refuted with figures, and what the end itself freed is no remedy's merit."""

from __future__ import annotations

import pytest

from leakscope import analyze
from tests.sentences import says

from .leaks import PID, trainer

MiB = 2**20
ENDS_S = 20.0


def tried(
    tmp_path, *, rss=800 * MiB, in_use=700 * MiB, in_use_at_end=None, rss_at_end=None, arenas=None, **returned_bytes
):
    """A job whose agent tried remedies as it ended, and what each gave back."""
    builder = trainer(tmp_path)
    last = {"malloc_arena_count": arenas, "malloc_in_use_bytes": in_use if in_use_at_end is None else in_use_at_end}
    builder.sentinels(PID, rss_bytes=[rss] * 20, malloc_in_use_bytes=[in_use] * 20)
    builder.row("sentinels", ENDS_S, PID, rss_bytes=rss if rss_at_end is None else rss_at_end, **last)
    for name, amount in returned_bytes.items():
        row = {"experiment": name.replace("__", "."), "returned_bytes": amount, "experiment_s": 0.1}
        builder.row("experiments", ENDS_S + 0.1, PID, **row, freed_count=12 if name == "gc__collect" else None)
    return builder.open()


def said(recording):
    experiments = ("gc.collect", "malloc_trim", "torch.cuda", "Arrow")
    return [r.reason for r in analyze(recording).ruled_out if r.reason.startswith(experiments)]


def test_a_collection_that_freed_nothing_is_refuted_with_its_figures(tmp_path):
    (reason,) = said(tried(tmp_path, gc__collect=0))
    assert says(reason, "gc.collect()", "0 B", "12 objects", "will not help")


def test_a_trim_that_gave_back_nothing_is_refuted(tmp_path):
    recording = tried(tmp_path, malloc_trim=-4096)
    (reason,) = said(recording)
    assert says(reason, "malloc_trim()", "0 B", "will not help")


def test_a_trim_that_gave_back_much_says_that_it_was_no_leak(tmp_path):
    recording = tried(tmp_path, in_use=100 * MiB, malloc_trim=600 * MiB)
    (reason,) = said(recording)
    assert says(reason, "malloc_trim()", "600 MiB of 800 MiB", "not leaked")


def test_an_arrow_pool_that_keeps_nothing_is_not_to_blame(tmp_path):
    (reason,) = said(tried(tmp_path, arrow__release_unused=-4096))
    assert says(reason, "release_unused()", "0 B")


def test_fewer_arenas_are_advised_where_there_are_many(tmp_path):
    (reason,) = said(tried(tmp_path, in_use=100 * MiB, arenas=16, malloc_trim=600 * MiB))
    assert says(reason, "MALLOC_ARENA_MAX=2", "16 arenas")


def test_what_the_end_of_the_program_freed_is_not_the_merit_of_a_trim(tmp_path):
    """``main()`` returned, its leak was freed into malloc, and a trim gave that back: it was a leak all the same."""
    recording = tried(tmp_path, in_use=700 * MiB, in_use_at_end=50 * MiB, malloc_trim=640 * MiB)
    assert said(recording) == []


def test_nothing_follows_from_a_trim_after_the_memory_was_given_back(tmp_path):
    recording = tried(tmp_path, rss_at_end=100 * MiB, in_use_at_end=50 * MiB, malloc_trim=0)
    assert said(recording) == []


def test_a_collection_that_freed_much_proves_nothing(tmp_path):
    """The objects of functions that had returned are among what it freed."""
    assert said(tried(tmp_path, gc__collect=500 * MiB)) == []


def test_what_was_not_tried_is_not_spoken_of(tmp_path):
    recording = tried(tmp_path)
    assert said(recording) == []


@pytest.mark.parametrize(("after", "count"), [(11_900, 1), (2_000, 0)], ids=["nothing", "much"])
def test_the_cache_of_a_device_is_counted_there(tmp_path, after, count):
    text = f"reserved on the devices: {12_000 * MiB} bytes before, {after * MiB} after"
    builder = trainer(tmp_path)
    builder.sentinels(PID, rss_bytes=[800 * MiB] * 21, malloc_in_use_bytes=[1] * 21)
    builder.row("experiments", 21.0, PID, experiment="torch.cuda.empty_cache", returned_bytes=0, text=text)
    assert len(said(builder.open())) == count


def test_a_report_of_one_kind_speaks_of_its_remedy_only(tmp_path):
    report = analyze(tried(tmp_path, gc__collect=0, malloc_trim=0), only=["cyclic-garbage"])
    assert not [r for r in report.ruled_out if "malloc_trim" in r.reason]
