"""Requests and tasks as steps: nothing is changed for the service, and a recording tells growth per 1,000 of them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest

from leakscope.facts.case import Case
from leakscope.integrations import asgi, wsgi
from leakscope.reporting import report_of
from leakscope.storage import open_recording
from tests.builders import RecordingBuilder

MiB = 1 << 20
ROOT = Path(__file__).parents[2]


class Agent(types.ModuleType):
    """What the agent in a recorded job has, as far as it is asked here."""

    def __init__(self) -> None:
        super().__init__("_leakscope_agent")
        self.counted: list[str] = []

    def count(self, unit: str) -> None:
        self.counted.append(unit)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent = Agent()
    monkeypatch.setitem(sys.modules, agent.__name__, agent)
    return agent


def called(app: Any, scope: dict[str, Any], incoming: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the application sends."""
    sent: list[dict[str, Any]] = []
    waiting = iter(incoming)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


async def streaming(scope: Any, receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "http.request"
    await send({"type": "http.response.start", "status": 200})
    for part in (b"a", b"b"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def echoing(scope: Any, receive: Any, send: Any) -> None:
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})


async def failing(scope: Any, receive: Any, send: Any) -> None:
    raise KeyError("theirs")


# ---- ASGI


def test_a_streamed_answer_passes_piece_by_piece_and_counts_once(agent):
    sent = called(asgi.CountRequests(streaming), {"type": "http"}, [{"type": "http.request"}])
    assert [m.get("body") for m in sent] == [None, b"a", b"b", b""]
    assert agent.counted == ["requests"]


def test_each_message_of_a_websocket_counts(agent):
    messages = [{"type": "websocket.connect"}, *({"type": "websocket.receive", "text": t} for t in "xyz")]
    sent = called(asgi.CountRequests(echoing), {"type": "websocket"}, [*messages, {"type": "websocket.disconnect"}])
    assert [m["text"] for m in sent] == ["x", "y", "z"]
    assert agent.counted == ["requests"] * 3


def test_a_request_that_fails_counts_and_fails_as_before(agent):
    with pytest.raises(KeyError, match="theirs"):
        called(asgi.CountRequests(failing), {"type": "http"}, [])
    assert agent.counted == ["requests"]


def test_the_start_of_an_application_is_no_request(agent):
    async def starting(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "lifespan.startup.complete"})

    assert called(asgi.CountRequests(starting), {"type": "lifespan"}, [])
    assert agent.counted == []


