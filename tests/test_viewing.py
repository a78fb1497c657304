"""``leakscope view``: a real server asked by real requests, and the command as a person has it."""

from __future__ import annotations

import fcntl
import http.client
import itertools
import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope import viewing
from leakscope.agent.journal import Journal
from leakscope.cli import main
from leakscope.ignoring import Ignores
from leakscope.storage import thinning
from leakscope.units import MiB
from tests.builders import RecordingBuilder
from tests.recorder.runs import PYTHON, TIMEOUT_S, environment, until


def run_of(folder: Path, **meta: object) -> RecordingBuilder:
    return RecordingBuilder(folder, **meta).process(7).samples(7, [(100 + i) * MiB for i in range(20)])


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    return run_of(tmp_path).ends().write()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RecordingBuilder]:
    """A recording whose lock is held, as its recorder holds it."""
    builder = run_of(tmp_path)
    builder.write_journal()
    with (builder.journal / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield builder


class Browser:
    """Asks a server as a browser does, or otherwise."""

    def __init__(self, path: Path) -> None:
        self.server = viewing.Server(viewing.Site(path, Ignores()))
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def ask(self, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, dict[str, str], str]:
        """Status, headers and body; ``host`` is the name that is asked for."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=TIMEOUT_S)
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.headers), body

    @property
    def home(self) -> str:
        return f"/{self.server.token}/"

    def page(self) -> str:
        until(lambda: "Refresh" not in self.ask(self.home)[1])
        return self.ask(self.home)[2]

    def state(self) -> dict[str, object]:
        return json.loads(self.ask(f"{self.home}state")[2])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def browser() -> Iterator:
    opened = []

    def open_browser(path: Path) -> Browser:
        opened.append(Browser(path))
        return opened[-1]

    yield open_browser
    for each in opened:
        each.page()  # its making must not outlive the test
        each.close()


def test_the_page_is_that_of_the_report(browser, ended):
    page = browser(ended).page()
    assert "python train.py" in page and page.rstrip().endswith("</html>")
    assert "connect-src" not in page and 'class="renewal"' not in page, "what has ended asks nobody for anything"


def test_the_first_page_says_that_the_recording_is_being_read(browser, ended, monkeypatch):
    goes_on = threading.Event()
    judged = viewing.Judged
    monkeypatch.setattr(viewing, "Judged", lambda *given: goes_on.wait(TIMEOUT_S) and judged(*given))
    visitor = browser(ended)
    _, headers, body = visitor.ask(visitor.home)
    assert headers["Refresh"] == "1" and "Reading run.parquet" in body
    assert "python train.py" in body and "20 of process_samples" in body, "what it says of itself comes at once"
    goes_on.set()
    assert "python train.py" in visitor.page()


def test_a_long_recording_is_paged(browser, tmp_path, monkeypatch):
    """The page has what can be seen of it; a part that is asked for has every second, and the same bands."""
    monkeypatch.setattr(thinning, "MOST_ROWS", 2000)
    builder = RecordingBuilder(tmp_path).process(7).process(8)
    rss = [(100 + i // 50 + (900 if i == 3001 else 0)) * MiB for i in range(6000)]
    visitor = browser(builder.samples(7, rss).samples(8, [5 * MiB] * 6000).ends(6001.0).write())
    page = visitor.page()
    assert "connect-src 'self'" in page
    assert re.search(r"judged from \d,\d{3} of 12,000 rows of process_samples", page)
    assert "1,000 MiB" in page.replace("1000 MiB", "1,000 MiB") or "1.0 GiB" in page, "no peak is lost"
    told = json.loads(visitor.ask(f"{visitor.home}timeline?from=3000&to=3100")[2])
    assert told["x"] == [float(second) for second in range(3000, 3101)]
    assert [one["by"] for one in told["divisions"]] == ["process", "account"]
    (train,) = (one for one in told["divisions"][0]["curves"] if one["name"].endswith("[7]"))
    levels = list(itertools.accumulate(step * told["unit_bytes"] for step in train["steps"]))
    assert max(levels) == levels[1] == rss[3001]
    assert visitor.ask(f"{visitor.home}timeline?from=9000&to=9100")[2] == "null"
    assert visitor.ask(f"{visitor.home}timeline?from=x")[0] == 400


def test_nothing_else_is_reachable(browser, ended):
    visitor = browser(ended)
    token = visitor.server.token
    assert visitor.server.server_address[0] == "127.0.0.1"
    assert len(token) >= 32
    others = ["/", "/x/", f"/{token[:-1]}/", f"/{token}/run.parquet", f"/{token}/../run.parquet",
              "/run.parquet", f"/{token}//etc/passwd", "/%2e%2e/run.parquet", "/state"]  # fmt: skip
    for path in others:
        status, _, body = visitor.ask(path)
        assert (status, body) == (404, "there is nothing here\n"), path
    assert visitor.ask(visitor.home, method="POST")[0] == 501


def test_a_page_of_others_cannot_reach_it_by_a_name_of_its_own(browser, ended):
    visitor = browser(ended)
    port = visitor.server.server_port
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example:80", "127.0.0.1"):
        assert visitor.ask(visitor.home, host=name)[0] == 403, name
    for name in (f"localhost:{port}", "127.0.0.1:9999"):  # by ssh -L the port is another
        assert visitor.ask(visitor.home, host=name)[0] == 200, name


def test_it_is_kept_nowhere_and_framed_by_nobody(browser, ended):
    visitor = browser(ended)
    _, headers, body = visitor.ask(visitor.home, method="HEAD")
    assert body == ""
    assert headers["Cache-Control"] == "no-store" and headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in headers and "Python" not in headers["Server"]


def test_the_address_on_a_command_line_serves_once(browser, ended):
    visitor = browser(ended)
    ticket = "/" + visitor.server.ticket().rpartition("/")[2]
    status, headers, _ = visitor.ask(ticket)
    assert (status, headers["Location"]) == (303, visitor.home)
    assert visitor.ask(ticket)[0] == 404


def test_a_run_that_goes_on_renews_its_page(browser, running, monkeypatch):
    monkeypatch.setattr(viewing, "LEAST_S", 0.0)
    monkeypatch.setattr(viewing, "MOST_SHARE", 1000.0)
    visitor = browser(running.path)
    page = visitor.page()
    assert "Recorded until 19.0 s" in page and "still being recorded" in page
    assert "connect-src 'self'" in page and 'data-version="1"' in page
    assert visitor.state() == {"version": 1, "live": True}, "nothing new was written"
    journal = Journal(str(running.journal), "agent-7-700-x")
    for table, row in run_of(running.path.parent).series("host_samples", mem_total_bytes=[MiB] * 50)._rows[-50:]:
        journal.add(table, row)
    journal.close()
    until(lambda: visitor.state()["version"] == 2)
    assert "Recorded until 49.0 s" in visitor.page()


def test_a_run_that_ends_is_shown_to_its_end(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(viewing, "LEAST_S", 0.0)
    monkeypatch.setattr(viewing, "MOST_SHARE", 1000.0)
    builder = run_of(tmp_path).ends()
    builder.write_journal()
    with (builder.journal / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        visitor = browser(builder.path)
        assert "still being recorded" in visitor.page()
    viewing.open_recording(builder.path)  # finishes the file, as the recorder does
    until(lambda: visitor.state() == {"version": 2, "live": False})
    assert "exit status 0" in visitor.page()


def test_names_of_the_job_are_no_markup_while_it_is_read(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(viewing, "Judged", lambda *recordings: 1 / 0)
    path = run_of(tmp_path).ends().write().rename(tmp_path / "<img src=x>.parquet")
    visitor = browser(path)
    until(lambda: "cannot be shown" in visitor.ask(visitor.home)[2])
    body = visitor.ask(visitor.home)[2]
    assert "<img" not in body and "ZeroDivisionError" in body


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["none.parquet"], 3, "there is no file none.parquet"),
        (["text.parquet"], 3, "text.parquet"),
        (["--port", "1"], 2, "--port"),
    ],
)
def test_what_cannot_be_viewed_gets_one_line(tmp_path, monkeypatch, capsys, words, status, said):
    monkeypatch.chdir(tmp_path)
    Path("text.parquet").write_text("no recording")
    assert main(["view", *words]) == status
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and told.out == ""


@pytest.mark.live
def test_the_command_opens_a_browser_and_ends_with_status_0(ended, tmp_path):
    """Without a name it takes run.parquet. The browser is a script that writes down what it was asked to open."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened.new"}\nmv {tmp_path / "opened.new"} opened\n')
    script.chmod(0o755)
    words = [PYTHON, "-m", "leakscope", "view"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(BROWSER=f"{script} %s"), stdout=pipe, stderr=pipe, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as command:  # fmt: skip
        address = command.stdout.readline().strip()
        until(lambda: (tmp_path / "opened").exists())
        host, port, token = re.fullmatch(r"http://([\d.]+):(\d+)/([\w-]+)/", address).groups()
        assert token not in (tmp_path / "opened").read_text(), "every user of the computer sees that command line"
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
        connection.request("GET", f"/{token}/")
        assert connection.getresponse().read()
        connection.close()
        command.send_signal(signal.SIGINT)
        assert command.wait(TIMEOUT_S) == 0
        assert command.stdout.read() == ""
        assert "Traceback" not in command.stderr.read()
