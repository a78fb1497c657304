"""Growth of the tree: which process grows, what does not count, and when unclear."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakscope import analyze
from leakscope.facts.case import Case
from leakscope.facts.growth.tree import tree_growth
from leakscope.reporting import report_of
from tests.builders import RecordingBuilder
from tests.sentences import says

from .leaks import LEAK_BYTES_PER_S, PID, MiB, trainer


def test_a_growing_process_is_found_with_name_and_amount(tmp_path):
    growth = tree_growth(trainer(tmp_path).open())
    assert growth.leaking is True
    assert growth.main.label == f"train.py[{PID}]"
    assert growth.growth_bytes == pytest.approx(LEAK_BYTES_PER_S * (growth.end_s - growth.start_s), rel=0.05)
    assert growth.growth_bytes_per_hour == pytest.approx(LEAK_BYTES_PER_S * 3600, rel=0.05)


def test_a_steady_process_does_not_leak(tmp_path):
    growth = tree_growth(trainer(tmp_path, leak=0).open())
    assert growth.leaking is False
    assert growth.growth_bytes == 0


@pytest.mark.parametrize(("fades_in_s", "leaking"), [(4, False), (9, None)])
def test_growth_that_fades_is_over_once_half_of_it_could_not_go_on_unseen(tmp_path, fades_in_s, leaking):
    held = [(100 + 200 * (1 - math.exp(-n / 4 / fades_in_s))) * MiB for n in range(120)]
    growth = tree_growth(RecordingBuilder(tmp_path).process(PID).samples(PID, held, every_s=0.25).open())
    assert growth.leaking is leaking, growth.reason


def test_mapped_files_are_no_leak(tmp_path):
    count = 80
    mapped = [i * 5 * MiB for i in range(count)]
    recording = (
        RecordingBuilder(tmp_path)
        .process(1)
        .samples(
            1,
            [m + 50 * MiB for m in mapped],
            every_s=0.25,
            anon_bytes=50 * MiB,
            file_bytes=mapped,
            pss_bytes=None,
            pss_anon_bytes=None,
        )
        .open()
    )
    assert tree_growth(recording).leaking is False


def test_shared_memory_and_swap_count(tmp_path):
    for column in ("shmem_bytes", "swap_bytes"):
        folder = tmp_path / column
        folder.mkdir()
        grown = {column: [i * 2 * MiB for i in range(80)], "anon_bytes": 50 * MiB}
        unread = {"pss_bytes": None, "pss_anon_bytes": None}
        builder = RecordingBuilder(folder).process(1)
        recording = builder.samples(1, [50 * MiB] * 80, every_s=0.25, **grown, **unread).open()
        assert tree_growth(recording).leaking is True


def test_a_short_recording_says_so(tmp_path):
    recording = RecordingBuilder(tmp_path).process(1).samples(1, [i * 10 * MiB for i in range(38)], every_s=0.25).open()
    growth = tree_growth(recording)
    assert growth.leaking is None
    assert says(growth.reason, "too short", "9 s", "11 s")


def test_a_recording_without_samples_cannot_tell(tmp_path):
    growth = tree_growth(RecordingBuilder(tmp_path).process(1).open())
    assert growth.leaking is None
    assert growth.processes == ()


def test_pages_shared_with_forked_workers_count_once(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1)
    for pid in (1, 2, 3, 4):
        if pid > 1:
            builder.process(pid, role="dataloader-worker")
        builder.samples(pid, [400 * MiB] * 80, every_s=0.25, pss_bytes=100 * MiB, pss_anon_bytes=100 * MiB)
    growth = tree_growth(builder.open())
    assert growth.held_bytes.max() == pytest.approx(400 * MiB)


def test_forks_that_are_born_while_a_snapshot_is_made_count_once(tmp_path):
    """What is sampled of the parent then is left out: the round before it is not the forks'."""
    builder = RecordingBuilder(tmp_path).process(1)
    for second in range(60):
        own = 400 * MiB if second < 30 else 400 * MiB // 3
        shares = {"pss_bytes": own, "pss_anon_bytes": own} if second in (0, 31, 45) else {}
        builder.row("process_samples", float(second), 1, rss_bytes=400 * MiB, anon_bytes=400 * MiB, **shares)
        for pid in (2, 3) if second > 30 else ():
            row = {"rss_bytes": 400 * MiB, "anon_bytes": 400 * MiB, **shares}
            builder.row("process_samples", second + 0.001 * pid, pid, **row)
    for pid in (2, 3):
        builder.process(pid, role="dataloader-worker", ppid=1, born_s=31.0)
    builder.row("heap_graphs", 30.5, 1, take=1, held_s=3.0)
    case = Case(builder.ends(60.0).open())
    assert case.growth.held_bytes.max() == pytest.approx(400 * MiB, rel=0.01)
    assert max(report_of(case).timeline.total_bytes) == pytest.approx(400 * MiB, rel=0.01)


def test_of_workers_that_follow_each_other_a_sum_has_one(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [200 * MiB] * 80, every_s=0.25)
    for number in range(6):  # each lives for a second and a half, the next comes half a second later
        builder.process(10 + number, role="dataloader-worker", cmdline="worker", born_s=2.0 + 2 * number)
        builder.samples(10 + number, [100 * MiB] * 7, every_s=0.25, from_s=2.0 + 2 * number)
    growth = tree_growth(builder.open())
    for at_s, held_mib in ((5.0, 300), (5.75, 200), (6.0, 300), (1.75, 200), (14.0, 200)):
        assert sum(p.held_in(growth.time_s, at_s) for p in growth.processes) == held_mib * MiB, at_s


@pytest.mark.parametrize(("told_mib", "peak_mib"), [(900, 401), (300, 300)])
def test_the_peak_is_of_one_moment(tmp_path, told_mib, peak_mib):
    """What the recorder told as it ran may add shares of different moments; it leaves out what a snapshot took."""
    levels = [(200 + n) * MiB for n in range(60)] + [401 * MiB] + [220 * MiB] * 20
    builder = RecordingBuilder(tmp_path).process(1).samples(1, levels)
    builder.event("peak", 80.0, text=f"peak {told_mib} MiB", value=float(told_mib * MiB))
    assert report_of(Case(builder.ends(80.0).open())).recording.peak.bytes == peak_mib * MiB


def test_a_worker_pool_that_is_renewed_each_epoch_is_no_leak(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [200 * MiB] * 160, every_s=0.25)
    for epoch in range(5):
        pid = 10 + epoch
        builder.process(pid, role="dataloader-worker", born_s=epoch * 8, died_s=epoch * 8 + 8)
        builder.samples(pid, [(20 + 5 * i) * MiB for i in range(31)], every_s=0.25, from_s=epoch * 8)
    assert tree_growth(builder.open()).leaking is False


def test_processes_that_pile_up_make_the_tree_grow(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [200 * MiB] * 120, every_s=0.25)
    for i in range(25):
        builder.process(10 + i, role="python", born_s=1.0 + i)
        builder.samples(10 + i, [20 * MiB] * (116 - 4 * i), every_s=0.25, from_s=1.0 + i)
    assert tree_growth(builder.open()).leaking is True


