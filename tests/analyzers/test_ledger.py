"""The ledger: accounts for each kind of memory, and always closes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leakscope import analyze
from leakscope.facts.accounts.ledger import accounted_share, growth_of
from leakscope.facts.case import Case
from leakscope.facts.growth.split import accounts
from leakscope.facts.growth.tree import tree_growth
from tests.builders import RecordingBuilder

from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer


def with_takes(builder, column, slope=LEAK_BYTES_PER_S, times=(4, 9, 17)):
    for number, at_s in enumerate(times, 1):
        others = {"python_bytes": 8 * MiB, "array_bytes": 0, "tensor_bytes": 0}
        builder.take(PID, number, at_s, **{**others, column: 8 * MiB + round(slope * at_s)})
    return builder


def test_each_account_is_found_by_what_its_inventories_say(tmp_path):
    for account, column in (
        ("tensors", "tensor_bytes"),
        ("arrays", "array_bytes"),
        ("python-objects", "python_bytes"),
    ):
        folder = tmp_path / account
        folder.mkdir()
        rows = Case(with_takes(sentinels(trainer(folder)), column).open()).ledger
        assert rows[0].account == account and rows[0].estimated
        assert growth_of(rows, account) > 0.9 * sum(r.growth_bytes for r in rows)


def test_what_malloc_handed_out_and_nothing_holds_is_native(tmp_path):
    rows = Case(with_takes(sentinels(trainer(tmp_path)), "python_bytes", slope=0).open()).ledger
    assert rows[0].account == "native"
    assert growth_of(rows, "native") > 0.9 * sum(r.growth_bytes for r in rows)


def test_what_malloc_keeps_free_is_its_own_account(tmp_path):
    kept = [MiB + LEAK_BYTES_PER_S * s for s in range(20)]
    rows = Case(
        with_takes(sentinels(trainer(tmp_path), in_use=0, malloc_free_bytes=kept), "python_bytes", 0).open()
    ).ledger
    assert rows[0].account == "allocator-free"


def test_what_a_job_frees_as_its_last_act_was_in_use(tmp_path):
    """malloc keeps it resident: the window goes on to the end."""
    in_use = [50 * MiB + LEAK_BYTES_PER_S * s for s in range(18)] + [50 * MiB] * 2
    free = [MiB] * 18 + [180 * MiB] * 2
    builder = sentinels(trainer(tmp_path), malloc_in_use_bytes=in_use, malloc_free_bytes=free)
    rows = Case(with_takes(builder, "python_bytes", slope=0).open()).ledger
    assert rows[0].account == "native" and growth_of(rows, "allocator-free") < 8 * MiB


def test_what_comes_and_goes_all_the_time_is_free_when_it_is_free(tmp_path):
    in_use = [50 * MiB + (LEAK_BYTES_PER_S * s if s % 3 == 1 else 0) for s in range(20)]
    free = [MiB + LEAK_BYTES_PER_S * s + 50 * MiB - used for s, used in enumerate(in_use)]
    builder = sentinels(trainer(tmp_path), malloc_in_use_bytes=in_use, malloc_free_bytes=[max(f, 0) for f in free])
    rows = Case(with_takes(builder, "python_bytes", slope=0).open()).ledger
    assert rows[0].account == "allocator-free"


def test_without_an_inside_view_the_growth_is_unexplained(tmp_path):
    rows = Case(trainer(tmp_path).open()).ledger
    assert [row.account for row in rows] == ["unexplained"]
    assert rows[0].process == f"train.py[{PID}]"


def test_few_inventories_are_carried_on_but_never_beyond_the_growth(tmp_path):
    rows = Case(
        with_takes(sentinels(trainer(tmp_path)), "tensor_bytes", 3 * LEAK_BYTES_PER_S, times=(4, 6)).open()
    ).ledger
    assert growth_of(rows, "tensors") <= sum(r.growth_bytes for r in rows)


@pytest.mark.parametrize("goes_on", [True, False])
def test_after_the_last_snapshot_an_account_goes_on_with_the_steps(tmp_path, goes_on):
    """As its holder is told to, whatever the steps themselves ask for and free; unless what is in use stands still."""
    kept = [0.5 * min(step, 999 if goes_on else 60) for step in (10 * s for s in range(20))]
    in_use = [round((50 + held + (30 if s % 2 else 0)) * MiB) for s, held in enumerate(kept)]
    free = [round((10 if s % 2 else 40) * MiB) for s in range(20)]
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py")
    rss = [round((120 + kept[i // 4]) * MiB) for i in range(80)]
    builder = sentinels(builder.samples(PID, rss, every_s=0.25), malloc_in_use_bytes=in_use, malloc_free_bytes=free,
                        step=[10 * s for s in range(20)])  # fmt: skip
    for number, at_s in enumerate((2, 5), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=round(kept[at_s] * MiB))
    parts = accounts(Case(builder.open()).growth.processes[0])
    tensors = np.interp([12.0, 18.0], parts.time_s, parts.levels["tensors"]) / MiB
    assert tensors == pytest.approx([kept[12], kept[18]], abs=3 if goes_on else 30)


def test_an_account_goes_on_at_the_pace_that_it_has_since_it_rises(tmp_path):
    """What snapshots before that saw is no part of it; nor is a level that moves by much a reason to cut it."""
    kept = [0.5 * max(0, step - 30) for step in (10 * s for s in range(20))]
    beside = np.random.default_rng(3).uniform(0, 25, 20)
    in_use = [round((50 + held + more) * MiB) for held, more in zip(kept, beside)]
    free = [round((40 - more) * MiB) for more in beside]
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py")
    builder.samples(PID, [round((120 + kept[i // 4]) * MiB) for i in range(80)], every_s=0.25)
    builder = sentinels(builder, malloc_in_use_bytes=in_use, malloc_free_bytes=free, step=[10 * s for s in range(20)])
    for number, at_s in enumerate((1, 3, 6), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=round(kept[at_s] * MiB))
    parts = accounts(Case(builder.open()).growth.processes[0])
    tensors = np.interp([12.0, 18.0], parts.time_s, parts.levels["tensors"]) / MiB
    assert tensors == pytest.approx([kept[12], kept[18]], abs=4)


amounts = st.lists(st.integers(0, 2**34), min_size=40, max_size=40)


@pytest.mark.further
@given(amounts, amounts, amounts)
@example([0] * 38 + [1, 1], [0] * 32 + [1, 0, 0, 1, 0, 0, 0, 0], [0] * 40)  # files before there is private memory
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_growth_column_sums_to_the_growth_of_the_tree(tmp_path_factory, anon, file, malloc):
    builder = RecordingBuilder(tmp_path_factory.mktemp("run")).process(PID)
    builder.samples(PID, anon, every_s=0.5, file_bytes=file, pss_bytes=None, pss_anon_bytes=None)
    builder.sentinels(PID, every_s=0.5, malloc_in_use_bytes=malloc, malloc_free_bytes=anon)
    with_takes(builder, "tensor_bytes")
    recording = builder.open()
    report = analyze(recording)
    rows = report.ledger
    assert all(row.growth_bytes == row.end_bytes - row.start_bytes for row in rows)
    assert all(row.in_total == (row.account != "mapped-files") for row in rows)
    own = sum(row.growth_bytes for row in rows if row.in_total)
    assert own == report.verdict.growth_bytes == tree_growth(recording).growth_bytes


def test_pools_that_stay_half_empty_are_kept_free_not_objects(tmp_path):
    arenas = [4 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
    columns = {"pymalloc_bytes": arenas, "pymalloc_in_use_bytes": [3 * MiB] * 20}
    rows = Case(with_takes(sentinels(trainer(tmp_path), in_use=0, **columns), "python_bytes", 0).open()).ledger
    assert rows[0].account == "allocator-free"
    assert accounted_share(rows, rows[0].process) > 0.9


def test_small_objects_that_no_inventory_reached_are_python_objects(tmp_path):
    arenas = [4 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
    columns = {"pymalloc_bytes": arenas, "pymalloc_in_use_bytes": [b - MiB for b in arenas]}
    rows = Case(with_takes(sentinels(trainer(tmp_path), in_use=0, **columns), "python_bytes", 0).open()).ledger
    assert rows[0].account == "python-objects"
