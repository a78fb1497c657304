"""`leakscope view`: the page of a report in a browser, by a server that only this computer reaches, live or afterwards.

While the run is still recorded the page renews itself: made anew where there is more and somebody looks, and so seldom
that a tenth of a core is spent on it. A long recording is judged from as many rows as fit into memory; where somebody
zooms in, the page asks for that part, which is read from the file. The token in the address keeps other users of the
computer out; the name in the Host header, pages of others that a browser has open. ``webbrowser`` gets an address that
serves once: whoever lists processes sees a browser's command line.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from .errors import LeakscopeError
from .ignoring import Ignores, read_ignores, without_ignored
from .renderers import render
from .renderers.html import timeline_data
from .reporting import Judged
from .storage import Recording, open_recording
from .storage.finalize import JOURNAL_SUFFIX, journal_of
from .units import format_bytes, format_count
from .version import __version__
from .words import printable

LEAST_S = 5.0  # between two makings of the page; the recorder writes as often
MOST_SHARE = 0.1  # of a core: to make it may take seconds, and the job needs them
_MOST_TABLES = 6  # named while a recording is read
_LOOPBACK = "127.0.0.1"
_NAMES = (_LOOPBACK, "localhost")
_REQUEST_S = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_WAITING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body><main><h1>{title}</h1><p>{text}</p>{more}</main></body></html>
"""


def view(run: Path, *, browser: bool, say: Callable[[str], None]) -> int:
    """Serve the page until ^C, which is status 0. **Errors** UnreadableRecording, BadInput: nothing was served."""
    site = Site(run, read_ignores(Path.cwd()))
    server = Server(site)
    try:
        print(server.address, flush=True)
        if browser and not (has_screen() and webbrowser.open(server.ticket())):
            say("no browser could be opened: open this address in one, from afar by ssh -L")
        say("^C ends it")
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


class Site:
    """The page of one recording, and whether there is more to see."""

    def __init__(self, run: Path, ignores: Ignores) -> None:
        """**Errors** UnreadableRecording."""
        self._output = run.with_name(run.name[: -len(JOURNAL_SUFFIX)]) if run.name.endswith(JOURNAL_SUFFIX) else run
        self._ignores = ignores
        self._lock = threading.Lock()
        self._page: bytes | None = None
        self._judged: Judged | None = None
        self._reading = threading.Lock()  # of parts: one at a time, so that memory is bounded
        self._version = 0
        self._problem: str | None = None
        self._began_s, self._took_s = time.monotonic(), 0.0
        self._stamp = self._look()
        recording = open_recording(self._output)
        self._summary = _summary(recording)
        self.is_live = _is_live(recording.meta)
        self._making: threading.Thread | None = None
        self._make()

    @property
    def name(self) -> str:
        return self._output.name

    def page(self) -> tuple[str | None, bytes]:
        """The page, or one that says why there is none yet: then the first is what to say to the browser of it."""
        self.refresh()
        with self._lock:
            page, problem = self._page, self._problem
        if page is not None:
            return None, page
        if problem is not None:
            return "", _said(f"{self.name} cannot be shown", problem)
        size = format_bytes(sum(size for _, size, _ in self._stamp))
        waited = f"{time.monotonic() - self._began_s:.0f} s so far"
        shown = "The page shows itself when it is made."
        return "1", _said(f"Reading {self.name}", f"{size}; {waited}. {shown}", self._summary)

    def part(self, start_s: float, end_s: float) -> dict[str, object] | None:
        """The timeline between two moments, with all that can be seen there; None where there is nothing more."""
        with self._lock:
            judged = self._judged
        if judged is None:
            return None
        with self._reading:
            drawn = judged.window(start_s, end_s)
        return timeline_data(replace(judged.report, timeline=drawn)) if drawn is not None else None

    def state(self) -> dict[str, object]:
        """What the page asks for: the number of the newest page, and whether there will be others."""
        self.refresh()
        return {"version": self._version, "live": self.is_live}

    def refresh(self) -> None:
        """Begin to make the page anew, if it is time for it and there is more."""
        with self._lock:
            if not self.is_live or (self._making is not None and self._making.is_alive()):
                return
            if time.monotonic() - self._began_s < max(LEAST_S, self._took_s / MOST_SHARE):
                return
            stamp = self._look()
            if stamp != self._stamp:
                self._stamp = stamp
                self._make()

    def _make(self) -> None:
        self._began_s = time.monotonic()
        self._making = threading.Thread(target=self._run, name="leakscope view", daemon=True)
        self._making.start()

    def _run(self) -> None:
        spent_s = time.thread_time()  # on a busy machine a clock would tell what others take
        try:
            whole = open_recording(self._output)
            is_live = _is_live(whole.meta)
            number = self._version + 1
            judged = Judged(whole)
            report = without_ignored(judged.report, self._ignores)
            text = render(report, "html", renewal=number if is_live else None, is_paged=judged.has_more)
            page = text.encode()
        except Exception as error:  # what is written at this moment may be there at the next
            said = str(error) if isinstance(error, LeakscopeError) else f"{type(error).__name__}: {error}"
            with self._lock:
                self._problem = said
            return
        with self._lock:
            self._page, self._version, self.is_live, self._problem = page, number, is_live, None
            self._judged = judged
            self._took_s = time.thread_time() - spent_s

    def _look(self) -> list[tuple[str, int, int]]:
        """Name, size and time of the files of the recording: they differ when it has grown."""
        found = []
        for path in (self._output, *journal_of(self._output).glob("*.jnl")):
            with suppress(OSError):  # it ends at this moment
                status = path.stat()
                found.append((path.name, status.st_size, status.st_mtime_ns))
        return sorted(found)