@pytest.mark.parametrize(("per_s_mib", "leaking"), [(0.0, None), (4.0, True)])
def test_workers_that_have_only_just_begun_are_no_leak_yet(tmp_path, per_s_mib, leaking):
    """A busy machine: the imports took most of the run. It is one where they are seen to go on."""
    of_parent = [(10 + 3 * i) * MiB for i in range(40)] + [90 * MiB] * 21
    builder = RecordingBuilder(tmp_path).process(1).samples(1, of_parent)
    for n in range(3):
        starts = [20, 40, 60, 75, 85, 90]
        rising = [round((92 + per_s_mib * i) * MiB) for i in range(15)]
        builder.process(10 + n, role="dataloader-worker", ppid=1, born_s=40.0 + 0.1 * n)
        builder.samples(10 + n, [mib * MiB for mib in starts] + rising, from_s=40.0 + 0.1 * n)
    assert tree_growth(builder.ends(61.0).open()).leaking is leaking


def test_where_one_worker_alone_rises_what_speaks_against_its_growth_is_heard(tmp_path):
    """What malloc keeps free in it, though the others, which are not seen to go on, gained more together."""
    rising = [i * 16 / 60 for i in range(61)]
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [300 * MiB] * 61)
    builder.process(2, role="dataloader-worker", ppid=1).samples(2, [round((240 + r) * MiB) for r in rising])
    builder.sentinels(2, malloc_in_use_bytes=[100 * MiB] * 61, malloc_free_bytes=[round(r * MiB) for r in rising])
    for pid, at_s in ((3, 20), (4, 40)):
        builder.process(pid, role="dataloader-worker", ppid=1)
        builder.samples(pid, [240 * MiB] * at_s + [250 * MiB] * (61 - at_s))
    growth = tree_growth(builder.ends(60.0).open())
    assert (growth.leaking, growth.main.pid) == (None, 2)
    assert says(growth.reason, "malloc keeps", "free")


def test_a_leak_behind_others_that_shrink_is_found(tmp_path):
    grown = [(100 + 2 * i) * MiB for i in range(100)]
    shrunk = [(400 - 2 * i) * MiB for i in range(100)]
    builder = RecordingBuilder(tmp_path).process(1).samples(1, grown, every_s=0.25)
    growth = tree_growth(builder.process(2).samples(2, shrunk, every_s=0.25).open())
    assert growth.leaking is True
    assert growth.main.pid == 1


def test_the_process_that_was_seen_to_grow_is_the_one_that_is_told(tmp_path):
    """Not one that has only just begun, and gained more than that; also where all together gave memory back."""
    builder = RecordingBuilder(tmp_path)
    builder.process(1, cmdline="python steady.py").samples(1, [900 * MiB] * 30 + [100 * MiB] * 31)
    builder.process(2, cmdline="python leaky.py").samples(2, [(100 + 2 * i) * MiB for i in range(61)])
    builder.process(3, cmdline="python late.py", born_s=40.0).samples(3, [400 * MiB] * 21, from_s=40.0)
    report = analyze(builder.ends(60.0).open())
    assert report.verdict.leaking is True
    first = report.findings[0]
    assert (first.subject.process, first.bytes > 0) == ("leaky.py", True)
    assert says(report.verdict.headline, "leaky.py", "gave back more")
    assert not [skip for skip in report.skipped if "failed" in skip.reason]


def test_shutdown_does_not_spoil_the_trend(tmp_path):
    recording = trainer(tmp_path).samples(PID, [20 * MiB, 3 * MiB], every_s=0.25, from_s=20.0).open()
    assert tree_growth(recording).leaking is True


@pytest.mark.parametrize(("until_s", "leaking"), [(51.5, False), (None, True)])
def test_a_program_that_goes_on_is_not_taking_itself_down(tmp_path, until_s, leaking):
    """It let go of what an evaluation needed; the same fall at its end would say nothing of what rose before."""
    before, evaluation = ([round((200 + per_s * i) * MiB) for i in range(24)] for per_s in (0.1, 3.0))
    levels = before + evaluation + [200 * MiB] * 4
    recording = RecordingBuilder(tmp_path).process(1, died_s=51.6).samples(1, levels).ends(52.0).open()
    seen = recording.between((0.0, until_s)) if until_s else recording
    assert tree_growth(seen).leaking is leaking


def test_ramps_that_end_and_a_jump_make_no_growth_of_their_sum(tmp_path):
    """Two workers copy pages of their parent, which then evaluates."""
    fills = 1 - np.exp(-np.arange(120) / 30)
    evaluates = np.clip(np.arange(120) - 110, 0, 5) * 4 + (np.arange(120) >= 116) * 75
    builder = (
        RecordingBuilder(tmp_path).process(1).samples(1, ((1800 + 8 * fills + evaluates) * MiB).astype(int).tolist())
    )
    for pid in (2, 3, 4):
        builder.process(pid, role="dataloader-worker", ppid=1)
        builder.samples(pid, ((30 + 14 * fills) * MiB).astype(int).tolist())
    growth = tree_growth(builder.open().between((0.0, 119.5)))
    assert growth.leaking is None
    assert says(growth.reason, "of no process by itself")


def test_what_comes_after_the_kill_of_the_largest_process_hides_no_leak(tmp_path):
    """A loader worker leaks and is killed; its parent takes a while to notice."""
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [100 * MiB] * 120, every_s=0.25)
    builder.process(2, role="dataloader-worker", died_s=20.0, exit_signal=9)
    growth = tree_growth(builder.samples(2, [i * 5 * MiB for i in range(80)], every_s=0.25).ends(30.0).open())
    assert growth.leaking is True
    assert growth.main.pid == 2


@pytest.mark.parametrize(("until_s", "leaking"), [(50, True), (30, False)])
def test_a_job_that_takes_its_processes_down_ends_as_it_begins_to(tmp_path, until_s, leaking):
    """Two workers gain, let go of it and end, and their parent goes on: for long, and it is work."""
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [60 * MiB] * 61)
    for pid in (2, 3):
        builder.process(pid, ppid=1, died_s=until_s + 1.0)
        builder.samples(pid, [(50 + 2 * s) * MiB for s in range(until_s)] + [50 * MiB])
    growth = tree_growth(builder.ends(60.0).open())
    assert (growth.leaking is True) is leaking


def test_what_allocators_say_as_a_program_ends_is_of_its_last_sample(tmp_path):
    """They are read a moment later: of then it is not known what the process held."""
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [230 * MiB] * 93, every_s=0.25)
    builder.sentinels(1, malloc_in_use_bytes=[(20 + 5 * i) * MiB for i in range(25)],
                      malloc_free_bytes=[(200 - 5 * i) * MiB for i in range(25)])  # fmt: skip
    growth = tree_growth(builder.ends(25.0).open())
    assert growth.leaking is True
    assert growth.end_s <= growth.main.time_s[-1] == 23.0


def freed_before(folder, in_use, free, rss, holder=None):
    """A process whose resident memory says less than its allocators do, MiB a second; ``holder`` has what is in use."""
    builder = RecordingBuilder(folder).process(1).samples(1, [m * MiB for m in rss for _ in range(4)], every_s=0.25)
    builder.sentinels(1, malloc_in_use_bytes=[m * MiB for m in in_use], malloc_free_bytes=[m * MiB for m in free])
    for number, at_s in enumerate((6, 12, 18) if holder is not None else (), 1):
        builder.take(1, number, float(at_s), holders=[{**holder, "deep_bytes": in_use[at_s] * MiB, "length": at_s}])
    return tree_growth(builder.ends(len(rss)).open())


