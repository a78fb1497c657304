"""Memory snapshots of torch become recordings: every generation, the same figures as torch's own tools."""

from __future__ import annotations

import pytest

from leakscope import analyze, open_recording, torch_snapshots
from leakscope.errors import UnreadableInput
from leakscope.facts.case import Case
from leakscope.importing import import_files

from .allocator import GENERATIONS, Device, MiB, called, dump, moved, snapshot, train


def imported(tmp_path, *files):
    return open_recording(import_files(files, tmp_path / "run.parquet").path)


def budget_of(recording):
    (budget,) = Case(recording).gpu_budgets
    return budget


@pytest.fixture
def trained():
    device = Device()
    train(device, 4)
    return device


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("generation", "name"),
    [*((generation, "s.pickle") for generation in GENERATIONS), ("2023", "s.json"), ("2026-07", "s.json.gz")],
)
def test_all_generations_tell_the_same(tmp_path, trained, generation, name):
    file = dump(tmp_path / name, snapshot(trained, generation=generation))
    budget = budget_of(imported(tmp_path, file))
    whole = sum(segment["total_size"] for segment in trained.segments)
    assert budget.device.reserved_bytes == whole == sum(budget.at_end.values())
    assert budget.at_end["model"] == 4 * 8 * MiB
    assert budget.at_end["gradients"] == 4 * 8 * MiB
    assert budget.at_end["optimizer"] == 2 * 4 * 8 * MiB
    assert budget.at_peak["workspaces"] == 8 * MiB  # of the optimizer, which frees it at once
    assert sum(budget.at_peak.values()) == whole


@pytest.mark.parametrize(("calls", "role"), [(30, "workspaces"), (8, "activations")])
def test_what_one_of_many_calls_leaves_is_a_workspace(tmp_path, calls, role):
    """As cuBLAS takes one: of a few calls unclear, and what stays may be kept."""
    device = Device()
    for step in range(calls):
        batch = device.alloc(4 * MiB, called(31))
        if not step:
            device.alloc(32 * MiB, called(31))
        device.free(batch)
    budget = budget_of(imported(tmp_path, dump(tmp_path / "s.pickle", snapshot(device))))
    assert budget.at_end[role] == 32 * MiB


def test_small_outputs_of_many_sizes_that_are_kept_are_no_workspaces(tmp_path):
    device = Device()
    sizes = [200_000 + 1024 * n for n in range(100)]
    for size in sizes:
        device.alloc(size, called(31))
    budget = budget_of(imported(tmp_path, dump(tmp_path / "s.pickle", snapshot(device))))
    assert budget.at_end["activations"] == sum(sizes)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_all_protocols_that_have_binary_containers(tmp_path, trained, protocol):
    file = dump(tmp_path / "s.pickle", snapshot(trained), protocol)
    assert budget_of(imported(tmp_path, file)).device.event_count == len(trained.events)


def test_segments_alone(tmp_path, trained):
    file = dump(tmp_path / "segments.pickle", snapshot(trained)["segments"])
    recording = imported(tmp_path, file)
    assert budget_of(recording).device.reserved_bytes == sum(s["total_size"] for s in trained.segments)
    assert "one moment" in " ".join(recording.tables["imports"]["text"])


def test_an_empty_snapshot_says_so(tmp_path):
    file = dump(tmp_path / "s.pickle", {"segments": [], "device_traces": [[], []]})
    with pytest.raises(UnreadableInput, match="empty"):
        imported(tmp_path, file)


def test_what_was_there_before_is_said_and_not_guessed(tmp_path):
    device = Device()
    device.records = False
    device.alloc(300 * MiB)
    device.records = True
    device.free(device.alloc(100 * MiB, called(31)))
    report = analyze(imported(tmp_path, dump(tmp_path / "s.pickle", snapshot(device))))
    rows = {(row.moment, row.account): row.bytes for row in report.tensor_budget}
    assert rows["snapshot", "before-recording"] == rows["snapshot-peak", "before-recording"] == 300 * MiB
    assert rows["snapshot-peak", "activations"] == 100 * MiB
    (peak,) = (finding for finding in report.findings if finding.kind == "gpu-peak")
    assert "300 MiB" in peak.doubts[0]


