"""Serves figures to Prometheus, in one thread that waits for no client: who is slow or sends too much is dropped."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..version import __version__
from .exposition import OPENMETRICS_TYPE, TEXT_TYPE, prefers_openmetrics, written
from .following import LEAST_LOOK_S, Following

PERIOD_S = 5.0  # the recorder writes as often
CLIENT_S = 5.0  # from its first byte to our last one
MOST_CLIENTS = 16
_MOST_REQUEST_BYTES = 8192
_PART_BYTES = 1 << 16
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_PATH = "/metrics"
_INDEX = b"leakscope: figures for Prometheus are at /metrics\n"
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            431: "Request Header Fields Too Large", 503: "Service Unavailable"}  # fmt: skip


class _Client:
    """One connection: what it asked so far, and what it has still to be told."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until_s = time.monotonic() + CLIENT_S
        self.asked = b""
        self.answer: memoryview | None = None


class Server:
    """Answers with what ``following`` says. Ends with the recording, or when ``alive`` (a pipe) is closed."""

    def __init__(self, following: Following, listener: socket.socket, alive: int | None = None) -> None:
        self._following = following
        self._listener = listener
        self._alive = alive
        self._is_local = listener.getsockname()[0] in ("127.0.0.1", "::1")
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, _Client] = {}  # the oldest first
        self._holders: int | None = None
        self._is_over = False
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        if alive is not None:
            self._selector.register(alive, selectors.EVENT_READ, self._end)

    def run(self) -> None:
        try:
            while not self._is_over and not self._following.is_over:
                for key, _ in self._selector.select(self._timeout_s()):
                    with _who_went_away():
                        key.data()
                self._follow_holders()
                self._drop_slow()
                if self._following.seconds_to_look(PERIOD_S) <= 0.0:
                    self._following.look()
                    self._follow_holders()
        finally:
            for client in list(self._clients.values()):
                self._drop(client)
            self._selector.close()
            self._listener.close()
            self._following.close()

    def _timeout_s(self) -> float:
        left_s = self._following.seconds_to_look(PERIOD_S)
        if self._clients:
            oldest = next(iter(self._clients.values()))
            left_s = min(left_s, max(0.0, oldest.until_s - time.monotonic()))
        return left_s

    def _follow_holders(self) -> None:
        descriptor = self._following.descriptor
        if descriptor == self._holders:
            return
        if self._holders is not None:
            with suppress(KeyError, ValueError):
                self._selector.unregister(self._holders)
        if descriptor is not None:
            self._selector.register(descriptor, selectors.EVENT_READ, self._following.listen)
        self._holders = descriptor

    def _end(self) -> None:
        self._is_over = self._alive is None or not os.read(self._alive, 1)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        if len(self._clients) >= MOST_CLIENTS:
            self._drop(next(iter(self._clients.values())))
        client = _Client(connection)
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ, self._of(client, self._read))

    def _of(self, client: _Client, step: Callable[[_Client], None]) -> Callable[[], None]:
        def taken() -> None:
            try:
                step(client)
            except BlockingIOError:
                pass
            except OSError:
                self._drop(client)

        return taken

    def _read(self, client: _Client) -> None:
        part = client.connection.recv(_MOST_REQUEST_BYTES)
        client.asked += part
        if b"\r\n\r\n" in client.asked or b"\n\n" in client.asked:
            self._answer(client)
        elif not part:
            self._drop(client)
        elif len(client.asked) >= _MOST_REQUEST_BYTES:
            self._say(client, 431, b"a shorter request, please\n")

    def _answer(self, client: _Client) -> None:
        request, *lines = client.asked.decode("latin-1").replace("\r\n", "\n").split("\n")
        words = request.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1"):
            return self._say(client, 400, b"this is no HTTP request\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = ", ".join(filter(None, (headers.get(name.strip().lower()), value.strip())))
        method, path = words[0], words[1].partition("?")[0]
        has_body = method != "HEAD"
        if self._is_local and not _is_from_here(headers.get("host", "localhost")):
            return self._say(client, 403, b"this address is not served under that name\n", has_body=has_body)
        if method not in ("GET", "HEAD"):
            return self._say(client, 405, b"there is nothing to change here\n", more="Allow: GET, HEAD\r\n")
        if path == "/":
            return self._say(client, 200, _INDEX, has_body=has_body)
        if path != _PATH:
            return self._say(client, 404, _INDEX, has_body=has_body)
        if self._following.seconds_to_look(LEAST_LOOK_S) <= 0.0:
            self._following.look()
        if self._following.is_behind:
            return self._say(client, 503, b"reading what was recorded so far\n", more="Retry-After: 5\r\n")
        openmetrics = prefers_openmetrics(headers.get("accept", ""))
        body = written(self._following.readings(), openmetrics=openmetrics).encode()
        return self._say(client, 200, body, OPENMETRICS_TYPE if openmetrics else TEXT_TYPE, has_body=has_body)

    def _say(
        self,
        client: _Client,
        status: int,
        body: bytes,
        kind: str = "text/plain; charset=utf-8",
        *,
        has_body: bool = True,
        more: str = "",
    ) -> None:
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nServer: leakscope/{__version__}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nVary: Accept\r\n{more}"
            "Connection: close\r\n\r\n"
        )
        client.answer = memoryview(head.encode() + (body if has_body else b""))
        self._selector.modify(client.connection, selectors.EVENT_WRITE, self._of(client, self._write))
        self._write(client)

    def _write(self, client: _Client) -> None:
        assert client.answer is not None
        client.answer = client.answer[client.connection.send(client.answer[:_PART_BYTES]) :]
        if not client.answer:
            with suppress(OSError):
                client.connection.shutdown(socket.SHUT_WR)
            self._drop(client)

    def _drop_slow(self) -> None:
        now_s = time.monotonic()
        for client in [client for client in self._clients.values() if client.until_s <= now_s]:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        number = client.connection.fileno()
        if number >= 0:
            self._clients.pop(number, None)
            self._selector.unregister(client.connection)
            client.connection.close()


def _is_from_here(host: str) -> bool:
    """By the name the client used: a page of others may have its own name lead here (DNS rebinding)."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower() in _LOCAL


@contextmanager
def _who_went_away() -> Iterator[None]:
    """A client that is gone is no news, nor is a moment without descriptors left."""
    with suppress(OSError):
        yield