@pytest.mark.parametrize(("limit", "leaking"), [(140, False), (20, False), (6, True)])
def test_a_bounded_buffer_that_fills_memory_freed_before_will_stop(tmp_path, limit, leaking):
    recent = {"path": "main() recent", "variable": "recent", "type_name": "collections.deque", "edge_kind": "local"}
    recent |= {"length_limit": limit, "is_user": True, "object_count": 1, "owner": "main", "root_kind": "frame"}
    growth = freed_before(tmp_path, range(20, 140, 5), [200 - 5 * i for i in range(24)], [230] * 24, recent)
    assert growth.leaking is leaking


def test_a_leak_into_memory_that_was_freed_before_is_seen(tmp_path):
    growth = freed_before(tmp_path, [20 + 5 * i for i in range(24)], [200 - 5 * i for i in range(24)], [230] * 24)
    assert growth.leaking is True
    assert growth.main.is_hidden
    assert growth.growth_bytes == pytest.approx(5 * MiB * (growth.end_s - growth.start_s), rel=0.1)
    assert "freed before" in growth.reason


def test_an_agent_that_left_long_before_the_end_is_no_witness_of_it(tmp_path):
    """What it saw last was the start-up."""
    growth = freed_before(tmp_path, [20 + 5 * i for i in range(24)], [200 - 5 * i for i in range(24)], [230] * 60)
    assert growth.leaking is False


def test_a_leak_into_memory_freed_before_is_seen_however_much_came_before_the_first_step(tmp_path):
    """A minute, of which imports take the first 26 s."""
    in_use = [min(8 * s, 208) + max(0, s - 26) for s in range(60)]
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [min(20 + 18 * s, 460) * MiB for s in range(60) for _ in range(4)], every_s=0.25)
    builder.sentinels(
        1, malloc_in_use_bytes=[m * MiB for m in in_use], malloc_free_bytes=[(450 - m) * MiB for m in in_use],
        step=[None] * 26 + list(range(34)),
    )  # fmt: skip
    growth = tree_growth(builder.ends(60.0).open())
    assert growth.leaking is True
    assert "freed before" in growth.reason


def test_what_is_asked_for_and_never_touched_is_no_leak(tmp_path):
    growth = freed_before(tmp_path, [20 + 50 * i for i in range(24)], [1] * 24, [60] * 24)
    assert growth.leaking is False


def test_work_that_comes_and_goes_inside_freed_memory_is_none(tmp_path):
    teeth = [10 * (i % 6) for i in range(24)]
    growth = freed_before(tmp_path, [20 + m for m in teeth], [200 - m for m in teeth], [230] * 24)
    assert growth.leaking is False


def test_a_fork_that_ended_since_the_last_reading_is_no_growth_of_those_that_shared_with_it(tmp_path):
    """On a busy machine readings of the shares are many seconds apart."""
    builder = RecordingBuilder(tmp_path)
    builder.process(PID, cmdline="python train.py").process(101, cmdline="python train.py", died_s=17.9)
    for pid, count, late in ((PID, 80, 400 * MiB), (101, 71, 200 * MiB)):
        shares = [200 * MiB if n == 8 else late if n == 72 else None for n in range(count)]
        builder.samples(pid, [400 * MiB] * count, every_s=0.25, pss_bytes=shares, pss_anon_bytes=shares)
    growth = tree_growth(builder.open())
    assert growth.leaking is False
    parent = growth.process(PID)
    assert parent is not None and parent.trend.verdict != "growing"


def test_a_fork_that_is_gone_takes_its_share_of_the_pages_with_it(tmp_path):
    """Readings are seconds apart, and it was there for a moment: in between nobody shared anything."""
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python serve.py")
    levels = [(60 + 1.5 * n) * MiB for n in range(80)]
    shares = [level if n % 12 == 0 else None for n, level in enumerate(levels)]
    for n in (24, 48, 72):
        shares[n] = levels[n] / 2
        builder.process(100 + n, cmdline="python serve.py", ppid=PID, born_s=n / 4 - 0.01, died_s=n / 4 + 0.2)
        half = [levels[n] / 2]
        builder.samples(100 + n, [levels[n]], from_s=n / 4, pss_bytes=half, pss_anon_bytes=half)
    growth = tree_growth(builder.samples(PID, levels, every_s=0.25, pss_bytes=shares, pss_anon_bytes=shares).open())
    assert growth.leaking is True
    assert growth.held_bytes == pytest.approx(levels, rel=0.02)


@pytest.mark.parametrize("gained_mib", [0, 120])
def test_forks_for_single_pieces_of_work_hide_nothing_of_what_their_parent_does(tmp_path, gained_mib):
    """Most are gone between two samples. A reading that meets one says that half of each page is somebody else's."""
    random = np.random.default_rng(3)
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python serve.py")
    levels = [(60 + gained_mib * n / 80) * MiB for n in range(80)]
    shares = list[float | None](levels)
    for n in range(2, 80):
        if (met := random.random()) < 0.4:
            shares[n] = levels[n] / 2
        if met < 0.1:  # and is still there when the recorder comes to it
            builder.process(101 + n, cmdline="python serve.py", ppid=PID, born_s=n / 4 - 0.01, died_s=n / 4 + 0.2)
            half = [levels[n] / 2]
            builder.samples(101 + n, [levels[n]], from_s=n / 4, pss_bytes=half, pss_anon_bytes=half)
    builder.samples(PID, levels, every_s=0.25, pss_bytes=shares, pss_anon_bytes=shares)
    growth = tree_growth(builder.open())
    assert growth.leaking is (gained_mib > 0)
    assert growth.held_bytes == pytest.approx(levels, rel=0.05)


def test_what_our_own_inventories_copied_of_pages_shared_with_a_fork_is_no_growth(tmp_path):
    """Until the fork ends: what it shared is the parent's alone then, whoever had copied it."""
    copies_s = [4.0, 7.0, 10.0, 13.0, 16.0]
    builder = RecordingBuilder(tmp_path)
    builder.process(PID).process(101, role="python-fork", ppid=PID, died_s=18.0)
    shares = [(200 + 40 * sum(0.25 * n >= at_s for at_s in copies_s)) * MiB for n in range(72)] + [400 * MiB] * 8
    builder.samples(PID, [400 * MiB] * 80, every_s=0.25, pss_bytes=shares, pss_anon_bytes=shares)
    builder.samples(101, [400 * MiB] * 72, every_s=0.25)
    for number, at_s in enumerate(copies_s, 1):
        builder.take(PID, number, at_s, copied_bytes=40 * MiB)
    parent = tree_growth(builder.open()).process(PID)
    assert parent is not None
    assert parent.held_bytes[:71] == pytest.approx(200 * MiB)
    assert parent.held_bytes[-1] == 400 * MiB


TAKES_S = (2.0, 5.0, 9.0, 14.0, 20.0, 23.0)


def copied_again_and_again(folder, held_mib):
    """A window that a program copies whole each second or so: up and down by 90 MiB, with ``held_mib`` at each take."""
    rng = np.random.default_rng(5)
    rss = [(100 + 1.5 * i / 4 + rng.uniform(0, 90)) * MiB for i in range(96)]
    builder = RecordingBuilder(folder).process(1).samples(1, [round(b) for b in rss], every_s=0.25)
    for number, (at_s, held) in enumerate(zip(TAKES_S, held_mib), 1):
        frame = {
            "path": "main() window", "parent_path": None, "root_kind": "frame", "edge_kind": "local",
            "variable": "window", "owner": "main", "owner_module": "__main__", "is_user": True,
            "type_name": "pandas.core.frame.DataFrame", "object_count": 1.0, "deep_bytes": round(held * MiB),
        }  # fmt: skip
        builder.take(1, number, at_s, holders=[frame], rss_bytes=150 * MiB)
    return tree_growth(builder.ends(24.0, exit_code=0).open())


