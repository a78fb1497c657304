"""Long recordings that have ended: rows are left out, what a person is told is not."""

from __future__ import annotations

from leakscope.units import MiB
from leakscope.watching import feeds
from leakscope.watching.past import rows_of
from leakscope.watching.scene import Scene
from tests.builders import RecordingBuilder


def test_a_long_recording_keeps_its_peak_its_end_and_its_growth(tmp_path):
    seconds = 3 * 3600
    rss = [100 * MiB + i * MiB // 60 for i in range(seconds)]
    rss[5001] = 3000 * MiB
    pss = [None] * seconds
    pss[::600] = [value - 50 * MiB for value in rss[::600]]  # read now and then
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss, pss_bytes=pss)
    rows = list(rows_of(builder.ends().open()))
    assert len(rows) < seconds / 1.5
    scene = Scene()
    scene.take_in(rows)
    assert scene.figures.first_bytes is not None and abs(scene.figures.first_bytes - 50 * MiB) < MiB
    assert scene.figures.peak.size_bytes == 2950 * MiB
    assert scene.figures.last_bytes == rss[-1] - 50 * MiB
    assert scene.figures.bytes_per_s is not None and 0.9 < scene.figures.bytes_per_s * 60 / MiB < 1.1


def test_of_many_processes_fewer_moments_are_kept(tmp_path):
    """What is held does not grow with the number of processes, nor with how long they ran."""
    builder = RecordingBuilder(tmp_path)
    for pid in range(100, 120):
        builder.process(pid).samples(pid, [100 * MiB + second * MiB for second in range(2000)])
    rows = list(rows_of(builder.ends().open()))
    seconds = {row["time_mono_ns"] // 10**9 for table, row in rows if table == "process_samples"}
    assert 600 < len(seconds) < 900
    assert max(seconds) - min(seconds) > 1990


def test_a_short_recording_is_whole(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [MiB] * 400, every_s=0.25)
    assert sum(table == "process_samples" for table, _ in rows_of(builder.open())) == 400


def test_a_replay_begins_when_somebody_looks(tmp_path, monkeypatch):
    """And not while the screen comes up, which takes seconds on a busy machine."""
    now_s = 0.0
    monkeypatch.setattr(feeds.time, "monotonic", lambda: now_s)
    recording = RecordingBuilder(tmp_path).process(100).samples(100, [MiB] * 30).ends().open()
    feed = feeds.RecordingFeed(recording, speed=10.0)
    now_s = 60.0
    played = [len(list(feed.poll()))]
    now_s = 61.0
    feed.hold(0.5)  # half of it was a pause
    played.append(len(list(feed.poll())))
    now_s = 64.0
    played.append(len(list(feed.poll())))
    assert feed.is_over
    assert played[0] < played[1] == 5 < played[2]