class Server(ThreadingHTTPServer):
    """Serves one site at one address that cannot be guessed."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, site: Site) -> None:
        super().__init__((_LOOPBACK, 0), _Handler)
        self.site = site
        self.token = secrets.token_urlsafe(24)
        self._tickets: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/{self.token}/"

    def ticket(self) -> str:
        """An address that leads to the page once."""
        ticket = secrets.token_urlsafe(24)
        self._tickets.add(ticket)
        return f"http://{_LOOPBACK}:{self.server_port}/{ticket}"

    def takes(self, ticket: str) -> bool:
        """Whether it is one; the second time it is not."""
        try:
            self._tickets.remove(ticket)
        except KeyError:
            return False
        return True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _REQUEST_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._is_from_here():
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this address is not served under that name\n")
        path, slash, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(path.encode(), self.server.token.encode()):
            if not rest and self.server.takes(path):
                return self._send(HTTPStatus.SEE_OTHER, "text/plain", b"", {"Location": f"/{self.server.token}/"})
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here\n")
        if not slash:
            return self._send(HTTPStatus.SEE_OTHER, "text/plain", b"", {"Location": f"/{self.server.token}/"})
        if rest == "":
            refresh, page = self.server.site.page()
            more = {"Refresh": refresh} if refresh else {}
            policy = {} if refresh is None else {"Content-Security-Policy": "default-src 'none'"}
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", page, {**more, **policy})
        if rest == "state":
            text = json.dumps(self.server.site.state()).encode()
            return self._send(HTTPStatus.OK, "application/json", text)
        if rest == "timeline":
            return self._send_part()
        return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here\n")

    def _send_part(self) -> None:
        """``timeline?from=SECONDS&to=SECONDS``."""
        asked = parse_qs(urlsplit(self.path).query)
        try:
            start_s, end_s = float(asked["from"][0]), float(asked["to"][0])
        except (KeyError, ValueError):
            return self._send(HTTPStatus.BAD_REQUEST, "text/plain", b"timeline?from=SECONDS&to=SECONDS\n")
        try:
            part = self.server.site.part(start_s, end_s)
        except (LeakscopeError, OSError):  # of a run that goes on: what is written at this moment
            part = None
        self._send(HTTPStatus.OK, "application/json", json.dumps(part).encode())

    do_HEAD = do_GET

    def _is_from_here(self) -> bool:
        """By the name the browser used: a page of others may have its own name lead here (DNS rebinding)."""
        return (self.headers.get("Host") or "").rpartition(":")[0] in _NAMES

    def _send(self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return f"leakscope/{__version__}"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal has the address, and should keep it in sight."""


def _is_live(meta: dict[str, object]) -> bool:
    return meta.get("state") == "live"


def _summary(recording: Recording) -> list[str]:
    """What the recording says of itself, before any of it was read."""
    meta = recording.meta
    command = " ".join(map(str, meta.get("command") or ())) or "attached to a running process"
    counts = {name: recording.rows.count(name) for name in recording.names()}
    rows = sorted(counts.items(), key=lambda one: -one[1])[:_MOST_TABLES]
    told = [command, f"Started {meta['started_at']}" if meta.get("started_at") else ""]
    verdict = (meta.get("answer") or {}).get("headline") if isinstance(meta.get("answer"), dict) else None
    held = ", ".join(f"{format_count(count)} of {name}" for name, count in rows)
    return [printable(str(line)) for line in (verdict, *told, f"Rows: {held}") if line]


def _said(title: str, text: str, more: Sequence[str] = ()) -> bytes:
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in more)
    return _WAITING.format(title=html.escape(title), text=html.escape(text), more=lines).encode()


def has_screen() -> bool:
    """Else ``webbrowser`` would start one that takes this terminal."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
