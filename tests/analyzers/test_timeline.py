"""The timeline, the heap view and the excerpts: what is drawn closes with what was measured, and no peak is lost."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope import analyze
from leakscope.facts.case import Case
from leakscope.renderers import render
from leakscope.reporting.heap_view import heap_views
from leakscope.reporting.timeline import timeline as timeline_of

from ..builders import RecordingBuilder

MiB = 1024**2


def grows(count: int, by: int = MiB, start: int = 100 * MiB) -> list[int]:
    return [start + i * by for i in range(count)]


def trained(tmp_path, looks_s=(10.0, 30.0, 50.0)) -> RecordingBuilder:
    """One process that grows for a minute, with inventories that see tensors grow with it."""
    builder = RecordingBuilder(tmp_path).process(100, cmdline="python train.py")
    builder.samples(100, grows(60))
    builder.sentinels(
        100, step=list(range(0, 600, 10)), malloc_in_use_bytes=grows(60, start=60 * MiB), malloc_free_bytes=10 * MiB
    )
    for number, at_s in enumerate(looks_s, 1):
        held = int(at_s) * MiB
        builder.take(
            100,
            number,
            at_s,
            tensor_bytes=held,
            array_bytes=0,
            python_bytes=MiB,
            holders=[
                {"path": "main() trainer", "root_kind": "frame", "edge_kind": "local", "type_name": "train.Trainer",
                 "object_count": 1.0, "deep_bytes": held + 2 * MiB, "is_user": True},
                {"path": "main() trainer.history", "parent_path": "main() trainer", "root_kind": "frame",
                 "edge_kind": "attribute", "type_name": "list", "object_count": 1.0, "deep_bytes": held,
                 "is_user": True},
            ],
        )  # fmt: skip
    return builder.ends(60.0)


def test_accounts_and_processes_both_add_up_to_the_total(tmp_path):
    builder = trained(tmp_path).process(200, role="dataloader-worker", born_s=20.0, died_s=40.0)
    builder.samples(200, [50 * MiB] * 20, from_s=20.0, shmem_bytes=20 * MiB, anon_bytes=30 * MiB, file_bytes=5 * MiB)
    timeline = timeline_of(Case(builder.open()))
    for bands in (timeline.accounts, timeline.processes):
        total = np.sum([band.value_bytes for band in bands], axis=0)
        assert np.abs(total - timeline.total_bytes).max() <= len(bands)  # each is rounded
    assert [band.name for band in timeline.processes] == ["train.py[100]", "train.py[200]"]


def test_a_process_is_nothing_before_its_birth_and_after_its_death(tmp_path):
    builder = trained(tmp_path).process(200, born_s=20.0, died_s=40.0)
    builder.samples(200, [50 * MiB] * 20, from_s=20.0)
    timeline = timeline_of(Case(builder.open()))
    worker = dict(zip(timeline.time_s, timeline.processes[1].value_bytes))
    assert worker[10.0] == worker[45.0] == 0
    assert worker[30.0] == 50 * MiB


def test_tensors_are_drawn_from_inventory_to_inventory_and_on_as_memory_grew(tmp_path):
    timeline = timeline_of(Case(trained(tmp_path).open()))
    tensors = next(band for band in timeline.accounts if band.name == "tensors")
    at = dict(zip(timeline.time_s, tensors.value_bytes))
    assert tensors.estimated
    assert at[20.0] == pytest.approx(20 * MiB, rel=0.01)
    assert at[50.0] == pytest.approx(50 * MiB, rel=0.01)  # the last
    assert at[59.0] == pytest.approx(59 * MiB, rel=0.01)  # as the ledger has it


def test_with_one_inventory_in_the_judged_part_the_one_before_tells_how_fast_they_grow(tmp_path):
    """On a busy machine there is no time for more; else all that grew would be drawn as native memory."""
    recording = trained(tmp_path, looks_s=(2.0, 20.0)).open()
    tensors = next(band for band in timeline_of(Case(recording)).accounts if band.name == "tensors")
    assert dict(zip(timeline_of(Case(recording)).time_s, tensors.value_bytes))[59.0] == pytest.approx(
        59 * MiB, rel=0.03
    )
    (told,) = [row.end_bytes for row in Case(recording).ledger if row.account == "tensors"]
    assert told == pytest.approx(59 * MiB, rel=0.03)


def test_estimates_never_exceed_the_memory_there_was(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [100 * MiB] * 30)
    builder.take(100, 1, 5.0, tensor_bytes=900 * MiB, python_bytes=100 * MiB)
    builder.take(100, 2, 25.0, tensor_bytes=900 * MiB, python_bytes=100 * MiB)
    timeline = timeline_of(Case(builder.ends(30.0).open()))
    assert max(timeline.total_bytes) == 100 * MiB
    assert max(max(band.value_bytes) for band in timeline.accounts) <= 100 * MiB


def test_native_memory_and_small_objects_have_the_accounts_of_the_ledger(tmp_path):
    """Of 200 MiB malloc handed out 120, 30 of it tensors; Python's arenas are 40, 10 of them free; 20 are no one's."""
    seconds = range(30)
    builder = RecordingBuilder(tmp_path).process(100, cmdline="python train.py").samples(100, [200 * MiB] * 30)
    builder.sentinels(
        100,
        malloc_in_use_bytes=[120 * MiB for _ in seconds],
        malloc_free_bytes=20 * MiB,
        pymalloc_bytes=[40 * MiB for _ in seconds],
        pymalloc_in_use_bytes=[30 * MiB for _ in seconds],
    )
    for number, at_s in ((1, 5.0), (2, 25.0)):
        builder.take(100, number, at_s, tensor_bytes=30 * MiB, array_bytes=0, python_bytes=MiB)
    recording = builder.ends(30.0).open()
    timeline = timeline_of(Case(recording))
    at = timeline.time_s.index(15.0)
    wanted = {"tensors": 30, "python-objects": 30, "native": 90, "other": 20, "allocator-free": 30}
    assert {band.name: round(band.value_bytes[at] / MiB) for band in timeline.accounts} == wanted
    by_ledger = {row.account: round(row.end_bytes / MiB) for row in Case(recording).ledger}
    assert {name: by_ledger[name] for name in ("tensors", "python-objects", "native", "allocator-free")} == {
        name: wanted[name] for name in ("tensors", "python-objects", "native", "allocator-free")
    }


def test_phases_last_until_the_next_one_where_that_was_seen(tmp_path):
    builder = trained(tmp_path)
    for at_s, step, phase in ((1, 1, "train"), (2, 1, "train"), (10, 9, "eval"), (12, 9, "save"), (13, 9, "train")):
        builder.mark(100, float(at_s), step=step, phase=phase)
    builder.mark(100, 30.0, step=20, phase="eval").mark(100, 40.0, step=30, phase="eval")  # what was between?
    phases = [(m.phase, m.time_s, m.end_s) for m in timeline_of(Case(builder.open())).moments if m.kind == "phase"]
    assert phases == [
        ("train", 1.0, 10.0), ("eval", 10.0, 12.0), ("save", 12.0, 13.0), ("train", 13.0, 30.0), ("eval", 30.0, None),
        ("eval", 40.0, 59.0),
    ]  # fmt: skip


def test_every_moment_knows_its_step(tmp_path):
    timeline = timeline_of(Case(trained(tmp_path).open()))
    assert timeline.step[timeline.time_s.index(30.0)] == 300


def test_a_long_run_is_thinned_and_keeps_every_peak(tmp_path):
    """One sample in five thousand is high: once of the whole, once of a small process while the whole is low."""
    main, small = [500 * MiB] * 5000, [10 * MiB] * 5000
    main[1234] = 900 * MiB
    small[4321], main[4321] = 60 * MiB, 450 * MiB
    builder = RecordingBuilder(tmp_path).process(100, cmdline="python train.py").process(200, cmdline="python a.py")
    builder.samples(100, main).samples(200, small)
    timeline = timeline_of(Case(builder.ends(5000.0).open()))
    assert len(timeline.time_s) < 1200
    assert max(timeline.total_bytes) == 910 * MiB
    assert [max(band.value_bytes) for band in timeline.processes] == [900 * MiB, 60 * MiB]
    assert (timeline.time_s[0], timeline.time_s[-1]) == (0.0, 4999.0)


def test_many_processes_are_some_bands_and_the_rest(tmp_path):
    builder = RecordingBuilder(tmp_path)
    for pid in range(100, 130):
        builder.process(pid).samples(pid, [pid * MiB] * 10)
    bands = timeline_of(Case(builder.ends(10.0).open())).processes
    assert bands[0].name == "train.py[129]"
    assert bands[-1].name == "25 other processes"
    assert bands[-1].value_bytes[5] == sum(range(100, 125)) * MiB


def test_what_happened_is_marked_in_order(tmp_path):
    builder = trained(tmp_path).mark(100, 12.0, step=120, phase="eval").mark(100, 5.0, text="loaded data")
    builder.event("alert", 33.0, text="rss over 1 GiB").event("pressure", 40.0, text="85 % of the cgroup")
    builder.process(300, cmdline="python worker.py", died_s=45.0, exit_signal=9)
    moments = [(m.kind, m.time_s, m.text) for m in timeline_of(Case(builder.open())).moments]
    assert moments == sorted(moments, key=lambda m: m[1])
    assert ("mark", 5.0, "loaded data") in moments
    assert ("phase", 12.0, "eval begins at step 120") in moments
    assert ("alert", 33.0, "alert: rss over 1 GiB") in moments
    assert ("pressure", 40.0, "pressure: 85 % of the cgroup") in moments
    assert ("death", 45.0, "worker.py[300] was ended by SIGKILL") in moments
    assert ("take", 10.0, "snapshot 1 of train.py[100] (schedule, 10 ms)") in moments


def test_a_peak_is_not_marked_where_the_run_ended(tmp_path):
    """The recorder writes at the end how high it was. When that was, the curve shows."""
    builder = trained(tmp_path).event("peak", 59.0, text="peak 700 MiB", value=700.0 * MiB)
    assert not [m for m in timeline_of(Case(builder.open())).moments if "peak" in m.text]


def test_moments_are_bounded_and_the_report_says_how_many_are_missing(tmp_path):
    builder = trained(tmp_path)
    for number in range(500):
        builder.mark(100, number / 10, step=number, phase="eval")
    timeline = timeline_of(Case(builder.open()))
    shown = [m for m in timeline.moments if m.kind == "phase"]
    assert len(shown) + timeline.left_out["phase"] == 500
    assert (shown[0].time_s, shown[-1].time_s) == (0.0, 49.9)


def test_without_samples_there_is_no_timeline(tmp_path):
    report = analyze(RecordingBuilder(tmp_path).process(100).ends(1.0).open())
    assert report.timeline is None and not report.heap and not report.excerpts
    assert "Cannot tell" in render(report, "html")


def test_the_heap_lists_holders_with_their_figures_at_every_take(tmp_path):
    view = heap_views(Case(trained(tmp_path).open()))[0]
    assert view.process == "train.py[100]"
    assert [take.take for take in view.takes] == [1, 2, 3]
    trainer, history = view.holders
    assert (trainer.path, trainer.parent) == ("main() trainer", None)
    assert (history.path, view.holders[history.parent].path) == ("main() trainer.history", "main() trainer")
    assert list(history.bytes) == [10 * MiB, 30 * MiB, 50 * MiB]


@pytest.mark.further
def test_the_heap_is_bounded_to_the_largest_paths(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, grows(30))
    for number in range(1, 31):
        holders = [
            {"path": f"main() x{i}", "root_kind": "frame", "edge_kind": "local", "type_name": "list",
             "object_count": 1.0, "deep_bytes": i * 1000 * number, "is_user": True}
            for i in range(400)
        ]  # fmt: skip
        builder.take(100, number, number - 0.5, holders=holders)
    view = heap_views(Case(builder.ends(30.0).open()))[0]
    assert len(view.holders) == 200 and view.left_out_count == 201  # the variables, and what they are variables of
    assert len(view.takes) == 12
    assert (view.takes[0].take, view.takes[-1].take) == (1, 30)
    assert [holder.path for holder in view.holders[:2]] == ["main()", "main() x399"]


def test_a_finding_comes_with_the_lines_round_its_place(tmp_path):
    source = "class Trainer:\n    def fit(self):\n        for batch in data:\n            self.history.append(batch)\n"
    report = analyze(trained(tmp_path).source(100, "train.py", source).open())
    finding = next(f for f in report.findings if f.subject.line)
    excerpt = next(e for e in report.excerpts if (e.file, e.line) == (finding.subject.file, finding.subject.line))
    assert excerpt.lines[excerpt.line - excerpt.first_line] == "            self.history.append(batch)"


def test_who_is_there_at_the_last_moment_has_not_ended(tmp_path):
    builder = trained(tmp_path).process(200, born_s=20.0, died_s=40.0).process(300, born_s=20.0)
    builder.samples(200, [50 * MiB] * 20, from_s=20.0).samples(300, [50 * MiB] * 40, from_s=20.0)
    ended = [moment.text for moment in timeline_of(Case(builder.open())).moments if moment.kind == "end"]
    assert len(ended) == 1 and "[200]" in ended[0]


def test_a_kill_that_the_machine_counted_is_no_death_of_this_job(tmp_path):
    said = "the kernel's OOM killer ended 1 process: "
    builder = trained(tmp_path).event("oom-kill-counter", 30.0, text=said + "host")
    builder.event("oom-kill-counter", 31.0, text=said + "cgroup /small")
    moments = timeline_of(Case(builder.open())).moments
    kinds = {moment.text.removeprefix("oom-kill-counter: ").removeprefix(said): moment.kind for moment in moments}
    assert (kinds["host"], kinds["cgroup /small"]) == ("event", "death")


def test_growth_began_where_memory_left_its_level_not_where_it_drifted(tmp_path):
    """Flat for 24 s but for 5 MiB, and then 10 MiB a second."""
    rss = [round((100 + 0.2 * min(t, 24) + 10 * max(0, t - 24)) * MiB) for t in (0.25 * i for i in range(240))]
    builder = RecordingBuilder(tmp_path).process(100, cmdline="python train.py").samples(100, rss, every_s=0.25)
    outlook = analyze(builder.ends(60.0).open()).timeline.outlook
    assert outlook.began_s == pytest.approx(25.5, abs=2.5)
