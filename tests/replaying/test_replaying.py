"""What a process would hold under other settings of malloc: steps that are possible, and a replay that tells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from leakscope.cli import main
from leakscope.facts.growth.lives import Lives, lives_of
from leakscope.replaying import Outcome, WhatIf, as_json, as_text, error_of
from leakscope.replaying.steps import MEASURE, is_long, plan
from leakscope.storage import Rows

from ..agent.staging import rows, run, stage
from ..golden import RECORDINGS
from ..sentences import says

MiB = 1 << 20
ARENAS = RECORDINGS / "arenas_of_request_threads-leaky.parquet"


def of_rows(*lives: tuple[int, int | None, int, int | None, int, int]) -> Lives:
    """Of (life, end, thread, end thread, bytes, weight)."""
    names = ["life", "end_order", "thread_number", "end_thread_number", "size_bytes", "weight_bytes"]
    table = Rows.of({name: [one[at] for one in lives] for at, name in enumerate(names)})
    return lives_of(table.assign(time_s=[float(life) for life, *_ in lives]), np.random.default_rng(0))


def test_each_piece_is_freed_after_it_was_asked_for_by_whoever_freed_it() -> None:
    rng = np.random.default_rng(4)
    given = []
    for life in range(1, 2000, 2):
        size = int(rng.integers(100, 60_000))
        thread, by = (int(number) for number in rng.integers(1, 5, 2))
        end = None if life % 10 == 1 else life + int(rng.integers(1, 300))
        given.append((life, end, thread, None if end is None else by, size, 500_000))
    lives = of_rows(*given)
    orders = np.linspace(100, 2300, 40)
    steps = plan(lives, orders, 1.0, rng).steps
    there: dict[int, int] = {}
    for step in steps:
        if step["thread"] == MEASURE:
            continue
        if step["bytes"]:
            assert step["place"] not in there
            there[step["place"]] = int(step["bytes"])
        else:
            del there[step["place"]]  # it is there, and once
    assert (steps["thread"] == MEASURE).sum() == 40
    stay = sum(weight for _, end, *_, weight in given if end is None)
    assert sum(there.values()) == pytest.approx(stay, rel=0.1)


def test_what_was_lost_from_sight_ends_as_another_of_its_size() -> None:
    lives = of_rows((1, 4, 1, None, 1000, 500_000), (2, 90, 1, 1, 1000, 500_000), (3, None, 1, None, 90_000, 500_000))
    assert lives.end_order.tolist() == [90.0, 90.0, np.inf]


def test_a_large_program_is_replayed_in_part_and_scaled() -> None:
    lives = of_rows(*((life, None, 1, None, 200, 500_000) for life in range(1, 4001)))
    planned = plan(lives, np.linspace(1, 4000, 40), 1.0, np.random.default_rng(0))
    assert planned.scale > 1
    assert float(planned.steps["bytes"].sum()) * planned.scale == pytest.approx(4000 * 500_000, rel=0.02)


def test_a_few_large_pieces_are_known_exactly_and_measured_where_they_were() -> None:
    """A table of 20 MB for a moment, now and then: between two of them nothing is in use."""
    given = [(2 * n + 1, 2 * n + 2, 1, 1, 20 * MiB, 20 * MiB) for n in range(30)]
    lives = of_rows(*given)
    assert error_of(lives) == 0.0
    orders = np.arange(2.0, 62.0, 2.0)
    planned = plan(lives, orders, 1.0, np.random.default_rng(0))
    in_use, there = 0, {}
    for step in planned.steps:
        if step["thread"] == MEASURE:
            assert in_use == 0
        elif step["bytes"]:
            there[int(step["place"])] = int(step["bytes"])
            in_use += int(step["bytes"])
        else:
            in_use -= there.pop(int(step["place"]))
    assert error_of(of_rows((1, None, 1, None, 1000, 500_000))) > 0.9


def test_what_survives_is_of_all_threads_that_ask_for_such() -> None:
    """Of each of eight threads a few small pieces stay: samples show those of one."""
    given = [(life, life + 3, 2 + life % 8, 2 + life % 8, 30_000, 500_000) for life in range(1, 2000)]
    lives = of_rows(*given, (2000, None, 5, None, 1000, 500_000))
    assert is_long(lives).sum() == 1
    steps = plan(lives, np.linspace(1, 2100, 40), 1.0, np.random.default_rng(0)).steps
    assert len(np.unique(steps["thread"][steps["bytes"] == 1000])) == 8


def test_what_a_thread_needed_at_once_is_known_until_a_moment() -> None:
    """Two threads, whose peaks do not meet; a table of 100 MiB is mapped alone, in no arena."""
    first = [(life, 10, 2, 2, MiB, MiB) for life in range(1, 6)]
    second = [(life, 30, 3, 3, MiB, 2 * MiB) for life in range(11, 14)]
    lives = of_rows(*first, *second, (14, 31, 3, 3, 100 * MiB, 100 * MiB))
    at_s = np.array([8.0, 14.0])
    assert lives.needs(at_s, 2)[0].tolist() == [5 * MiB, 11 * MiB]
    assert lives.needs(at_s, 1)[0].tolist() == [5 * MiB, 6 * MiB]
    assert lives.needs(at_s, 2)[1] == 2


def test_sizes_are_mixed_as_they_were_and_add_up() -> None:
    """A sample stands for 24 pieces: unmixed a hundred of them, one after another, would have some five sizes."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(20_000, 30_000, 200)
    given = [(life, life + 400, 1, 1, int(size), 600_000) for life, size in enumerate(sizes, 1)]
    lives = of_rows(*given, (201, 900, 1, 1, 5 * MiB, 5 * MiB))
    steps = plan(lives, np.linspace(1, 700, 40), 1.0, rng).steps
    asked = steps["bytes"][(steps["bytes"] > 0) & (steps["thread"] != MEASURE)]
    assert len(np.unique(asked[100:200])) > 20
    assert (asked == 5 * MiB).sum() == 1
    assert float(asked.sum()) == pytest.approx(200 * 600_000 + 5 * MiB, rel=0.03)


