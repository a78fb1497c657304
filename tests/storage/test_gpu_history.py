"""Memory snapshots that torch wrote into a journal are part of the recording, on its clock and of its process."""

from __future__ import annotations

from leakscope import analyze, open_recording
from leakscope.storage.finalize import finalize
from tests.builders import RecordingBuilder, start_ticks
from tests.importing.allocator import START_US, Device, called, dump, snapshot, train

MiB = 1 << 20
PID = 100


def folded(tmp_path, *snapshots):
    """A recording in whose journal torch wrote these, as objects or as bytes."""
    builder = RecordingBuilder(tmp_path, start_unix_ns=START_US * 1000).process(PID).samples(PID, rss=[100 * MiB] * 5)
    path = builder.ends(at_s=5.0).write_journal()
    for number, whole in enumerate(snapshots, 1):
        file = builder.journal / f"gpu-{PID}-{start_ticks(PID)}-{number}.gpu.pickle"
        file.write_bytes(whole) if isinstance(whole, bytes) else dump(file, whole)
    return open_recording(finalize(path))


def test_a_snapshot_is_folded_in_and_its_file_goes(tmp_path):
    device = Device()
    train(device, 7, leak=True)
    recording = folded(tmp_path, snapshot(device))
    events = recording.tables["gpu_events"]
    assert set(events["pid"]) == {PID} and 0 <= events["time_s"].min() < 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]
    (finding,) = analyze(recording, only=["gpu-retention"]).findings
    assert (finding.subject.pid, finding.subject.line) == (PID, 31)


def test_one_that_cannot_be_read_costs_nothing_else(tmp_path):
    recording = folded(tmp_path, b"\x80\x04}cos\nsystem\n")
    assert len(recording.tables["process_samples"]) == 5
    assert "no torch snapshot" in recording.tables["agent_notes"]["text"].iloc[0]
    assert any("GPU memory" in note for note in analyze(recording).recording.notes)


def test_two_are_told_apart(tmp_path):
    first, second = Device(), Device()
    first.alloc(50 * MiB, called(31))
    second.alloc(90 * MiB, called(31))
    recording = folded(tmp_path, snapshot(first), snapshot(second))
    assert recording.tables["gpu_snapshots"]["snapshot"].tolist() == [1, 2]