def test_a_holder_that_rises_all_the_time_below_the_noise_is_not_called_no_leak(tmp_path):
    growth = copied_again_and_again(tmp_path, [1.5 * at_s for at_s in TAKES_S])
    assert growth.leaking is None
    assert "main() window was larger in each of" in growth.reason


@pytest.mark.parametrize("held_mib", [(30, 30, 30, 30, 30, 30), (3, 15, 27, 29, 30, 30), (5, 30, 8, 33, 9, 35)])
def test_below_the_same_noise_what_stands_or_fills_up_or_comes_and_goes_is_no_leak(tmp_path, held_mib):
    assert copied_again_and_again(tmp_path, held_mib).leaking is False


def served(folder, bursts, *, level_mb=None):
    """300 s of a service that takes half a core while it has requests, and gains 1 MiB a second then."""
    held, cpu_s = [60.0], [0.0]
    for second in range(1, 300):
        is_busy = any(first <= second < last for first, last in bursts)
        held.append(held[-1] + is_busy if level_mb is None else min(held[-1] + is_busy, level_mb))
        cpu_s.append(cpu_s[-1] + (0.5 if is_busy else 0.002))
    builder = RecordingBuilder(folder).process(1).samples(1, [round(mb * MiB) for mb in held], cpu_s=cpu_s)
    return tree_growth(builder.ends(300.0).open())


def test_a_service_that_gains_with_each_load_leaks_though_it_is_idle_between(tmp_path):
    growth = served(tmp_path, [(10, 50), (240, 270)])
    assert growth.leaking is True
    assert "CPU time" in growth.reason


@pytest.mark.parametrize(
    ("bursts", "level_mb"),
    [([(10, 50)], None), ([(10, 50), (240, 270)], 95), ([(10, 50), (150, 180), (240, 270)], 105)],
)
def test_one_load_and_loads_that_fill_something_are_no_leak(tmp_path, bursts, level_mb):
    assert served(tmp_path, bursts, level_mb=level_mb).leaking is not True


def starved(folder, *, filled_at=math.inf):
    """100 s, the last 60 of which it waits for a core 19 s in 20; it gains 1 MiB for each second of its own."""
    own_s = [min(t, 40.0) + 0.05 * max(t - 40.0, 0.0) for t in range(101)]
    held = [round((60 + min(own, filled_at)) * MiB) for own in own_s]
    builder = RecordingBuilder(folder).process(1)
    builder.samples(1, held, run_delay_s=[t - own for t, own in enumerate(own_s)])
    return tree_growth(builder.ends(100.0).open())


def test_a_leak_that_a_busy_machine_slows_down_is_one(tmp_path):
    growth = starved(tmp_path)
    assert growth.leaking is True
    assert "did not wait for a core" in growth.reason


def test_what_was_full_before_the_machine_became_busy_is_no_leak(tmp_path):
    assert starved(tmp_path, filled_at=36).leaking is False


def waiting(folder, *, waits=0.5, filled_at=math.inf):
    """100 s of a server that waits for a core for a share of the time, and so does its client: it has ever less to do.
    It gains 5 MiB for each second of CPU time.
    """
    cpu_s = [20 * (1 - math.exp(-t / 40)) for t in range(101)]
    held = [round((60 + 5 * min(spent, filled_at)) * MiB) for spent in cpu_s]
    builder = RecordingBuilder(folder).process(1)
    builder.samples(1, held, cpu_s=cpu_s, run_delay_s=[waits * t for t in range(101)])
    return tree_growth(builder.ends(100.0).open())


def test_a_leak_that_a_busy_machine_gives_less_to_do_is_one(tmp_path):
    growth = waiting(tmp_path)
    assert growth.leaking is True
    assert "CPU time" in growth.reason


@pytest.mark.parametrize("how", [{"waits": 0.1}, {"filled_at": 14}])
def test_what_slows_down_by_itself_or_was_full_is_not(tmp_path, how):
    assert waiting(tmp_path, **how).leaking is not True


@pytest.mark.parametrize(("waits", "leaking"), [(0.6, None), (0.0, False)], ids=("starved", "at-rest"))
def test_growth_that_ends_as_others_take_the_cores_may_go_on(tmp_path, waits, leaking):
    """What is to be seen of growth by CPU time, of which the second half of the run has hardly any."""
    cpu_s = [min(t, 50) * 0.05 + max(0, t - 50) * 0.003 for t in range(101)]
    held = [round((60 + 0.4 * min(t, 50)) * MiB) for t in range(101)]
    delay_s = [max(0.0, t - 50) * waits for t in range(101)]
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, held, cpu_s=cpu_s, run_delay_s=delay_s)
    assert tree_growth(builder.ends(100.0).open()).leaking is leaking


def ramp_with_peaks(folder, gained_mib):
    """30 s; one sample in twelve meets a copy of 20 MiB that is gone at the next, one near the end one of 75 MiB."""
    peaks = dict.fromkeys(range(5, 120, 12), 20) | {114: 75}
    levels = [(60 + gained_mib * n / 120 + peaks.get(n, 0)) * MiB for n in range(120)]
    return tree_growth(RecordingBuilder(folder).process(PID).samples(PID, levels, every_s=0.25).ends(30.0).open())


@pytest.mark.parametrize("gained_mib", [0, 50])
def test_peaks_of_a_moment_are_no_saw(tmp_path, gained_mib):
    assert ramp_with_peaks(tmp_path, gained_mib).leaking is (gained_mib > 0)


def kept_free(folder, free_mib):
    """60 s of a process whose resident memory rises by 60 MiB, which malloc keeps free at the end."""
    seconds = range(60)
    builder = (
        RecordingBuilder(folder).process(PID).samples(PID, [(100 + n / 4) * MiB for n in range(240)], every_s=0.25)
    )
    free = [free_mib(s) * MiB for s in seconds]
    in_use = [(90 + s) * MiB - free[s] for s in seconds]
    builder.sentinels(PID, malloc_in_use_bytes=in_use, malloc_free_bytes=free, gc_enabled=True, gc_threshold=700)
    return tree_growth(builder.ends(60.0, exit_code=0).open())


def test_free_memory_that_is_in_use_in_between_is_no_leak_yet(tmp_path):
    """A need that comes and goes, and was larger each time."""
    growth = kept_free(tmp_path, lambda s: s if s % 20 < 5 or s >= 56 else 0)
    assert growth.leaking is None and "in use" in growth.reason


@pytest.mark.parametrize(("part", "leaking"), [(0.95, True), (1.0, None)])
def test_memory_that_stays_free_and_is_not_given_back_is_one_where_pieces_stay_between_it(tmp_path, part, leaking):
    growth = kept_free(tmp_path, lambda s: part * s)
    assert growth.leaking is leaking
    assert leaking or "nothing more is in use" in growth.reason


