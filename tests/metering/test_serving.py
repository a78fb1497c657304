"""The server for Prometheus: who is slow, silent or hostile is dropped, and keeps nobody else waiting."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.endpoints import listen, otlp_url, parse_address
from leakscope.errors import BadInput
from leakscope.metering import serving
from leakscope.metering.serving import MOST_CLIENTS, Server
from tests.builders import RecordingBuilder
from tests.metering.told import Told


class Site:
    def __init__(self) -> None:
        self.following = Told()
        listener = listen(parse_address(":0"))
        self.address: tuple[str, int] = listener.getsockname()
        reading, self.alive = os.pipe()
        server = Server(self.following, listener, reading)

        def run() -> None:
            server.run()
            os.close(reading)

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def open(self) -> socket.socket:
        connection = socket.create_connection(self.address)
        connection.settimeout(20)
        return connection

    def ask(self, request: bytes) -> bytes:
        with self.open() as connection:
            connection.sendall(request)
            return read_all(connection)

    def get(self, path: str = "/metrics", *headers: str, method: str = "GET") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost:1", *headers, "", ""]
        return self.ask("\r\n".join(lines).encode())

    def end(self) -> None:
        os.close(self.alive)
        self.thread.join(20)
        assert not self.thread.is_alive()


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.end()


def test_prometheus_gets_text_or_openmetrics_as_it_asks(site: Site) -> None:
    text = site.get()
    assert text.startswith(b"HTTP/1.1 200 OK") and b"version=0.0.4" in text
    assert b"\nleakscope_memory_pss_bytes " in text and b"# EOF" not in text
    openmetrics = site.get("/metrics?x=1", "accept: application/openmetrics-text; version=1.0.0")
    assert b"application/openmetrics-text; version=1.0.0" in openmetrics and openmetrics.endswith(b"# EOF\n")


def test_head_says_how_long_it_would_be(site: Site) -> None:
    assert b"Content-Length" in site.get(method="HEAD") and b"leakscope_" not in site.get(method="HEAD")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", 403),
        (b"\x16\x03\x01\x02\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000, 431),
    ],
)
def test_what_is_no_question_for_metrics_is_told_so(site: Site, request_: bytes, status: int) -> None:
    assert site.ask(request_).startswith(b"HTTP/1.1 %d " % status)
    assert b"200 OK" in site.get()


def test_while_a_long_recording_is_being_read_prometheus_is_asked_to_come_again(site: Site) -> None:
    site.following.is_late = True
    assert b"503" in site.get() and b"Retry-After" in site.get()


def test_silent_clients_keep_nobody_waiting_and_are_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 0.3)
    silent = [site.open() for _ in range(3 * MOST_CLIENTS)]
    for connection in silent[::2]:
        connection.sendall(b"GET /metrics HT")
    assert b"leakscope_memory_pss_bytes" in site.get()
    for connection in silent:
        with connection:
            assert read_all(connection) == b""  # closed by the server


def test_who_does_not_read_the_answer_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 0.3)
    monkeypatch.setattr(serving, "written", lambda readings, openmetrics: "x" * 20_000_000)
    with site.open() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        monkeypatch.setattr(serving, "written", lambda readings, openmetrics: "others are served\n")
        assert b"others are served" in site.get()
        until_s = time.monotonic() + 20
        with pytest.raises(OSError):  # it was dropped
            while time.monotonic() < until_s:
                deaf.sendall(b"more")
                time.sleep(0.05)


def test_a_port_that_is_taken_is_one_line() -> None:
    with listen(parse_address(":0")) as taken, pytest.raises(BadInput, match=r"cannot serve metrics at 127\.0\.0\.1"):
        listen(parse_address(f":{taken.getsockname()[1]}"))


@pytest.mark.parametrize("text", ["9464x", "host.example:9464", ":99999", "", "1.2.3:4", "[::1:2"])
def test_an_address_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(BadInput):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [(":9464", "127.0.0.1", 9464), ("0.0.0.0:1", "0.0.0.0", 1), ("[::1]:2", "::1", 2), ("9464", "127.0.0.1", 9464)],
)
def test_only_this_computer_is_served_unless_an_address_is_told(text: str, host: str, port: int) -> None:
    assert tuple(parse_address(text)) == (host, port)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/metrics"),
        ("otlp://collector", "http://collector:4318/v1/metrics"),
        ("https://host/otlp/v1/metrics", "https://host/otlp/v1/metrics"),
    ],
)
def test_a_collector_is_named_with_or_without_its_path(text: str, url: str) -> None:
    assert otlp_url(text) == url


@pytest.mark.parametrize("text", ["collector", "grpc://h", "http://h:4317", "http://me:secret@h", "http://h:x"])
def test_a_collector_that_takes_no_otlp_over_http_is_one_line(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        otlp_url(text)
    assert "secret" not in str(raised.value)


def test_a_recording_that_has_ended_tells_its_last_figures(tmp_path: Path) -> None:
    from leakscope.metering import text_of

    builder = RecordingBuilder(tmp_path).process(100).samples(100, [2**20 * (100 + i) for i in range(60)])
    builder.open()
    text = text_of(builder.path)
    assert f"leakscope_memory_peak_bytes {2**20 * 159}" in text