def test_a_request_that_is_cancelled_counts_and_stays_cancelled(agent):
    async def main() -> None:
        async def waits(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(60)

        task = asyncio.create_task(asgi.CountRequests(waits)({"type": "http"}, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert agent.counted == ["requests"]


# ---- WSGI


def answer_of(app: Any) -> Any:
    environ: dict[str, Any] = {"QUERY_STRING": ""}
    setup_testing_defaults(environ)
    return app(environ, lambda status, headers, exc_info=None: lambda data: None)


def test_the_answer_of_an_application_is_its_own_object(agent):
    answers: list[Any] = [[b"one"], FileWrapper(io.BytesIO(b"file")), (part for part in (b"a", b"b"))]
    for answer in answers:
        assert answer_of(wsgi.CountRequests(lambda environ, start, answer=answer: answer)) is answer
    assert agent.counted == ["requests"] * 3


def test_it_keeps_to_the_protocol(agent):
    def plain(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"ok"]

    answer = answer_of(validator(wsgi.CountRequests(validator(plain))))
    assert list(answer) == [b"ok"]
    answer.close()


def test_an_error_of_the_application_passes(agent):
    def broken(environ: Any, start_response: Any) -> list[bytes]:
        raise OSError("theirs")

    with pytest.raises(OSError, match="theirs"):
        answer_of(wsgi.CountRequests(broken))


def test_without_a_recording_it_works_alike():
    assert "_leakscope_agent" not in sys.modules
    assert answer_of(wsgi.CountRequests(lambda environ, start: [b"one"])) == [b"one"]
    assert called(asgi.CountRequests(streaming), {"type": "http"}, [{"type": "http.request"}])


def test_an_agent_of_before_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "_leakscope_agent", types.ModuleType("_leakscope_agent"))
    assert answer_of(wsgi.CountRequests(lambda environ, start: [b"one"])) == [b"one"]


def test_what_a_signal_handler_of_the_service_raises_while_it_counts_is_the_services(agent, monkeypatch):
    def interrupted(unit: str) -> None:
        raise TimeoutError("theirs")

    monkeypatch.setattr(agent, "count", interrupted)
    with pytest.raises(TimeoutError, match="theirs"):
        answer_of(wsgi.CountRequests(lambda environ, start: [b"one"]))


def test_no_request_is_lost_among_threads():
    from leakscope.agent.snapshots.steps import Steps

    steps = Steps(lambda: None)
    threads = [threading.Thread(target=lambda: [steps.count_one("requests") for _ in range(5_000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps.count_one("requests")
    assert steps.current() == 40_001


# ---- what a report makes of it


@pytest.mark.parametrize(("unit", "says"), [("requests", "per 1,000 requests"), ("tasks", "per 1,000 tasks")])
def test_growth_is_told_for_a_thousand(tmp_path, unit, says):
    """Two workers that serve 10 requests a second each, and keep 0.1 MiB of each."""
    builder = RecordingBuilder(tmp_path)
    for pid in (100, 101):
        builder.process(pid).samples(pid, [(100 + i) * MiB for i in range(121)])
        builder.sentinels(pid, step=[10 * i for i in range(121)]).note(pid, 1.0, "counts", unit)
    verdict = report_of(Case(builder.ends(120.0).open())).verdict
    assert verdict.leaking
    assert verdict.step_unit == unit[:-1]
    assert verdict.growth_bytes_per_step == pytest.approx(0.1 * MiB, rel=0.05)  # not of one worker's requests alone
    assert f"{verdict.growth_bytes_per_step * 1000 / MiB:.1f} MiB {says}" in verdict.headline


def test_training_is_told_by_the_step_as_before(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [(100 + i) * MiB for i in range(121)])
    verdict = report_of(Case(builder.sentinels(100, step=[10 * i for i in range(121)]).ends(120.0).open())).verdict
    assert (verdict.step_unit, "1,000" in verdict.headline) == ("step", False)


# ---- real servers and workers

KEEPS = "KEPT = {}\ndef keep():\n    KEPT[len(KEPT)] = b'x' * 100_000\n"
WSGI = (
    KEEPS
    + """
import sys, threading, time, urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server
from leakscope.integrations.wsgi import CountRequests

class Quiet(WSGIRequestHandler):
    def log_message(self, *args): pass

def application(environ, start_response):
    keep()
    start_response("200 OK", [])
    return [b"ok"]

server = make_server("127.0.0.1", 0, CountRequests(application), handler_class=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
end = time.monotonic() + 25
while time.monotonic() < end:
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
    time.sleep(0.01)
"""
)
ASGI = (
    KEEPS
    + """
import sys, threading, time, urllib.request
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route
from leakscope.integrations.asgi import CountRequests

async def page(request):
    keep()
    return StreamingResponse(iter([b"o", b"k"]))

app = Starlette(routes=[Route("/", page)])
app.add_middleware(CountRequests)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))

def drive():
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    end = time.monotonic() + 25
    while time.monotonic() < end:
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/").read() == b"ok"
        time.sleep(0.01)
    server.should_exit = True

threading.Thread(target=drive).start()
server.run()
"""
)
CELERY = (
    KEEPS
    + """
import time
from celery import Celery
from celery.contrib.testing.worker import start_worker
from leakscope.integrations.celery import install

install()
app = Celery("service", broker="memory://", backend="cache+memory://")

@app.task
def work():
    keep()

with start_worker(app, pool="solo", perform_ping_check=False, loglevel="error"):
    end = time.monotonic() + 25
    while time.monotonic() < end:
        work.delay()
        time.sleep(0.02)
"""
)


SERVICES = [
    pytest.param(WSGI, (), "request", id="wsgiref"),
    pytest.param(ASGI, ("uvicorn", "starlette"), "request", id="uvicorn"),
    pytest.param(CELERY, ("celery",), "task", id="celery"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "needs", "unit"), SERVICES)
def test_a_leaking_service_is_told_by_its_requests_and_its_holder(tmp_path, program, needs, unit):
    for package in needs:
        pytest.importorskip(package)
    (tmp_path / "service.py").write_text(program)
    command = [sys.executable, "-m", "leakscope", "record", "--no-summary", "-o", "run.parquet", "--"]
    done = subprocess.run(
        [*command, sys.executable, "service.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = report_of(Case(open_recording(tmp_path / "run.parquet")))
    assert (report.verdict.leaking, report.verdict.step_unit) == (True, unit), report.verdict.headline
    assert f"per 1,000 {unit}s" in report.verdict.headline
    first = report.findings[0]
    assert (first.subject.variable, first.subject.line) == ("KEPT", 3)
    assert first.bytes_per_step == pytest.approx(100_000, rel=0.15)
    assert json.dumps(report.verdict.headline).count("KEPT") == 1
