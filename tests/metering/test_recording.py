"""``record --metrics`` and ``--otlp`` as a user has them: real jobs, a real receiver."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from leakscope.endpoints import listen, parse_address
from leakscope.options import parse_record
from tests.metering.told import Told
from tests.recorder.runs import PYTHON, environment, record, record_command, rows

pytestmark = pytest.mark.live

LEAKS = """
import sys, time
class Trainer:
    def __init__(self):
        self.predictions = []
trainer = Trainer()
print("ready", flush=True)
while not sys.stdin.closed and time.sleep(0.02) is None:
    trainer.predictions.append(bytearray(200_000))
"""
WAIT_S = 90.0
LONG_WAIT_S = 400.0  # pandas, on a machine with other work


@contextmanager
def recording(
    folder: Path, *options: str, graph: bool = False, **more: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job that leaks until it is ended, and what the recorder said of its metrics.

    ``graph``: snapshots are those of the whole graph, whose holders pandas has to work out.
    """
    (folder / "leaks.py").write_text(LEAKS)
    words = [*options, "--", PYTHON, "leaks.py"]
    recorder = subprocess.Popen(
        record_command(*words, finalize=True) if graph else record_command(*words, graph=False),
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert recorder.stdout is not None and recorder.stderr is not None
    assert recorder.stdout.readline() == "ready\n"
    line = recorder.stderr.readline()
    try:
        yield recorder, line
    finally:
        if recorder.poll() is None:
            recorder.terminate()
            recorder.communicate(timeout=WAIT_S)


def address_in(line: str) -> str:
    found = re.search(r"http://\S+/metrics", line)
    assert found, line
    return found[0]


def wait_for(holds: Callable[[], Any], what: str, most_s: float = WAIT_S) -> Any:
    deadline_s = time.monotonic() + most_s
    while time.monotonic() < deadline_s:
        if value := holds():
            return value
        time.sleep(0.1)
    pytest.fail(f"never: {what}")


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
        text: str = answer.read().decode()
    return text


def value(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("graph", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_job_that_leaks_is_seen_to_grow_with_its_holder(tmp_path: Path, graph: bool) -> None:
    with recording(tmp_path, "--metrics", ":0", "--label", "team=vision", graph=graph) as (recorder, line):
        address = address_in(line)
        holder = 'leakscope_holder_bytes{holder="leaks.trainer.predictions",type="list",role="trainer"}'
        text = wait_for(lambda: text if value(text := get(address), holder) > 10**6 else "", "a holder", LONG_WAIT_S)
        assert 'program="leaks.py"' in text and 'label_team="vision"' in text
        assert value(text, "leakscope_processes") == 1, "its own processes are not the job's"
        assert value(text, "leakscope_memory_pss_bytes") > 5 * 10**6
        assert value(text, "leakscope_recorder_memory_bytes") > 10**6
        assert not psutil.Process(recorder.pid).net_connections(), "no client meets the recorder"
    assert recorder.returncode == -signal.SIGTERM
    with pytest.raises(OSError):
        get(address)


def test_a_port_that_is_taken_is_one_line_before_the_job(tmp_path: Path) -> None:
    with listen(parse_address(":0")) as taken:
        port = taken.getsockname()[1]
        run = record(tmp_path, "--metrics", f":{port}", "--", PYTHON, "-c", "print(5)", finalize=True)
    assert (run.returncode, run.stdout) == (125, "")
    assert run.stderr == f"leakscope: cannot serve metrics at 127.0.0.1:{port}: Address already in use\n"
    assert not list(tmp_path.glob("run*"))


def test_a_port_that_another_rank_has_keeps_no_rank_from_running(tmp_path: Path) -> None:
    with listen(parse_address(":0")) as taken:
        port = taken.getsockname()[1]
        run = record(
            tmp_path, "--metrics", f":{port}", "--", PYTHON, "-c", "print(5)", finalize=True, RANK="1", WORLD_SIZE="2"
        )
    assert (run.returncode, run.stdout) == (0, "5\n")
    assert f"no metrics of this rank: another one has 127.0.0.1:{port}" in run.stderr


def test_metrics_end_with_a_recorder_that_is_killed(tmp_path: Path) -> None:
    with recording(tmp_path, "--metrics", ":0") as (recorder, line):
        address_in(line)
        (server,) = wait_for(lambda: _helpers(recorder.pid), "a server")
        others = [child for child in psutil.Process(recorder.pid).children() if child.pid != server.pid]
        os.kill(recorder.pid, signal.SIGKILL)
        for process in (server, *others):
            process.wait(WAIT_S)


def test_a_server_that_is_killed_is_told_and_the_job_goes_on(tmp_path: Path) -> None:
    with recording(tmp_path, "--metrics", ":0") as (recorder, line):
        address_in(line)
        (server,) = wait_for(lambda: _helpers(recorder.pid), "a server")
        server.kill()
        server.wait(WAIT_S)
        recorder.send_signal(signal.SIGTERM)
        said = recorder.communicate(timeout=WAIT_S)[1]
    assert "ended by SIGTERM" in said
    events = [row["text"] for row in rows(tmp_path / "run.parquet.journal", "events")]
    assert any("serves metrics was killed" in text for text in events), events


def _helpers(pid: int) -> list[psutil.Process]:
    children = psutil.Process(pid).children()
    return [child for child in children if any("leakscope.metering" in word for word in child.cmdline())]


class Collector(ThreadingHTTPServer):
    """A receiver of OTLP over HTTP: decodes what comes by the official protocol buffers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/metrics":
            self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.server.headers.append(dict(self.headers))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_collector_gets_the_same_figures_and_the_last_when_the_job_has_ended(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    collector = Collector()
    with recording(tmp_path, "--otlp", collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-team=vision") as (recorder, line):
        assert "metrics are pushed to 127.0.0.1" in line
        wait_for(lambda: collector.requests, "a push")
        before = len(collector.requests)
        recorder.send_signal(signal.SIGTERM)
        said = recorder.communicate(timeout=WAIT_S)[1]
    collector.shutdown()
    collector.server_close()
    assert len(collector.requests) > before, "what it was at the end"
    assert "not accepted" not in said
    assert {name.lower(): value for name, value in collector.headers[0].items()}["x-team"] == "vision"
    (told,) = collector.requests[-1].resource_metrics
    about = {attribute.key: attribute.value.string_value for attribute in told.resource.attributes}
    assert about["service.name"] == "leakscope" and about["leakscope.program"] == "leaks.py"
    metrics = {metric.name: metric for scope in told.scope_metrics for metric in scope.metrics}
    memory = metrics["leakscope.memory.peak"]
    assert memory.unit == "By" and memory.gauge.data_points[0].as_int > 5 * 10**6
    cpu = metrics["leakscope.recorder_cpu" if "leakscope.recorder_cpu" in metrics else "leakscope.recorder.cpu"]
    assert cpu.sum.is_monotonic and cpu.sum.data_points[0].as_double > 0


def test_a_collector_that_is_not_there_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from leakscope.metering import pushing

    with listen(parse_address(":0")) as nobody:
        port = nobody.getsockname()[1]
    following = Told()
    following.is_over = True
    assert pushing.push(following, f"http://127.0.0.1:{port}/secret/v1/metrics") == 2
    assert capsys.readouterr().err == f"leakscope: 1 of 1 pushes to 127.0.0.1:{port} were not accepted\n"


def test_without_the_sdk_one_line_says_what_to_install(tmp_path: Path) -> None:
    hide = tmp_path / "hide"
    (hide / "opentelemetry").mkdir(parents=True)
    (hide / "none.dist-info").mkdir()  # as an installer leaves them
    (hide / "opentelemetry" / "__init__.py").write_text("raise ModuleNotFoundError('no', name='opentelemetry')")
    code = f"import sys; sys.path.insert(0, {str(hide)!r}); from leakscope.__main__ import main; main()"
    words = [sys.executable, "-I", "-c", code, "record", "--otlp", "http://127.0.0.1:1", "--", PYTHON, "-c", "print(5)"]
    run = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=WAIT_S)
    assert (run.returncode, run.stdout) == (125, "")
    assert len(run.stderr.splitlines()) == 1 and "pip install opentelemetry-sdk opentelemetry-exporter" in run.stderr


def test_a_wrong_address_starts_no_job(tmp_path: Path) -> None:
    run = record(tmp_path, "--metrics", "host:port", "--", PYTHON, "-c", "print(5)")
    assert (run.returncode, run.stdout) == (125, "")
    assert len(run.stderr.splitlines()) == 1 and "write it like :9464" in run.stderr


def test_a_recording_says_nothing_of_the_collector() -> None:
    options = parse_record(["--otlp", "http://collector.secret.example:4318", "--", "true"])
    assert options.to_write_down()["otlp"] is True
