"""Curves, verdict and page in trackers: what is told, by a tracker of the test's, and by the real SDKs offline."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakscope import options, pushing
from leakscope.cli import main
from leakscope.errors import BadInput, LeakscopeError
from leakscope.options import parse_record
from leakscope.pushing import Outcome, Point
from tests.builders import START_UNIX_NS, RecordingBuilder

MiB = 1 << 20
TRAINER = 100
ROOT = Path(__file__).parents[2]


class Kept:
    """A tracker that keeps what it is told."""

    def __init__(self, fails: bool = False) -> None:
        self.points: list[Point] = []
        self.alerts: list[str] = []
        self.outcome: Outcome | None = None
        self.page = ""
        self._fails = fails

    def log(self, point: Point) -> None:
        if self._fails:
            raise ConnectionError("no route\nto host")
        self.points.append(point)

    def alert(self, title: str, text: str) -> None:
        self.alerts.append(text)

    def finish(self, outcome: Outcome) -> str:
        self.outcome, self.page = outcome, outcome.page.read_text("utf-8")
        return "here"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    monkeypatch.setattr(pushing, "begin", lambda target, about: kept)
    return kept


def leaking(folder: Path) -> RecordingBuilder:
    memory = [200 * MiB + i * 4 * MiB for i in range(61)]
    return (
        RecordingBuilder(folder)
        .process(TRAINER)
        .samples(TRAINER, memory)
        .sentinels(TRAINER, step=list(range(0, 610, 10)))
        .host([10_000 * MiB - i * 4 * MiB for i in range(61)], 16_000 * MiB)
        .event("alert", 50.0, text="rss>400MB: 401 MB")
        .ends(60.0)
    )


def test_a_process_that_is_going_is_no_drop_at_the_end_of_a_curve(kept, tmp_path):
    """The last sample of a job finds what is left of it."""
    memory = [200 * MiB + i * 4 * MiB for i in range(61)]
    times = [*range(61), 60.6, 60.7]
    builder = RecordingBuilder(tmp_path).process(TRAINER)
    for at_s, size in zip(times, [*memory, 300 * MiB, 14 * MiB]):
        builder.samples(TRAINER, [size], from_s=at_s)
    pushing.push(builder.ends(60.8).write(), "kept")
    levels = [point.figures["leakscope/memory_bytes"] for point in kept.points]
    assert levels[-1] == memory[-1]


def test_a_recording_is_told_by_its_curves_its_verdict_and_its_page(kept, tmp_path):
    assert pushing.push(leaking(tmp_path).write(), "kept") == "here"
    at_s = [round(point.time_s) for point in kept.points]
    assert at_s == list(range(0, 61, 5))
    tenth = kept.points[2]
    assert tenth.figures["leakscope/memory_bytes"] == 240 * MiB
    assert tenth.figures["leakscope/step"] == 90  # the last that was read before
    assert tenth.unix_s == pytest.approx(START_UNIX_NS / 1e9 + 10)
    assert kept.points[-1].figures["leakscope/peak_bytes"] == 440 * MiB
    assert kept.alerts == ["rss>400MB: 401 MB"]
    outcome = kept.outcome
    assert outcome.summary["leakscope/leaking"] is True
    assert outcome.summary["leakscope/growth_bytes"] > 100 * MiB
    assert outcome.summary["leakscope/finding_kind"]
    assert outcome.alarm == outcome.headline
    assert kept.page.startswith("<!") and outcome.text.startswith("## LEAKING")


def test_of_a_run_without_a_leak_nobody_is_alarmed(kept, tmp_path):
    builder = RecordingBuilder(tmp_path).process(TRAINER).samples(TRAINER, [200 * MiB] * 61).ends()
    pushing.push(builder.write(), "kept")
    assert (kept.outcome.alarm, kept.outcome.summary["leakscope/leaking"]) == (None, False)


def test_a_run_that_nobody_can_judge_says_so(kept, tmp_path):
    builder = RecordingBuilder(tmp_path).process(TRAINER).samples(TRAINER, [200 * MiB] * 3).ends()
    pushing.push(builder.write(), "kept")
    assert kept.outcome.summary["leakscope/leaking"] == "cannot tell"


def test_what_an_sdk_raises_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(pushing, "begin", lambda target, about: Kept(fails=True))
    with pytest.raises(LeakscopeError, match="kept: ConnectionError: no route to host"):
        pushing.push(leaking(tmp_path).write(), "kept:place")


def test_an_sdk_that_does_not_answer_is_given_up(monkeypatch, tmp_path):
    """Also one that takes every error for a reason to try again."""

    class Stuck(Kept):
        def log(self, point: Point) -> None:
            while True:
                with suppress(Exception):
                    threading.Event().wait(600)

    monkeypatch.setattr(pushing, "begin", lambda target, about: Stuck())
    monkeypatch.setattr(pushing, "ANSWER_S", 0.2)
    with pytest.raises(pushing.TookTooLong, match="kept: no answer within 200 ms"):
        pushing.push(leaking(tmp_path).write(), "kept")


def test_the_recorder_knows_the_trackers_there_are():
    assert list(options.TRACKERS) == pushing.names()
    words = ["--log-to", "wandb:p", "--log-to", "mlflow", "python", "x.py"]
    assert parse_record(words, {}).log_to == ("wandb:p", "mlflow")
    assert parse_record(["x"], {"LEAKSCOPE_RECORD_LOG_TO": "wandb comet"}).log_to == ("wandb", "comet")
    with pytest.raises(BadInput, match="no tracker that is known"):
        parse_record(["--log-to", "wandbb", "x"], {})


@pytest.mark.parametrize("name", pushing.names())
def test_without_its_sdk_a_tracker_says_what_to_install(monkeypatch, capsys, tmp_path, name):
    run = leaking(tmp_path).write()
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert main(["push", str(run), "--to", name]) == 2
    assert f"pip install {name}" in capsys.readouterr().err


def test_an_unknown_tracker_is_named(capsys, tmp_path):
    assert main(["push", str(leaking(tmp_path).write()), "--to", "clearml"]) == 2
    assert "there are comet, mlflow, tensorboard, wandb" in capsys.readouterr().err


# ---- the real SDKs, offline: each in a process of its own, since they change the one they are in


def pushed(folder: Path, target: str, **environment: str) -> str:
    run = leaking(folder).write()
    done = subprocess.run(
        [sys.executable, "-m", "leakscope", "push", str(run), "--to", target],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def scalars(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    return read.Reload()


@pytest.mark.slow
def test_tensorboard_reads_the_events(tmp_path):
    pytest.importorskip("tensorboard")
    assert "tensorboard: logs/leakscope/run" in pushed(tmp_path, "tensorboard:logs")
    folder = tmp_path / "logs" / "leakscope" / "run"
    read = scalars(folder)
    memory = [(event.step, event.value) for event in read.Scalars("leakscope/memory_bytes")]
    assert memory[2] == (10, 240 * MiB)
    assert b"Memory leaks" in read.Tensors("leakscope/alert")[-1].tensor_proto.string_val[0]
    assert (folder / "leakscope.html").stat().st_size > 10_000


@pytest.mark.slow
def test_mlflow_has_a_run_of_its_own_or_joins_the_jobs(tmp_path):
    pytest.importorskip("mlflow")
    # MLflow locks a file named by the address: of a relative one that of every such test on the computer.
    pushed(tmp_path, "mlflow", MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/runs.db")
    with sqlite3.connect(tmp_path / "runs.db") as store:
        rows = store.execute("select value from metrics where key = 'leakscope/memory_bytes' order by step").fetchall()
        tags = dict(store.execute("select key, value from tags").fetchall())
        (run,) = store.execute("select run_uuid from runs").fetchall()
    assert rows[2] == (240 * MiB,)
    assert (tags["leakscope.leaking"], "Memory leaks" in tags["leakscope.alert"]) == ("True", True)
    assert list(tmp_path.glob(f"mlruns/*/{run[0]}/artifacts/leakscope/leakscope.html"))


@pytest.mark.slow
def test_wandb_writes_an_offline_run(tmp_path):
    pytest.importorskip("wandb")
    pushed(tmp_path, "wandb:memory", WANDB_MODE="offline", WANDB_RUN_ID="of-the-job")
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert "of-the-job" not in file.name
    history, summary, alerts, artifacts = _of_wandb(file)
    assert history[2]["leakscope/memory_bytes"] == 240 * MiB
    assert summary["leakscope/leaking"] is True
    assert any("Memory leaks" in alert for alert in alerts)
    assert artifacts == ["leakscope-report"]


def _of_wandb(file: Path) -> tuple[list[dict[str, Any]], dict[str, Any], list[str], list[str]]:
    """History, summary, texts of alerts and types of artefacts, by wandb's own messages."""
    from wandb.proto import wandb_internal_pb2

    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    alerts, artifacts = [], []
    for data in _frames(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            history.append(_items(record.history.item))
        elif kind == "summary":
            summary |= _items(record.summary.update)
        elif kind == "alert":
            alerts.append(record.alert.text)
        elif kind == "artifact":
            artifacts.append(record.artifact.type)
    return history, summary, alerts, artifacts


def _items(items: Any) -> dict[str, Any]:
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


def _frames(data: bytes) -> Iterator[bytes]:
    """LevelDB's log: blocks of 32 KiB with frames (checksum, length, whether whole, first, middle or last part)."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


@pytest.mark.slow
def test_comet_writes_an_offline_experiment(tmp_path):
    pytest.importorskip("comet_ml")
    (tmp_path / "offline").mkdir()
    pushed(tmp_path, "comet", COMET_OFFLINE_DIRECTORY=str(tmp_path / "offline"))
    (file,) = (tmp_path / "offline").glob("*.zip")
    with zipfile.ZipFile(file) as packed:
        messages = packed.read("messages.json").decode()
    assert "leakscope/memory_bytes" in messages
    assert "Memory leaks" in messages
    assert "leakscope.html" in messages


@pytest.mark.slow
def test_a_job_is_followed_from_outside_while_it_runs(tmp_path):
    """Its curves have points of the time in which it ran, and the helper is no process of the job's."""
    pytest.importorskip("tensorboard")
    program = "import time\nKEPT = []\nfor _ in range(240):\n    KEPT.append(b'x' * 300_000)\n    time.sleep(0.1)\n"
    (tmp_path / "job.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "leakscope", "record", "--log-to", "tensorboard", sys.executable, "job.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "tensorboard: runs/leakscope/run" in done.stderr
    read = scalars(tmp_path / "runs" / "leakscope" / "run")
    memory = [event.value for event in read.Scalars("leakscope/memory_bytes")]
    assert len(memory) >= 4
    assert memory[-1] - memory[1] > 30 * MiB
    assert {event.value for event in read.Scalars("leakscope/process_count")} == {1.0}
    assert read.Tensors("leakscope/summary")