def test_times_are_those_of_the_file(tmp_path, trained):
    recording = imported(tmp_path, dump(tmp_path / "s.pickle", snapshot(trained)))
    events = recording.tables["gpu_events"]
    assert recording.meta["started_at"] == "2026-05-28T20:26:40Z"
    history = events[events["event_index"].notna()]
    assert history["time_s"].iloc[-1] == pytest.approx((len(trained.events) - 1) / 1e3, abs=0.1)


def test_what_the_program_and_the_compiler_said_is_shown(tmp_path):
    device = Device()
    for step in range(3):
        device.alloc(100 * MiB, called(31))
        device.events[-1] |= {"user_metadata": f"batch {step}", "compile_context": "2/0"}
    device.oom(900 * MiB, 10 * MiB, called(32))
    whole = snapshot(device)
    for event, made in zip(device.events, whole["device_traces"][0]):
        made |= {name: event[name] for name in ("user_metadata", "compile_context") if name in event}
    recording = imported(tmp_path, dump(tmp_path / "s.pickle", whole))
    contexts = recording.tables["gpu_events"]["compile_context"].dropna()
    assert contexts.tolist() == ["2/0"] * 3  # torch writes N/A where there was none
    (finding,) = analyze(recording, only=["gpu-out-of-memory"]).findings
    told = [evidence.text for evidence in finding.evidence]
    assert any("batch 0 100 MiB, batch 1 100 MiB, batch 2 100 MiB" in line for line in told)
    assert any("2/0 300 MiB" in line and "torch.compile" in line for line in told)


def test_a_folder_of_ranks_is_one_recording(tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(3):
        device = Device(rank)
        device.alloc(50 * MiB, moved())
        dump(folder / f"snapshot_rank{rank}.pickle", snapshot(device))
    (folder / "notes.txt").write_text("of Monday")
    processes = imported(tmp_path, folder).tables["processes"]
    assert processes["rank"].tolist() == [0, 1, 2] and processes["comm"].tolist() == ["rank 0", "rank 1", "rank 2"]


def test_two_snapshots_of_one_process_are_laid_over_each_other(tmp_path):
    device = Device()
    weights = [device.alloc(30 * MiB, moved()) for _ in range(4)]
    first = dump(tmp_path / "a.pickle", snapshot(device))
    device.alloc(500 * MiB, called(88))
    second = dump(tmp_path / "b.pickle", snapshot(device))
    report = analyze(imported(tmp_path, first, second), only=["gpu-retention"])
    assert len(weights) == 4 and not report.findings
    (skipped,) = report.skipped
    assert "500 MiB" in skipped.reason and "model.py:88" in skipped.reason


def test_a_head_is_enough_to_know_a_snapshot(tmp_path, trained):
    for name in ("s.pickle", "s.json", "s.pickle.gz", "s.json.gz"):
        head = dump(tmp_path / name, snapshot(trained)).read_bytes()[:4096]
        assert torch_snapshots.sniff(head, name)
    assert not torch_snapshots.sniff(b"\x80\x04}\x94\x8c\x05model\x94K\x01s.", "checkpoint.pt")
    assert not torch_snapshots.sniff(b"", "empty.pickle")


def test_a_snapshot_that_has_nothing_but_its_own_event_says_that_it_has_no_history(tmp_path):
    """As torch writes it where memory history was never recorded."""
    device = Device()
    train(device, 1, layers=1)
    whole = snapshot(device, generation="2023")
    whole["device_traces"] = [[{"action": "snapshot", "addr": 0, "size": 5, "stream": 0}]]
    notes = torch_snapshots.read(dump(tmp_path / "s.pickle", whole)).notes
    assert any("no history of allocations" in note for note in notes)
    assert not any("a microsecond apart" in note for note in notes)