@pytest.mark.parametrize(("used", "leaking"), [(0.6, True), (0.1, None)])
def test_a_high_water_mark_excuses_no_growth_of_what_is_in_use(tmp_path, used, leaking):
    """60 s of a large heap that rises by a tenth, of which malloc keeps a part free, as between objects that leak."""
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(300 + n / 8) * MiB for n in range(240)], every_s=0.25)
    in_use, free = ([round((200 + part * s / 2) * MiB) for s in range(60)] for part in (used, 1 - used))
    builder.sentinels(PID, malloc_in_use_bytes=in_use, malloc_free_bytes=free, gc_enabled=True, gc_threshold=700)
    assert tree_growth(builder.ends(60.0, exit_code=0).open()).leaking is leaking


@pytest.mark.parametrize(("gains_mib", "leaking"), [(40, True), (0, None)])
def test_what_a_holder_gains_is_in_use_whatever_comes_and_goes_beside_it(tmp_path, gains_mib, leaking):
    """60 s in which memory rises by 60 MiB; what is in use swings by more, and falls back to where it was."""
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(300 + n / 4) * MiB for n in range(240)], every_s=0.25)
    in_use = [(200 + (90 if s % 7 else 0)) * MiB for s in range(60)]
    free = [(390 + s) * MiB - used for s, used in enumerate(in_use)]
    builder.sentinels(PID, malloc_in_use_bytes=in_use, malloc_free_bytes=free, gc_enabled=True, gc_threshold=700)
    for number, at_s in enumerate((14, 26, 40, 56), start=1):
        builder.take(PID, number, at_s).heap(
            PID, number, at_s, (5 + gains_mib * at_s // 60) * MiB, 10 + gains_mib * at_s
        )
    assert tree_growth(builder.ends(60.0, exit_code=0).open()).leaking is leaking


def in_arenas_of_threads(folder, need_mib, *, threads=4, in_use_mib=lambda second: 20, held_mib=None):
    """60 s of threads that take turns and free all that they asked for; malloc keeps ever more of it free.

    ``need_mib``: at a second, what one of them asks for at once. ``in_use_mib``: what is met in use then. ``held_mib``:
    at a second, what a list was seen to hold, if any was looked at.
    """
    builder = RecordingBuilder(folder).process(PID)
    builder.samples(PID, [(100 + n / 2) * MiB for n in range(240)], every_s=0.25)
    free = [(60 + 2 * s) * MiB for s in range(60)]
    in_use = [in_use_mib(s) * MiB for s in range(60)]
    builder.sentinels(PID, malloc_in_use_bytes=in_use, malloc_free_bytes=free, malloc_arena_count=5)
    order = 0
    for second in range(60):
        pieces = range(order + 1, order + 1 + need_mib(second))
        ends = range(pieces.stop, pieces.stop + len(pieces))
        by = 2 + second % threads
        for life, end in zip(pieces, ends):
            begun = {"thread_number": by, "size_bytes": 10_000, "weight_bytes": MiB}
            builder.row("allocation_lives", second, PID, life=life, **begun)
            builder.row("allocation_lives", second, PID, life=life, end_order=end, end_thread_number=by)
        order = ends.stop
    for number, at_s in enumerate((8, 12, 25, 56) if held_mib else (), start=1):
        kept = held_mib(at_s)
        builder.take(PID, number, at_s).heap(PID, number, at_s, kept * MiB, 2 * kept)
    return tree_growth(builder.ends(60.0, exit_code=0).open())


def test_arenas_that_keep_what_each_thread_needed_at_once_are_no_leak_yet(tmp_path):
    """What each needs rises, at its own moment: more is never in use at one time."""
    growth = in_arenas_of_threads(tmp_path, lambda second: 10 + second)
    assert growth.leaking is None and "4 threads came to need" in growth.reason


@pytest.mark.parametrize(("gains_mib", "leaking"), [(0, None), (1, True)])
def test_batches_that_become_ever_longer_are_no_leak_yet(tmp_path, gains_mib, leaking):
    """More is needed at one moment. What is in use beside it stays, or piles up."""
    growth = in_arenas_of_threads(
        tmp_path, lambda second: 10 + 4 * second // 3, threads=1, in_use_mib=lambda s: 20 + gains_mib * s + 5 * (s % 3)
    )
    assert growth.leaking is leaking
    assert leaking or says(growth.reason, "need", "in use")


@pytest.mark.parametrize(("gains_mib", "leaking"), [(0, None), (1.5, True)])
def test_what_a_holder_gains_is_no_need_of_one_moment(tmp_path, gains_mib, leaking):
    growth = in_arenas_of_threads(
        tmp_path, lambda second: 10 + 4 * second // 3, threads=1, in_use_mib=lambda s: 20 + 5 * (s % 3),
        held_mib=lambda s: 5 + round(gains_mib * s),
    )  # fmt: skip
    assert growth.leaking is leaking


def test_arenas_that_keep_ever_more_than_their_threads_need_are_one(tmp_path):
    assert in_arenas_of_threads(tmp_path, lambda second: 20, in_use_mib=lambda s: 20 + s / 20).leaking is True


def small_objects(folder, in_use_mib):
    """60 s in which Python's arenas rise from 30 to 60 MiB; their blocks of 100 bytes are counted each second."""
    builder = RecordingBuilder(folder).process(PID)
    builder.samples(PID, [(40 + n / 8) * MiB for n in range(240)], every_s=0.25)
    in_use = [round(in_use_mib(s) * MiB) for s in range(60)]
    builder.sentinels(
        PID, malloc_in_use_bytes=5 * MiB, malloc_free_bytes=MiB, gc_enabled=True, gc_threshold=700,
        allocated_blocks=[used // 100 for used in in_use],
        pymalloc_in_use_bytes=[used if s % 3 == 0 else None for s, used in enumerate(in_use)],
        pymalloc_bytes=[(30 + s / 2) * MiB if s % 3 == 0 else None for s in range(60)],
    )  # fmt: skip
    return tree_growth(builder.ends(60.0, exit_code=0).open())


@pytest.mark.parametrize("phase_s", range(0, 7, 2))
def test_arenas_that_rise_while_their_objects_come_and_go_are_no_leak_yet(tmp_path, phase_s):
    """In whatever phase of it the run ends."""
    growth = small_objects(tmp_path, lambda s: (28 + s / 2) * ((s + phase_s) % 7) / 6)
    assert growth.leaking is None and "falls back to where it was" in growth.reason


@pytest.mark.parametrize(
    "in_use_mib",
    [lambda s: 5 + s / 2 + 20 * (s % 7) / 6, lambda s: 3 + 5 * (s % 7) / 6],
    ids=["the objects pile up as well", "what is free is not used again"],
)
def test_arenas_that_rise_beside_a_saw_are_one(tmp_path, in_use_mib):
    assert small_objects(tmp_path, in_use_mib).leaking is True


def up_and_down(folder, held_mib, takes_s=None, steps=None, *, is_sampled=False):
    """60 s of a program that goes up and down by 60 MiB, while exact snapshots say what ``store.KEPT`` holds.

    ``takes_s``: when they were made, the last of them as it ended; evenly, and all before, where it is not said.
    ``steps``: of training, that were done by then. None in ``held_mib``: that snapshot does not list it.
    """
    rng = np.random.default_rng(8)
    levels = [round((100 + rng.uniform(0, 60)) * MiB) for _ in range(240)]
    builder = RecordingBuilder(folder).process(1).samples(1, levels, every_s=0.25)
    for number, held in enumerate(held_mib, 1):
        at_s = takes_s[number - 1] if takes_s else 60.0 * number / (len(held_mib) + 1)
        is_last = takes_s is not None and number == len(held_mib)
        done = {"step": steps[number - 1]} if steps else {}
        builder.take(1, number, at_s, rss_bytes=130 * MiB, reason="exit" if is_last else "schedule", **done)
        if held is not None:
            graph = {"is_sampled": is_sampled, "weighs_tensors": True}
            builder.heap(1, number, at_s, round(held * MiB), round(100 * held), **graph)
        else:
            bare = {"path": "main() other", "variable": "other", "edge_kind": "local", "root_kind": "frame"}
            builder.holds(1, number, at_s, [bare | {"deep_bytes": 1000}], is_sampled=True, weighs_tensors=True)
    return tree_growth(builder.ends(60.0, exit_code=0).open())


def test_what_gains_as_much_in_each_second_leaks_though_the_rest_hides_it(tmp_path):
    growth = up_and_down(tmp_path, [4, 8, 12, 16, 20, 24, 28])
    assert growth.leaking is True
    assert growth.main is not None and growth.main.is_hidden
    assert growth.growth_bytes == pytest.approx(24 * MiB, rel=0.01)


@pytest.mark.parametrize(
    "held_mib", [[4, 14, 20, 23, 25, 26, 26.5], [4, 8, 12, 16, 20, 20, 20], [20, 4, 22, 6, 24, 8, 26]]
)
def test_what_fills_up_or_comes_and_goes_beside_as_much_does_not(tmp_path, held_mib):
    assert up_and_down(tmp_path, held_mib).leaking is not True


@pytest.mark.parametrize(
    ("held_mib", "leaking"),
    [([4, 6, 9, 14, 42], None), ([4, 6, 9, 14, 15], False), ([4, 6, 9, 14, 0], False)],
    ids=("kept-to-the-end", "slower", "let-go"),
)
def test_where_snapshots_are_dear_the_one_at_the_end_tells_what_went_on(tmp_path, held_mib, leaking):
    """Those at work are all of the first half."""
    growth = up_and_down(tmp_path, held_mib, (7.0, 10.0, 14.0, 20.0, 59.8))
    assert growth.leaking is leaking


@pytest.mark.parametrize(
    ("steps", "leaking"), [((10, 20, 50), None), ((10, 40, 50), False), (None, False)], ids=("each", "some", "unknown")
)
def test_three_snapshots_do_where_each_step_adds_a_member(tmp_path, steps, leaking):
    assert up_and_down(tmp_path, [4, 8, 20], steps=steps).leaking is leaking


@pytest.mark.parametrize(
    ("steps", "leaking"), [((10, 20, 50, 60), True), ((10, 40, 50, 60), None)], ids=("each", "some")
)
def test_four_tell_that_it_leaks(tmp_path, steps, leaking):
    assert up_and_down(tmp_path, [4, 8, 20, 24], steps=steps).leaking is leaking


@pytest.mark.parametrize(
    ("held_mib", "steps", "leaking"),
    [
        ([4, 4, 4, 4, 8, 12, 20, 24], (10, 20, 30, 40, 50, 60, 80, 90), True),
        ([4, 4, 4, 4, 4, 8, 12, 20], (10, 20, 30, 40, 50, 60, 70, 90), True),
        ([4, 4, 4, 4, 4, 4, 8, 20], (10, 20, 30, 40, 50, 60, 70, 100), None),
        ([24, 4, 24, 4, 8, 12, 20, 24], (10, 20, 30, 40, 50, 60, 80, 90), False),
        ([4, 4, 4, 4, 8, 12, 20, 24], (10, 20, 30, 30, 30, 30, 30, 30), False),
    ],
    ids=("four", "four-of-eight", "three", "emptied-before", "not-training-any-more"),
)
def test_what_begins_to_gain_a_member_a_step_leaks_from_then_on(tmp_path, held_mib, steps, leaking):
    assert up_and_down(tmp_path, held_mib, steps=steps).leaking is leaking


@pytest.mark.parametrize(
    ("held_mib", "leaking"),
    [([4, 8, 20, 24], True), ([4, None, 8, 20, None, 24], True), ([4, 8, 24, 24], False)],
    ids=("all", "some-do-not-list-it", "full"),
)
def test_lengths_are_exact_also_where_a_part_of_the_heap_was_read(tmp_path, held_mib, leaking):
    """A member a step in each snapshot that lists it, whatever resident memory does meanwhile."""
    steps = (10, 20, 50, 60) if len(held_mib) == 4 else (10, 15, 20, 50, 55, 60)
    assert up_and_down(tmp_path, held_mib, steps=steps, is_sampled=True).leaking is leaking


def saw_over(folder, in_use_mib):
    """60 s of C code that keeps what ``in_use_mib`` says, beside buffers that come and go, of up to 160 MiB."""
    rng = np.random.default_rng(8)
    held = [60 + mib + rng.uniform(0, 160) for mib in in_use_mib]
    builder = RecordingBuilder(folder).process(1).samples(1, [round(mib * MiB) for mib in held])
    in_use = [round(mib * MiB) for mib in in_use_mib]
    builder.sentinels(1, malloc_in_use_bytes=in_use, malloc_free_bytes=[MiB] * len(in_use))
    return tree_growth(builder.ends(60.0).open())


def test_what_is_in_use_leaks_in_memory_that_goes_up_and_down(tmp_path):
    growth = saw_over(tmp_path, [6 + 0.8 * n for n in range(60)])
    assert growth.leaking is True and "in use" in growth.reason


def test_what_is_in_use_and_stays_is_no_leak_below_the_same(tmp_path):
    assert saw_over(tmp_path, [min(6 + 4 * n, 50) for n in range(60)]).leaking is not True


def of_a_day(folder, per_minute_mib, horizon_s=None, lasted_s=7200.0):
    """Two hours of a process on a machine of 64 GiB."""
    every_s = lasted_s / 360
    held = [round((300 + per_minute_mib * n * every_s / 60 + (n % 2) * 0.1) * MiB) for n in range(360)]
    builder = RecordingBuilder(folder).process(1).samples(1, held, every_s=every_s)
    builder.host([40 << 30] * 360, 64 << 30, every_s=every_s)
    return tree_growth(builder.ends(lasted_s).open(), horizon_s)


def test_growth_that_does_not_matter_within_a_day_is_no_leak_and_is_said(tmp_path):
    growth = of_a_day(tmp_path, 0.2)
    assert growth.leaking is False and growth.is_harmless
    assert says(growth.reason, "288 MiB per day", "64.0 GiB")


@pytest.mark.parametrize(("horizon_s", "leaking"), [(None, False), (30 * 86400, True)], ids=("a day", "a month"))
def test_how_far_ahead_it_has_to_matter_is_the_users_to_say(tmp_path, horizon_s, leaking):
    assert of_a_day(tmp_path, 0.2, horizon_s).leaking is leaking


def test_no_leak_in_a_short_run_says_how_long_one_shows_a_leak_that_matters(tmp_path):
    """One that does matter within a day shows in a run of that length, and not in this one."""
    short, long = (tmp_path / name for name in ("short", "long"))
    short.mkdir()
    long.mkdir()
    growth = of_a_day(short, 0.0, lasted_s=60.0)
    assert growth.leaking is False
    assert growth.enough_s > 60.0
    assert of_a_day(long, 0.0, lasted_s=1.3 * growth.enough_s).enough_s is None


def test_no_leak_for_a_horizon_needs_the_power_to_have_seen_one(tmp_path):
    day, quarter = (tmp_path / name for name in ("day", "quarter"))
    day.mkdir()
    quarter.mkdir()
    assert of_a_day(day, 0.0, 86400).leaking is False
    growth = of_a_day(quarter, 0.0, 90 * 86400)
    assert growth.leaking is None and says(growth.reason, "record for about")


@pytest.mark.parametrize(("comes_mib", "leaking"), [(400, None), (4, False)], ids=("much", "little"))
def test_what_moves_by_more_than_it_holds_cannot_be_told_not_to_leak(tmp_path, comes_mib, leaking):
    """As much as all that stays could have come unseen; a short quiet run has its verdict."""
    comes = np.random.default_rng(3).uniform(0, comes_mib, 20)
    held = [30 + comes[n // 5] for n in range(100)]
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [round(mib * MiB) for mib in held], every_s=0.25)
    growth = tree_growth(builder.ends(25.0).open())
    assert growth.leaking is leaking
    assert leaking is not None or says(growth.reason, "would not have shown", "record for about")


def test_what_would_have_shown_is_told_of_the_time_after_a_load(tmp_path):
    """A load of 240 MiB in 40 s is no noise: 15 s that stand show a leak of 100 MiB a minute."""
    held = [64 + 240 * min(n, 160) / 160 for n in range(220)]
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [round(mib * MiB) for mib in held], every_s=0.25)
    growth = tree_growth(builder.ends(55.0).open())
    assert growth.leaking is False and growth.least_bytes_per_hour < 60 * 100 * MiB


def test_what_is_let_go_of_after_the_last_snapshot_is_no_leak(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1)
    levels = [40 + 2 * n if n < 50 else 36 for n in range(60)]
    builder.samples(1, [mb * MiB for mb in levels])
    for number in range(1, 8):
        at_s, held = 7.0 * number, 14 * number
        builder.take(1, number, at_s, rss_bytes=levels[7 * number] * MiB)
        builder.heap(1, number, at_s, held * MiB, 100 * held, is_sampled=False, weighs_tensors=True)
    assert tree_growth(builder.ends(60.0, exit_code=0).open()).leaking is False


def littering(folder, *, enabled=True, collections=3, kept_mib=0, each_bytes=500):
    """40 s in which 16 MiB of cycles pile up in a heap of 40 MiB, and ``kept_mib`` in ``store.KEPT``."""
    builder = RecordingBuilder(folder).process(1)
    builder.samples(1, [(60 + (16 + kept_mib) * n / 160) * MiB for n in range(160)], every_s=0.25)
    counts = [collections * n for n in range(41)]
    builder.sentinels(1, gc_collections=counts, gc_enabled=[enabled] * 41, gc_threshold=[700] * 41)
    for number, at_s in enumerate((3.0, 12.0, 21.0, 30.0, 38.0), 1):
        garbage = round(16 * MiB * at_s / 40)
        builder.take(1, number, at_s, rss_bytes=60 * MiB, gc_object_count=60_000)
        kept = MiB + round(kept_mib * MiB * at_s / 40)
        heap = {"retained_bytes": 39 * MiB + kept + garbage, "unreached_bytes": garbage}
        builder.heap(1, number, at_s, kept, 5 * number if kept_mib else 5, **heap)
        builder.row(
            "heap_strays", at_s, 1, take=number, type_name="store.Node", unreached_count=garbage // each_bytes,
            unreached_bytes=garbage, frozen_count=0,
        )  # fmt: skip
    return tree_growth(builder.ends(40.0, exit_code=0).open())


def test_garbage_that_a_full_collection_will_free_is_no_leak_yet(tmp_path):
    growth = littering(tmp_path)
    assert growth.leaking is None
    assert "full collection" in growth.reason


def test_a_few_large_cycles_are_too_few_for_the_collector_to_come(tmp_path):
    """It begins once there are a quarter as many as of all else: by then they would weigh more than that."""
    assert littering(tmp_path, each_bytes=5000).leaking is True


@pytest.mark.parametrize("collector", [{"enabled": False}, {"collections": 0}])
def test_garbage_that_nobody_collects_leaks(tmp_path, collector):
    assert littering(tmp_path, **collector).leaking is True


def test_garbage_excuses_no_holder_of_as_much(tmp_path):
    assert littering(tmp_path, kept_mib=18).leaking is True


def importing(folder, counts, *, kept_mib=0):
    """40 s in which memory grows by 80 MiB: modules, of which there are ``counts``, and what ``store.KEPT`` holds."""
    builder = RecordingBuilder(folder).process(1)
    builder.samples(1, [(60 + n / 2) * MiB for n in range(160)], every_s=0.25)
    for number, (at_s, count) in enumerate(zip((8.0, 18.0, 28.0, 38.0), counts), 1):
        builder.take(1, number, at_s, rss_bytes=round((60 + 2 * at_s) * MiB))
        builder.heap(1, number, at_s, round(kept_mib * at_s / 38 * MiB), 5 * number, modules=count)
    return tree_growth(builder.ends(40.0, exit_code=0).open())


def test_modules_that_are_imported_while_memory_grows_are_no_leak_yet(tmp_path):
    growth = importing(tmp_path, [500, 900, 1300, 1700])
    assert growth.leaking is None
    assert "1,200 modules were imported" in growth.reason


@pytest.mark.parametrize(("counts", "kept_mib"), [([500, 501, 501, 501], 0), ([500, 900, 1300, 1700], 60)])
def test_a_few_modules_or_such_beside_a_holder_of_most_excuse_nothing(tmp_path, counts, kept_mib):
    assert importing(tmp_path, counts, kept_mib=kept_mib).leaking is True


def test_what_was_imported_before_the_judged_window_excuses_nothing(tmp_path):
    """Training began after a slow start, and no snapshot was made since but that at the end: it knows what grew."""
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [(60 + min(n, 60) + max(n - 60, 0)) * MiB for n in range(121)])
    builder.sentinels(1, step=list(range(1, 61)), from_s=61.0)
    takes = (
        (10.0, 500, 0, "schedule"), (30.0, 1200, 0, "schedule"), (60.5, 1900, 0, "schedule"), (120.0, 1900, 50, "exit"),
    )  # fmt: skip
    for number, (at_s, count, kept_mib, reason) in enumerate(takes, 1):
        builder.take(1, number, at_s, reason=reason, rss_bytes=round((60 + at_s) * MiB))
        builder.heap(1, number, at_s, kept_mib * MiB, 5 + 9 * kept_mib, modules=count)
    report = analyze(builder.note(1, 120.0, "exit").ends(120.5, exit_code=0).open())
    assert report.verdict.leaking is True
    assert report.findings[0].subject.variable == "KEPT"


def test_libraries_that_were_imported_until_late_are_no_leak_yet(tmp_path):
    """Their C code takes far more than their modules: most of it came before the last was there."""
    builder = RecordingBuilder(tmp_path).process(1)
    held = [(20 + min(n, 100) / 2 + max(n - 100, 0) / 20) * MiB for n in range(160)]
    builder.samples(1, held, every_s=0.25)
    for number, (at_s, count) in enumerate(zip((8.0, 18.0, 26.0, 38.0), (150, 200, 240, 240)), 1):
        builder.take(1, number, at_s, rss_bytes=round(held[round(4 * at_s)]))
        builder.heap(1, number, at_s, 0, 5, modules=count)
    growth = tree_growth(builder.ends(40.0, exit_code=0).open())
    assert growth.leaking is not True


@pytest.mark.parametrize("noted", [True, False])
def test_what_came_before_the_agent_was_loaded_is_the_interpreters(tmp_path, noted):
    """A start of 30 s on a busy machine, then 10 MiB in 24 s: its first minute is no level to hold the rest against."""
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [(8 + max(n - 120, 0) * 0.2) * MiB for n in range(240)], every_s=0.25)
    if noted:
        builder.note(1, 30.0, "loaded")
    growth = tree_growth(builder.ends(60.0, exit_code=0).open())
    assert growth.leaking is not False
    assert growth.start_s > 30 or not noted


