"""Files that are read by their tool's own library, made by the tool as the test runs. They skip without the extras."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.errors import LeakscopeError
from leakscope.importing import import_files
from tests.recorder.runs import until

from .files import imported

pytestmark = pytest.mark.slow
PROGRAM = """
import sys, time
history, end = [], time.monotonic() + 13
while time.monotonic() < end:
    batch = bytearray(400_000)
    if sys.argv[1] == "leaky":
        history.append(batch)
    time.sleep(0.05)
"""


def _memray(folder: Path, kind: str, *options: str) -> Path:
    pytest.importorskip("memray")
    (folder / "job.py").write_text(PROGRAM)
    capture = folder / f"{kind}.bin"
    command = [sys.executable, "-m", "memray", "run", *options, "-o", str(capture), "job.py", kind]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return capture


def test_memray_names_the_line_and_its_figures_are_memrays(tmp_path: Path) -> None:
    capture = _memray(tmp_path, "leaky")
    from memray import FileReader

    with FileReader(str(capture)) as reader:
        snapshots, about = list(reader.get_memory_snapshots()), reader.metadata
    recording = imported(tmp_path, capture)
    assert recording.tables["process_samples"]["rss_bytes"].tolist() == [one.rss for one in snapshots]
    assert f"{about.peak_memory:,} bytes" in recording.tables["imports"]["text"].iloc[0]
    alive = recording.tables["allocation_stacks"].groupby("time_s")["live_bytes"].sum()
    assert alive.max() <= about.peak_memory and alive.max() >= 0.9 * about.peak_memory
    report = analyze(recording)
    assert report.verdict.leaking is True
    first = report.findings[0].subject
    assert (first.pid, Path(first.file or "").name, first.line) == (about.pid, "job.py", 5)


def test_memray_of_a_clean_program_and_aggregated(tmp_path: Path) -> None:
    assert analyze(imported(tmp_path, _memray(tmp_path, "clean"))).verdict.leaking is False
    recording = imported(tmp_path, _memray(tmp_path, "leaky", "--aggregate", "-f"))
    assert len(recording.tables["allocation_stacks"]) and len(recording.tables["process_samples"]) > 100


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
def test_a_damaged_capture_is_one_line(tmp_path: Path, damage: str) -> None:
    whole = bytearray(_memray(tmp_path, "leaky").read_bytes())
    if damage == "flipped":
        for at in range(200, len(whole), 97):
            whole[at] ^= 0x55
    content = {"cut": whole[:300], "flipped": whole, "foreign": b"memray\0" + b"x" * 5000}[damage]
    path = tmp_path / "bad.bin"
    path.write_bytes(bytes(content))
    with pytest.raises(LeakscopeError) as error:
        import_files([path], tmp_path / "bad.parquet", form="memray")
    assert error.value.exit_status == 3 and str(error.value).isprintable() and "bad.bin" in str(error.value)


def test_nothing_reads_on_when_the_import_was_killed(tmp_path: Path) -> None:
    pytest.importorskip("memray")
    path = tmp_path / "endless.bin"
    path.write_bytes(b"memray\0" + bytes(200))
    os.truncate(path, 10 << 30)  # memray's reader is at it for minutes
    command = [sys.executable, "-m", "leakscope", "import", str(path), "-o", str(tmp_path / "run.parquet")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as importing:
        children = Path(f"/proc/{importing.pid}/task/{importing.pid}/children")
        reads = until(lambda: next((pid for pid in children.read_text().split() if _reads(pid, path)), None))
        importing.kill()
    until(lambda: not _reads(reads, path))


def test_a_file_that_keeps_its_library_busy_is_given_up_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("memray")
    path = tmp_path / "endless.bin"
    path.write_bytes(b"memray\0" + bytes(200))
    os.truncate(path, 1 << 40)  # a hole: 4 KiB on disk
    monkeypatch.setattr("leakscope.importing._apart._LEAST_CPU_S", 2)
    with pytest.raises(LeakscopeError, match="took more than 2 s of processor time") as error:
        import_files([path], tmp_path / "bad.parquet")
    assert error.value.exit_status == 3 and str(error.value).isprintable() and not list(Path().glob("core*"))


def _reads(pid: str, path: Path) -> bool:
    try:
        return any(os.readlink(one) == str(path) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _wandb(folder: Path, kind: str) -> Path:
    pytest.importorskip("wandb")
    program = folder / "job.py"
    settings = "wandb.Settings(x_stats_sampling_interval=0.5)"
    start = f"import wandb\nrun = wandb.init(project='p', settings={settings})\n"
    program.write_text(start + PROGRAM.replace("+ 13", "+ 20") + "run.finish()\n")
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    subprocess.run([sys.executable, "job.py", kind], cwd=folder, check=True, env=environment, timeout=180)
    return next((folder / "wandb").glob("offline-run-*/*.wandb"))


def test_an_offline_run_of_wandb(tmp_path: Path) -> None:
    path = _wandb(tmp_path, "leaky")
    recording = imported(tmp_path, path)
    report = analyze(recording)
    assert report.verdict.leaking is True
    assert report.recording.command[-2:] == ["job.py", "leaky"] or "job.py" in " ".join(report.recording.command)
    assert recording.tables["host_samples"]["mem_available_bytes"].notna().any()
    path.write_bytes(path.read_bytes()[:-5000])  # of a run that was killed
    assert "torn at byte" in imported(tmp_path, path).tables["imports"]["text"].iloc[0]


def test_scalars_of_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer, began_s = EventFileWriter(str(tmp_path / "logs")), time.time()
    for i in range(60):
        values = {"loss": 1 / (i + 1), "system/rss_mb": 500 + 4 * i, "cuda:1/allocated_GiB": 2.0, "host_memory": 3.0}
        parts = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        writer.add_event(Event(wall_time=began_s + i, step=i, summary=Summary(value=parts)))
    writer.close()
    recording = imported(tmp_path, tmp_path / "logs")
    assert recording.tables["process_samples"]["rss_bytes"].tolist() == [(500 + 4 * i) << 20 for i in range(60)]
    assert set(recording.tables["allocator"]["device"]) == {"cuda:1"}
    assert "the unit of host_memory is not known" in recording.tables["imports"]["text"].iloc[0]
    assert analyze(recording).verdict.leaking is True


def test_a_library_that_is_not_there_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    path = tmp_path / "run.wandb"
    path.write_bytes(b":W&B" + bytes(100))
    hidden = tmp_path / "site" / "wandb.py"
    hidden.write_text("raise ModuleNotFoundError(\"No module named 'wandb'\", name='wandb')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    with pytest.raises(LeakscopeError, match=r"pip install wandb"):
        import_files([path], tmp_path / "o.parquet")
