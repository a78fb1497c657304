"""Recordings that go elsewhere: recorded here, uploaded meanwhile and at the end, also when somebody is killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leakscope
from leakscope import open_recording
from leakscope.addresses import as_url, name_of, without_credentials
from leakscope.cli import main
from leakscope.errors import BadInput, LeakscopeError, UnreadableRecording
from leakscope.storage.remote import move, put, size_of
from leakscope.storage.whole_heap import FORMAT_KEY
from leakscope.uploading import upload
from tests.builders import RecordingBuilder
from tests.recorder.runs import PYTHON, TIMEOUT_S, environment, is_running, record, record_command, until

fsspec = pytest.importorskip("fsspec")

SLEEPS = "import time; print('ready', flush=True); time.sleep(100)"


@pytest.fixture
def memory() -> Iterator[str]:
    """A bucket of this process."""
    yield "memory://bucket"
    fsspec.filesystem("memory").store.clear()


def recording(folder: Path, **meta: object) -> Path:
    folder.mkdir(exist_ok=True)
    return RecordingBuilder(folder, **meta).process(100).samples(100, rss=[1 << 20] * 5).ends(at_s=5.0).write()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/run.parquet", "s3://bucket/run.parquet"),
        ("s3:/bucket/run.parquet", "s3://bucket/run.parquet"),  # what a Path makes of it
        ("file:/tmp/run.parquet", "file:///tmp/run.parquet"),
        ("run.parquet", None),
        ("/tmp/a:/b", None),
        ("runs/{job}.parquet", None),
    ],
)
def test_what_is_an_address(text: str, url: str | None) -> None:
    assert as_url(text) == url


def test_credentials_are_not_shown() -> None:
    shown = without_credentials("sftp://me:hunter2@host/runs/run.parquet?key=abc")
    assert shown == "sftp://host/runs/run.parquet?..."
    assert name_of("sftp://me:hunter2@host/runs/run.parquet?key=a/b") == "run.parquet"
    assert name_of("s3://bucket/runs/") == ""


def test_a_recording_elsewhere_is_read_as_one_here(
    tmp_path: Path, memory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path)
    url = f"{memory}/runs/run.parquet"
    put(str(path), url)
    assert size_of(url) == path.stat().st_size
    there, here = open_recording(url), open_recording(path)
    assert there.tables.process_samples.equals(here.tables.process_samples)
    assert there.location == url
    assert main(["report", url, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["recording"]["path"] == url


def test_what_cannot_be_read_elsewhere_is_one_line(
    tmp_path: Path, memory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnreadableRecording, match=r"there is no file memory://bucket/none\.parquet"):
        open_recording(f"{memory}/none.parquet")
    (tmp_path / "text").write_text("no recording at all")
    put(str(tmp_path / "text"), f"{memory}/text.parquet")
    assert main(["report", f"{memory}/text.parquet"]) == 3
    assert main(["report", "ftp://me:hunter2@127.0.0.1:1/run.parquet"]) == 2  # no address that anybody knows
    said = capsys.readouterr().err
    assert "is not a recording" in said and "hunter2" not in said
    assert len(said.splitlines()) == 2


def test_an_earlier_recording_of_that_name_is_renamed(tmp_path: Path, memory: str) -> None:
    url = f"{memory}/run.parquet"
    first = recording(tmp_path / "a", host="first")
    second = recording(tmp_path / "b", host="second")
    upload(first, url)
    upload(first, url)  # the same once more
    upload(second, url)
    assert open_recording(url).meta["host"] == "second"
    assert open_recording(f"{memory}/run.20261121T100000.parquet").meta["host"] == "first"
    assert open_recording(url).meta["verdict"]["leakscope_version"]
    move(url, "other.parquet")
    assert size_of(url) is None


def test_a_name_is_needed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="names no file"):
        from leakscope.recorder.uploads import Upload

        Upload("s3://bucket/runs/", str(tmp_path), every_s=None, force=False)
    assert not list(tmp_path.iterdir())


def test_a_whole_heap_among_files_is_no_recording(tmp_path: Path, memory: str) -> None:
    path, heap = recording(tmp_path), tmp_path / "run.heap-7-1.parquet"
    identity = {FORMAT_KEY: json.dumps({"pid": 7, "start_ticks": 1, "take": 1})}
    pq.write_table(pa.table({"object": [1]}).replace_schema_metadata(identity), heap)
    assert main(["finalize", "-q", "--judge", str(path), str(heap)]) == 0
    assert main(["upload", str(path), str(heap), "--to", f"{memory}/runs/"]) == 0
    assert "verdict" in open_recording(f"{memory}/runs/run.parquet").meta
    assert size_of(f"{memory}/runs/{heap.name}") is None  # it is no snapshot of this recording


def test_only_the_recorder_records_for_a_url() -> None:
    with pytest.raises(BadInput, match=r"^s3://bucket/run\.parquet: only `leakscope record`"):
        leakscope.record("s3://me:hunter2@bucket/run.parquet")


def test_a_target_that_cannot_be_is_told_without_its_password(tmp_path: Path) -> None:
    path = recording(tmp_path)
    with pytest.raises(LeakscopeError) as caught:
        upload(path, "ftp://me:hunter2@127.0.0.1:1/run.parquet")
    assert "hunter2" not in str(caught.value) and "ftp://127.0.0.1:1/run.parquet" in str(caught.value)


def waits(spool: Path) -> list[Path]:
    return sorted(spool.glob("*/*.parquet"))


@pytest.mark.live
def test_recorded_here_and_uploaded_at_the_end(tmp_path: Path) -> None:
    bucket, spool = tmp_path / "bucket", tmp_path / "spool"
    url = f"file://{bucket}/{{job}}.parquet"
    words = ("--spool", str(spool), "--upload-wait", "60s", "-o", url, "--", "sh", "-c", "exit 3")
    result = record(tmp_path, *words, finalize=True, LEAKSCOPE_JOB="4711")
    assert result.returncode == 3
    lines = result.stderr.splitlines()
    assert str(spool) in lines[0] and f"file://{bucket}/4711.parquet" in lines[0]
    assert f"leakscope report file://{bucket}/4711.parquet" in lines[-1]
    assert open_recording(bucket / "4711.parquet").meta["verdict"]
    assert [p.name for p in bucket.iterdir()] == ["4711.parquet"]
    assert not list(spool.iterdir())


@pytest.mark.slow
@pytest.mark.live
def test_a_store_that_cannot_be_reached_does_the_job_no_harm(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    words = ("--spool", str(spool), "--upload-wait", "60s", "-o", "ftp://me:hunter2@127.0.0.1:1/run.parquet", "true")
    result = record(tmp_path, *words, finalize=True)
    assert result.returncode == 0
    assert "hunter2" not in result.stderr
    (left,) = waits(spool)
    assert f"leakscope upload {left}" in result.stderr
    everything = (
        b"".join(p.read_bytes() for p in left.parent.iterdir()) + json.dumps(open_recording(left).meta).encode()
    )
    assert b"hunter2" not in everything and b"ftp://127.0.0.1:1/run.parquet" in everything
    # The login is written nowhere, so who uploads it later has to name it.
    assert main(["upload", "--spool", str(spool)]) == 2
    assert main(["upload", "--spool", str(spool), "--to", f"file://{tmp_path}/bucket/"]) == 0
    assert open_recording(tmp_path / "bucket" / "run.parquet").meta["command"] == ["true"]
    assert not waits(spool)


@pytest.mark.slow
def test_after_a_kill_the_next_start_or_the_command_uploads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket, spool = tmp_path / "bucket", tmp_path / "spool"
    words = ["-q", "--flush", "100ms", "--spool", str(spool), "--upload-every", "1s"]
    command = [*words, "-o", f"file://{bucket}/run.parquet", "--", PYTHON, "-c", SLEEPS]
    recorder = subprocess.Popen(
        record_command(*command, finalize=True), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert recorder.stdout is not None and recorder.stdout.readline() == "ready\n"
    # While it runs: uploaded as far as it is, and read by anybody.
    until(lambda: (bucket / "run.parquet").exists())
    meta = open_recording(bucket / "run.parquet").meta
    assert meta["state"] == "checkpoint"
    (live,) = waits(spool)
    assert main(["upload", "--spool", str(spool)]) == 0
    assert "still being recorded" in capsys.readouterr().err and live.exists()
    job = next(iter(open_recording(live).tables.processes["pid"]))
    recorder.kill()
    recorder.wait(timeout=TIMEOUT_S)
    recorder.communicate(timeout=TIMEOUT_S)
    until(lambda: not is_running(int(job)))
    assert main(["upload", "--spool", str(spool), "--dry-run"]) == 0
    assert f"file://{bucket}/run.parquet" in capsys.readouterr().err
    other = [*words, "-o", f"file://{bucket}/other.parquet", "--", PYTHON, "-c", "import time; time.sleep(8)"]
    result = subprocess.run(record_command(*other, finalize=True), cwd=tmp_path, env=environment(), timeout=60)
    assert result.returncode == 0
    until(lambda: open_recording(bucket / "run.parquet").meta["state"] == "final", 5 * TIMEOUT_S)
    assert open_recording(bucket / "run.parquet").ended[0] == "lost"
    until(lambda: not list(spool.iterdir()), 5 * TIMEOUT_S)