def in_rounds() -> list[tuple[int, int | None, int, int | None, int, int]]:
    """Two threads ask for 10 MB each, of three sizes, and free all of it, eight times: then something small stays."""
    given: list[tuple[int, int | None, int, int | None, int, int]] = []
    for begin in range(1, 801, 100):
        for nth in range(40):
            thread = 2 + nth % 2
            given.append((begin + nth, begin + 50 + nth, thread, thread, (20_000, 40_000, 60_000)[nth % 3], 500_000))
        given.append((begin + 95, None, 2, None, 1000, 500_000))
    return given


def test_what_a_sample_stands_for_is_of_its_own_round() -> None:
    """Between two rounds next to nothing is in use: an allocator gives memory back then, or does not."""
    lives = of_rows(*in_rounds())
    orders = np.arange(93.0, 800.0, 100.0)
    in_use, there, met = 0, {}, []
    for step in plan(lives, orders, 1.0, np.random.default_rng(0)).steps:
        if step["thread"] == MEASURE:
            met.append(in_use)
        elif step["bytes"]:
            there[int(step["place"])] = int(step["bytes"])
            in_use += int(step["bytes"])
        else:
            in_use -= there.pop(int(step["place"]))
    assert len(met) == 8 and max(met) < 8 * 500_000 + MiB


def test_what_stays_may_lie_aside_of_what_goes() -> None:
    lives = of_rows(*in_rounds())
    for share, threads in ((0.0, {1, 2}), (1.0, {3})):
        steps = plan(lives, np.linspace(1, 800, 40), 1.0, np.random.default_rng(0), share).steps
        assert set(steps["thread"][steps["bytes"] == 1000].tolist()) <= threads


FREED = """
import threading, time
time.sleep(1.5)  # samples begin after a second
shared = []
def fill():
    for _ in range(200):
        shared.append(bytearray(100_000))
filler = threading.Thread(target=fill)
filler.start()
filler.join()
time.sleep(1)
shared.clear()
time.sleep(1)
"""


@pytest.mark.live
def test_lives_say_who_asked_for_memory_and_who_freed_it(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    done = run(journal, "-c", FREED)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)["allocation_lives"]
    begun = {row["life"]: row for row in found if row.get("size_bytes") == 100_001}
    ends = {row["life"]: row for row in found if row.get("end_order") is not None}
    assert sum(row["weight_bytes"] for row in begun.values()) == pytest.approx(200 * 100_001, rel=0.5)
    assert all(row["thread_number"] != 1 for row in begun.values())
    assert {ends[life]["end_thread_number"] for life in begun} == {1}
    assert all(ends[life]["end_order"] > life for life in begun)


@pytest.mark.slow
def test_arenas_of_many_threads_are_fewer_with_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """As the program itself: run bare with MALLOC_ARENA_MAX=2 it holds a fifth of what it holds without."""
    status = main(["whatif", str(ARENAS), "-f", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (status, found["is_true"]) == (0, True)
    held = {one["name"]: one["level_bytes"] for one in found["outcomes"]}
    assert held["MALLOC_ARENA_MAX=2"] < 0.4 * held["now"]
    assert held["MALLOC_MMAP_THRESHOLD_=131072"] > 0.9 * held["now"]


def test_what_malloc_does_not_say_is_not_nothing() -> None:
    """mimalloc has no figure of what it keeps: the replay is compared with nothing, and taken as it comes out."""
    found = WhatIf("serve.py[1]", 9000, 4, 500 * MiB, 1.0, 119 * MiB, None, 54 * MiB, (Outcome("now", MiB, MiB),))
    assert not found.is_true
    assert as_json(found)["kept_bytes"] is None
    assert says(as_text(found), "does not say what it keeps", "nobody can tell") and "kept 0" not in as_text(found)


@pytest.mark.live
def test_a_recording_without_samples_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", str(RECORDINGS / "fd_pileup-leaky.parquet")]) == 2
    assert "sampled" in capsys.readouterr().err
