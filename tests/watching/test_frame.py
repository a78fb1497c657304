"""A frame made from a recording: what a person reads off it, and that it fits."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from leakscope.units import GiB, MiB
from leakscope.watching.feeds import JournalFeed, RecordingFeed
from leakscope.watching.frame import frame
from leakscope.watching.scene import Scene
from tests.builders import RecordingBuilder


def scene_of(builder: RecordingBuilder) -> tuple[Scene, str]:
    feed = RecordingFeed(builder.open())
    scene = Scene(feed.start_mono_ns)
    scene.take_in(feed.poll())
    return scene, feed.command


def text_of(builder: RecordingBuilder, **options: int) -> str:
    scene, command = scene_of(builder)
    return "\n".join(line.text for line in frame(scene, command, "ended", **options))


def growing(tmp_path, per_s: int = 10 * MiB, seconds: int = 120, **meta) -> RecordingBuilder:
    rss = [200 * MiB + per_s * i for i in range(seconds)]
    cpu_s = [0.5 * i for i in range(seconds)]
    return RecordingBuilder(tmp_path, **meta).process(100).samples(100, rss, cpu_s=cpu_s, thread_count=7)


def holder(path: str, bytes: int, parent: str | None = None, **columns):
    kind = "attribute" if "." in path or "[" in path else "local" if " " in path else "global"
    named = {"edge_kind": kind, "is_user": True, "type_name": "list"}
    return {**named, "path": path, "parent_path": parent, "deep_bytes": bytes, **columns}


def line_with(text: str, word: str) -> str:
    found = [line for line in text.splitlines() if word in line]
    assert found, f"no line has {word!r}:\n{text}"
    return found[0]


def test_memory_of_the_tree_now_its_peak_and_its_rate(tmp_path):
    text = text_of(growing(tmp_path))
    memory = line_with(text, "memory ")
    assert "1.4 GiB" in memory and "peak 1.4 GiB" in memory and "+600 MiB/min" in memory


def heights(text: str) -> list[int]:
    """How many rows of the chart each column fills."""
    rows = [line[10:].ljust(70) for line in text.splitlines()[1:7]]
    return [sum(cell in "░▒█" for cell in column) for column in zip(*rows)]


def test_memory_is_drawn_from_zero_as_it_rose(tmp_path):
    rising = [height for height in heights(text_of(growing(tmp_path))) if height]
    assert rising == sorted(rising) and rising[0] <= 2 and rising[-1] >= 4
    flat = heights(text_of(growing(tmp_path, per_s=4096)))
    assert len({height for height in flat if height}) == 1


def test_the_chart_divides_memory_as_snapshots_weighed_it_and_leads_on_to_the_limit(tmp_path):
    builder = growing(tmp_path).cgroup([(200 + 10 * i) * MiB for i in range(120)], 2 * GiB)
    builder.row("heap_graphs", 2.0, 100, take=1, retained_bytes=100 * MiB, storage_bytes=60 * MiB)
    builder.row("heap_graphs", 100.0, 100, take=2, retained_bytes=900 * MiB, storage_bytes=800 * MiB)
    text = text_of(builder)
    names = line_with(text, "tensors")
    assert "█ tensors 800 MiB" in names and "▒ held by objects 100 MiB" in names and "░ other 490 MiB" in names
    limit = line_with(text, "limit  ")
    assert "╌" in limit
    assert any("·" in line for line in text.splitlines()[1:7])


def test_the_chart_is_no_higher_than_memory_was_where_objects_are_freed_within_a_second(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [400 * MiB] * 60, every_s=0.25)
    for take, (at_s, held) in enumerate([(2.0, 300 * MiB), (12.3, 20 * MiB)], 1):
        builder.row("heap_graphs", at_s, 100, take=take, retained_bytes=held, storage_bytes=0)
    builder.ends(15.0)
    assert len({height for height in heights(text_of(builder)) if height}) == 1


def test_what_is_known_so_far_is_said_and_who_gained(tmp_path):
    builder = growing(tmp_path).take(100, 1, 5.0, holders=[holder("main() rows", 10 * MiB)])
    builder.take(100, 2, 100.0, holders=[holder("main() rows", 300 * MiB)])
    assert "it grows steadily; main() rows gained 290 MiB" in line_with(text_of(builder), "so far")


@pytest.mark.parametrize(("options", "said"), [({"seconds": 10}, "too early"), ({"per_s": 0}, "no steady growth")])
def test_what_is_not_known_is_said_too(tmp_path, options, said):
    assert said in line_with(text_of(growing(tmp_path, **options)), "so far")


def test_what_was_freed_again_stays_in_the_peak(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [100 * MiB] * 5 + [900 * MiB] + [100 * MiB] * 5)
    assert "100 MiB   peak 900 MiB" in text_of(builder)


@pytest.mark.parametrize("is_over", [False, True])
def test_what_a_snapshot_took_for_a_moment_is_no_peak_of_the_jobs(tmp_path, is_over):
    """As in the report: while it is recorded, and as the recorder told it at the end."""
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [100 * MiB] * 5 + [900 * MiB] + [110 * MiB] * 5)
    if is_over:
        builder.event("peak", 11.0, text="peak 110 MiB", value=110.0 * MiB).ends(11.0)
        assert "peak 110 MiB" in text_of(builder)
        return
    builder.row("heap_graphs", 4.9, 100, take=1, held_s=0.2)
    feed = JournalFeed(builder.write_journal())
    scene = Scene(feed.start_mono_ns)
    scene.take_in(feed.poll())
    assert scene.peak_text == "peak 110 MiB"


def test_no_peak_is_below_the_memory_beside_it(tmp_path):
    """Also while a snapshot holds memory of its own: nobody understands a peak of less than there is."""
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [100 * MiB] * 5 + [300 * MiB])
    builder.row("heap_graphs", 5.5, 100, take=1, held_s=2.0, reading_bytes=150 * MiB)
    scene = Scene((feed := RecordingFeed(builder.open())).start_mono_ns)
    scene.take_in(feed.poll())
    assert scene.figures.last_bytes == 300 * MiB and scene.peak.size_bytes == 300 * MiB


def test_steady_growth_says_when_the_nearest_limit_is_reached(tmp_path):
    builder = growing(tmp_path).cgroup([(200 + 10 * i) * MiB for i in range(120)], 2 * GiB)
    builder = builder.series(
        "host_samples", mem_available_bytes=[60 * GiB] * 120, mem_total_bytes=64 * GiB, oom_kill_count=0
    )
    limit = line_with(text_of(builder), "limit    ")
    assert "cgroup /job" in limit and "2.0 GiB" in limit
    assert "full in 65" in limit or "full in 66" in limit


def test_a_forecast_says_its_rate_where_others_fill_the_limit_too(tmp_path):
    """Else who divides what is left by the rate above comes to another time."""
    builder = growing(tmp_path).cgroup([(200 + 20 * i) * MiB for i in range(120)], 4 * GiB)
    text = text_of(builder)
    assert "+600 MiB/min" in line_with(text, "memory ")
    assert " at 1.2 GiB/min" in line_with(text, "limit    ")
    (tmp_path / "alone").mkdir()
    alone = growing(tmp_path / "alone").cgroup([(200 + 10 * i) * MiB for i in range(120)], 2 * GiB)
    assert "/min" not in line_with(text_of(alone), "limit    ")


def test_what_has_ended_fills_no_limit(tmp_path):
    builder = growing(tmp_path).cgroup([(200 + 10 * i) * MiB for i in range(120)], 2 * GiB)
    assert "full in" not in text_of(builder.ends())


def test_a_single_step_of_memory_gives_no_forecast(tmp_path):
    steps = [200 * MiB] * 60 + [1200 * MiB] * 60
    builder = RecordingBuilder(tmp_path).process(100).samples(100, steps).cgroup(steps, 2 * GiB)
    assert "full in" not in text_of(builder)


def test_processes_of_one_role_are_one_line(tmp_path):
    builder = growing(tmp_path, seconds=10)
    for pid in (101, 102, 103):
        builder.process(pid, role="dataloader-worker").samples(pid, [100 * MiB + i * MiB for i in range(10)])
    text = text_of(builder)
    assert "train.py [100]" in line_with(text, "train.py [100]")
    assert "50%" in line_with(text, "train.py [100]")
    workers = line_with(text, "dataloader-worker")
    assert "×3" in workers and "327 MiB" in workers


def test_a_process_that_died_holds_nothing(tmp_path):
    builder = growing(tmp_path, seconds=10).process(101, role="python-fork", died_s=5.0).samples(101, [GiB] * 5)
    text = text_of(builder)
    assert "python-fork" not in text and "peak 1.2 GiB" in text
    assert "290 MiB" in line_with(text, "memory ")


def test_what_a_process_held_is_forgotten_some_time_after_its_end(tmp_path):
    builder = growing(tmp_path, seconds=60).process(101, born_s=1.0, died_s=20.0).samples(101, [GiB] * 15)
    builder.take(101, 1, 5.0, holders=[holder("gone", GiB)]).take(100, 1, 6.0, holders=[holder("here", GiB)])
    text = text_of(builder)
    assert "here" in text and "gone" not in text


def test_of_a_job_that_ended_the_last_moment_is_shown(tmp_path):
    assert "train.py [100]" in text_of(growing(tmp_path, seconds=10).ends(exit_code=1))


def test_steps_and_their_pace(tmp_path):
    builder = growing(tmp_path, seconds=20).sentinels(100, step=[5 * i for i in range(20)])
    assert "95   5.0 steps/s" in line_with(text_of(builder), "step ")


def test_requests_of_a_service_are_called_so(tmp_path):
    builder = growing(tmp_path, seconds=20).sentinels(100, step=[5 * i for i in range(20)])
    assert "95   5.0 requests/s" in line_with(text_of(builder.note(100, 1.0, "counts", "requests")), "request ")


def test_the_holder_is_named_and_neither_what_it_hangs_on_nor_its_members(tmp_path):
    def heap(history: int, weights: int):
        return [
            holder("main() trainer", history + weights, edge_kind="local", type_name="__main__.Trainer"),
            holder("main() trainer.history", history, "main() trainer", length=history // MiB),
            holder("main() trainer.history[*]", history, "main() trainer.history", edge_kind="item"),
            holder("main() trainer.history[*].loss", history, "main() trainer.history[*]"),
            holder("main() trainer.weights", weights, "main() trainer", type_name="Weights"),
        ]

    builder = growing(tmp_path, seconds=10).take(100, 1, 1.0, holders=heap(100 * MiB, 50 * MiB))
    builder.take(100, 2, 5.0, holders=heap(300 * MiB, 50 * MiB)).take(100, 3, 9.0, holders=[], reason="exit")
    text = text_of(builder)
    shown = [line.split()[:2] for line in text.partition("HOLDERS")[2].splitlines()[1:]]
    assert shown == [["main()", "trainer.history"], ["main()", "trainer.weights"]]
    row = line_with(text, "trainer.history")
    assert "300 MiB" in row and "+200 MiB" in row and row.endswith("300")
    assert "HOLDERS 4 s ago" in text


def test_an_inventory_that_was_cut_short_is_no_base_for_growth(tmp_path):
    builder = growing(tmp_path, seconds=10).take(100, 1, 1.0, holders=[], truncated=True)
    builder.take(100, 2, 5.0, holders=[holder("cache", 80 * MiB)])
    assert "+" not in line_with(text_of(builder), "cache ")


def test_alerts_and_children_that_were_killed_are_told(tmp_path):
    builder = growing(tmp_path, seconds=10).event("alert", 4.0, text="rss>40GB: 41 GB resident in 3 processes")
    builder.process(101, role="dataloader-worker").samples(101, [MiB] * 3)
    builder.row("processes", 6.0, 101, role="dataloader-worker", died_mono_ns=1, exit_signal=9)
    text = text_of(builder)
    assert "rss>40GB: 41 GB resident" in line_with(text, "4 s  ")
    assert "(dataloader-worker) [101] was ended by SIGKILL" in text


@pytest.mark.cases(2)
@pytest.mark.parametrize("width", [80, 40, 200, 20])
def test_it_fits_the_terminal(tmp_path, width):
    command = ["python", "日本語/train.py", "--name", "a\x1b[2Jb\nc", *["--long"] * 40]
    builder = growing(tmp_path, seconds=10, command=command)
    for pid in range(101, 121):
        builder.process(pid, role="other", comm=f"p{pid}", cmdline=f"p{pid}").samples(pid, [MiB] * 10)
    for at_s in range(9):
        builder.event("pressure", at_s, text="memory under pressure: " + "x " * 90)
    builder.take(100, 1, 1.0, holders=[holder(f"main() {'deeply.' * 20}n{i}", MiB) for i in range(20)])
    scene, command_line = scene_of(builder)
    lines = frame(scene, command_line, "recording", width=width)
    assert all(cell_len(line.text) <= width for line in lines)
    assert all(line.text.isprintable() for line in lines)


def test_a_recording_without_samples_says_so(tmp_path):
    assert "not yet read" in text_of(RecordingBuilder(tmp_path).process(100))