@pytest.mark.parametrize(("after_s", "leaking"), [(4.0, None), (60.0, True)])
def test_what_came_before_the_first_step_is_growth_only_if_it_goes_on(tmp_path, after_s, leaking):
    """Imports and the building of a model on a machine that gives the recorder little time after them."""
    before = [(100 + 5 * i) * MiB for i in range(60)]
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, before, every_s=0.25)
    rate = 4 if leaking else 0
    after = [before[-1] + rate * i * MiB for i in range(1, int(after_s) + 1)]
    builder.samples(PID, after, every_s=1.0, from_s=15.0)
    builder.sentinels(PID, step=[None] * 15 + list(range(int(after_s))))
    growth = tree_growth(builder.open())
    assert growth.leaking is leaking
    assert ("before the first training step" in growth.reason) is not bool(leaking)


@pytest.mark.parametrize(("kept", "leaking"), [(0.8, True), (0.0, None)])
def test_what_is_seen_to_pile_up_leaks_however_late_the_first_step_comes(tmp_path, kept, leaking):
    """Data is read on, into a list: after the first step too little came to be judged by itself."""
    builder = trainer(tmp_path).sentinels(PID, step=[None] * 13 + list(range(7)))
    for number, at_s in enumerate((3.0, 7.0, 11.0, 15.0, 19.0), 1):
        grown = round(at_s * LEAK_BYTES_PER_S)
        builder.take(PID, number, at_s, rss_bytes=100 * MiB + grown)
        builder.heap(PID, number, at_s, round(kept * grown), 100 * number)
    assert tree_growth(builder.ends(20.0, exit_code=0).open()).leaking is leaking


def test_a_worker_that_grew_and_ended_is_no_leak(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [500 * MiB] * 120, every_s=0.25)
    builder.process(2, role="dataloader-worker", died_s=22.0, exit_code=0)
    growth = tree_growth(builder.samples(2, [(50 + i) * MiB for i in range(88)], every_s=0.25).ends(30.0).open())
    assert growth.leaking is False


@pytest.mark.parametrize(("noted", "by_mib", "leaking"), [(True, 1, None), (False, 1, True), (True, 8, True)])
def test_what_torchs_history_takes_is_no_leak_of_the_jobs(tmp_path, noted, by_mib, leaking):
    """``--gpu-history`` has torch keep stacks in memory of the host: up to some 100 MiB."""
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [(500 + by_mib * i) * MiB for i in range(60)])
    if noted:
        builder.note(PID, 2.0, "gpu-history-on", "torch keeps its newest 100000 allocations")
    growth = tree_growth(builder.open())
    assert growth.leaking is leaking
    assert ("--gpu-history" in growth.reason) is (leaking is None)


def trainer_with_loaders(folder, *, leak_mib_per_s=1.0, from_s=30.0, inherited_step=500):
    """120 s of a trainer of 600 MiB and, from its first step on, two workers anew every 20 s.

    Each has all of its parent's pages, 10 MiB of its own, and goes on from its parent's step.
    """
    grows = [leak_mib_per_s * max(0, i / 2 - from_s) for i in range(240)]
    builder = RecordingBuilder(folder).process(1).ends(120.0)
    alone = [(600 + mib) * MiB for mib in grows]
    shared = [
        round(a if i < 60 else a - 400 * MiB) for i, a in enumerate(alone)
    ]  # two forks have two thirds of the 600
    builder.samples(1, [round(a) for a in alone], every_s=0.5, pss_bytes=shared, pss_anon_bytes=shared)
    builder.sentinels(1, step=[None if i < 30 else 10 * (i - 29) for i in range(120)])
    for n in range(10):
        born_s = 30.0 + 10 * (n // 2) * 2
        pid = 10 + n
        builder.process(pid, role="dataloader-worker", ppid=1, born_s=born_s, died_s=min(born_s + 20.0, 120.0))
        own = {"pss_bytes": 210 * MiB, "pss_anon_bytes": 210 * MiB, "uss_bytes": 10 * MiB}
        builder.samples(pid, [610 * MiB] * 39, every_s=0.5, from_s=born_s + 0.2, **own)
        builder.sentinels(pid, step=[inherited_step] * 19, from_s=born_s + 0.5)
    return tree_growth(builder.open())


def test_forks_that_go_on_from_their_parents_step_do_not_move_its_first_step(tmp_path):
    growth = trainer_with_loaders(tmp_path)
    assert growth.leaking is True and growth.main.pid == 1
    assert all(p.first_step_s is None for p in growth.processes if p.pid != 1)
    assert growth.process(1).first_step_s == pytest.approx(30.0, abs=2.0)


def test_what_forks_share_with_their_parent_is_the_parents(tmp_path):
    """Born in the judged window, they gained next to nothing, and their parent lost nothing."""
    growth = trainer_with_loaders(tmp_path)
    workers = [p for p in growth.processes if p.role == "dataloader-worker"]
    assert max(p.held_bytes.max() for p in workers) < 20 * MiB
    parent = growth.process(1)
    assert parent.held_bytes.min() > 590 * MiB
    assert parent.growth_bytes == pytest.approx((growth.end_s - growth.start_s) * MiB, rel=0.2)


@pytest.mark.parametrize(("stops", "leaking"), [(True, False), (False, True)])
def test_a_holder_that_was_seen_to_stop_is_not_hidden(tmp_path, stops, leaking):
    """Snapshots of the first half, when it filled: all that it gained was seen in the process."""
    filled = [min(i / 2, 30.0 if stops else 60.0) * 5 for i in range(120)]
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [round((50 + mib) * MiB) for mib in filled], every_s=0.5)
    for number, at_s in enumerate((5.0, 10.0, 15.0, 20.0, 25.0, 29.0, 59.8), 1):
        held = min(at_s, 30.0 if stops else 60.0) * 5
        reason = "exit" if number == 7 else "schedule"
        builder.take(1, number, at_s, rss_bytes=round((50 + held) * MiB), reason=reason)
        builder.heap(1, number, at_s, round(held * MiB), round(10 * held), is_sampled=False, weighs_tensors=True)
    assert tree_growth(builder.ends(60.0, exit_code=0).open()).leaking is leaking


def test_a_holder_of_more_than_there_is_has_buffers_that_nobody_touched(tmp_path):
    """Readers of files with a megabyte each of which a page is used."""
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [14 * MiB] * 120, every_s=0.5)
    for number, at_s in enumerate((8, 16, 24, 32, 40, 48, 56), 1):
        builder.take(1, number, at_s, rss_bytes=14 * MiB)
        builder.heap(1, number, at_s, 4 * at_s * MiB, 5 * at_s, is_sampled=False, weighs_tensors=True)
    assert tree_growth(builder.ends(60.0).open()).leaking is False
