"""Alerts: the rules as written, when they speak, and what follows, with real commands and a real web server."""

from __future__ import annotations

import base64
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.alerts import parse_rule
from leakscope.errors import BadInput
from leakscope.options import RecordOptions, parse_record
from leakscope.recorder import alerting as alerting_module
from leakscope.recorder import console, delivery, proc
from leakscope.recorder.alerting import QUIET_S, Alert, Alerting, Delivery, Sample, alerting_of
from leakscope.recorder.figures import Figures
from leakscope.recorder.helpers import Room
from leakscope.recorder.limits import Limits
from leakscope.recorder.output import Output
from leakscope.recorder.sampler import Sampler
from leakscope.recorder.tree import Memory, Process, Tree

from .runs import TIMEOUT_S, environment, is_running, record_command, rows, until

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("rss>40GB", 40e9),
        (" RSS > 40 GiB ", 40 * GIB),
        ("pss>1.5G", 1.5 * GIB),
        ("swap>500MB", 500e6),
        ("rss>90%", 0.9),
        ("growth>100MB/min", 100e6 / 60),
        ("growth>1GiB/h", GIB / 3600),
        ("oom_eta<30min", 1800),
        ("workers>16", 16),
    ],
)
def test_rules_in_all_units(text: str, threshold: float) -> None:
    assert parse_rule(text).threshold == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rss", "in quotes"),
        ("rss<40GB", "rss>40GB"),
        ("rss>40", "rss>40GB"),
        ("rss>120%", "rss>90%"),
        ("growth>100MB", "growth>100MB/min"),
        ("oom_eta<30", "oom_eta<30min"),
        ("workers>1.5", "workers>16"),
        ("oom>1", "oom"),
        ("ram>1GB", "oom_eta<30min"),
        ("", "rss>40GB"),
    ],
)
def test_a_rule_that_cannot_be_read_says_how_it_is_written(text: str, hint: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse_record(["--alert", text, "true"], {})
    assert hint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("url", ["hooks.slack.com/x", "ftp://host/x", "https://", "http://host:port/", "http://a b/"])
def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    with pytest.raises(BadInput, match="--webhook: not an address"):
        parse_record(["--alert", "oom", "--webhook", url, "true"], {})


def test_something_to_do_needs_a_rule() -> None:
    for flag, value in (("--on-alert", "true"), ("--webhook", "http://host/")):
        with pytest.raises(BadInput, match=f"{flag} needs a rule"):
            parse_record([flag, value, "true"], {})


def test_secrets_are_not_written_down() -> None:
    words = ["--alert", "oom", "--webhook", "https://hooks.slack.com/services/SECRET", "--on-alert", "x SECRET", "true"]
    assert "SECRET" not in json.dumps(parse_record(words, {}).to_write_down())


class Job:
    """A tree that the test fills."""

    def __init__(self) -> None:
        self.tree = Tree(1, 1)
        self.figures, self.limits = Figures(), Limits()

    def holds(self, *mib: float, role: str = "trainer", now_s: float = 0.0) -> Sample:
        self.tree.now_s = now_s
        self.tree.living = {
            pid: type("P", (Memory,), {"role": role, "rss_bytes": int(m * MIB)})() for pid, m in enumerate(mib, 1)
        }
        self.figures.look_at(self.tree)
        return Sample(self.tree, self.figures, self.limits, [], [])


def said(alerting: Alerting, levels: list[float]) -> list[int]:
    """At which seconds an alert came, one level a second."""
    job = Job()
    return [at for at, mib in enumerate(levels) if list(alerting.look_at(at, job.holds(mib, now_s=at)))]


def quiet(*rules: str) -> Alerting:
    return Alerting(rules, lambda alert: None)


def test_a_rule_speaks_once_and_again_only_after_a_while_of_relief() -> None:
    wait = int(QUIET_S) + 2
    above, little_below, below = [200.0], [98.0], [90.0]
    assert said(quiet("rss>100MiB"), [50, *above * 3, *little_below * wait, *above]) == [1]
    assert said(quiet("rss>100MiB"), [50, *above * 3, *below * 5, *above]) == [1]
    assert said(quiet("rss>100MiB"), [50, *above * 3, *below * wait, *above]) == [1, 4 + wait]


def test_growth_does_not_speak_of_loading() -> None:
    loading = [100 + 50 * min(s, 15) for s in range(120)]
    leak = [100 + 50 * min(s, 10) + 4 * max(0, s - 10) for s in range(120)]
    assert said(quiet("growth>100MiB/min"), loading) == []
    (at,) = said(quiet("growth>100MiB/min"), leak)
    assert at <= 45
    assert said(quiet("growth>300MiB/min"), leak) == []


def test_a_leak_that_falters_is_told_once() -> None:
    steps = [3.0 if s % 60 < 45 or s < 120 else 0.0 for s in range(240)]
    levels = [100 + sum(steps[:s]) for s in range(240)]
    assert len(said(quiet("growth>100MiB/min"), levels)) == 1


def test_the_time_left_is_that_of_the_limit() -> None:
    job, alerting = Job(), quiet("oom_eta<60s")
    alerts = []
    for second in range(100):
        used = 100 + 5 * second
        sizes = {"current_bytes": used * MIB, "limit_bytes": 600 * MIB, "cgroup_file_bytes": 0}
        job.limits.look_at([], [{"cgroup": "/job", **sizes, "cgroup_shmem_bytes": 0}], now_s=float(second))
        alerts += [(second, alert) for alert, _ in alerting.look_at(second, job.holds(used, now_s=second))]
    ((second, alert),) = alerts
    assert 40 <= second <= 46
    assert alert.value < 60
    assert "cgroup /job is full in" in alert.text


def test_shares_of_a_limit_do_not_count_shared_pages_twice() -> None:
    job, alerting = Job(), quiet("rss>80%")
    sizes = {"current_bytes": 500 * MIB, "limit_bytes": 1000 * MIB, "cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0}
    job.limits.look_at([], [{"cgroup": "/job", **sizes}])
    assert list(alerting.look_at(0, job.holds(450, 450, 450))) == []
    job.limits.look_at([], [{"cgroup": "/job", **sizes, "current_bytes": 900 * MIB}])
    ((alert, _),) = alerting.look_at(1, job.holds(450, 450, 450))
    assert alert.text == "rss>80%: 90% of 1000 MiB (cgroup /job) resident in 3 processes"


def test_a_kill_is_told_with_its_victim_and_the_limit() -> None:
    job, alerting = Job(), quiet("oom")
    full = {"current_bytes": 298 * MIB, "limit_bytes": 300 * MIB, "cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0}
    job.limits.look_at([], [{"cgroup": "/job", **full, "oom_kill_count": 0}], own_cgroups=["/job"])
    assert list(alerting.look_at(0, job.holds(290))) == []
    job.limits.look_at([], [{"cgroup": "/job", **full, "oom_kill_count": 1}], own_cgroups=["/job"])
    stat = proc.Stat("python", "Z", 1, 0.0, 1, 7)
    job.tree.last_killed = killed = Process(4242, stat, 0.0, 0, True)
    killed.note_most(290 * MIB)
    ((alert, _),) = alerting.look_at(1, job.holds(1))
    victim = "python (pid 4242) with 290 MiB: out of memory, cgroup limit 300 MiB"
    assert alert.text == f"oom: the kernel's OOM killer ended a process, {victim}"


def test_processes_and_workers() -> None:
    job = Job()
    assert list(quiet("workers>2").look_at(0, job.holds(1, 1, 1))) == []
    ((alert, _),) = quiet("workers>2").look_at(0, job.holds(1, 1, 1, role="dataloader-worker"))
    assert alert.text == "workers>2: 3 worker processes"
    assert list(quiet("processes>3", "gpu>1GB", "swap>50%", "oom").look_at(0, job.holds(1, 1, 1))) == []


@pytest.fixture
def hungry() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", "a = b'x' * 60_000_000; input()"], stdin=subprocess.PIPE) as job:
        yield job
        if job.poll() is None:
            job.communicate(b"\n")


def sampler_of(job: subprocess.Popen[bytes], folder: Path, options: RecordOptions) -> tuple[Sampler, Alerting]:
    output = Output.claim(str(folder / "run.parquet"), force=True, meta={"command": ["x"]}, agent_config=None)
    alerting = alerting_of(options, job.pid, output.path)
    assert alerting is not None
    line = console.Status(not options.quiet)
    settings: dict[str, Any] = {"interval_s": 0.05, "flush_s": 1.0, "fsync_s": None, "asks_agents": False}
    return Sampler(output, Tree(job.pid, os.getpid()), status=line, companions=[alerting], **settings), alerting


def sample_until(sampler: Sampler, condition: Callable[[], bool]) -> None:
    def look() -> bool:
        sampler.sample()
        return condition()

    until(look)


@pytest.mark.live
def test_a_command_gets_the_alert_and_is_not_part_of_the_job(
    hungry: subprocess.Popen[bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stop, told = tmp_path / ".stop", tmp_path / "told"
    command = f'cat > {told}; echo said "$LEAKSCOPE_ALERT_RULE"; sleep 0.3; touch {stop}; sleep 0.2 & '
    options = RecordOptions(command=["x"], alerts=["rss>50MB"], on_alert=command)
    sampler, alerting = sampler_of(hungry, tmp_path, options)
    sample_until(sampler, stop.exists)
    sampler.sample()
    assert set(sampler.tree.living) == {hungry.pid}
    said = alerting.finish()
    assert not alerting.pids
    sampler.finish(None)
    alert = json.loads(told.read_text())
    assert (alert["rule"], alert["pid"]) == ("rss>50MB", hungry.pid)
    assert alert["value"] > 50e6
    events = [row for row in rows(Path(sampler.output.journal_path), "events") if row["event"] == "alert"]
    assert [(row["text"], row["value"]) for row in events] == [(alert["text"], alert["value"])]
    seen = {row["pid"] for row in rows(Path(sampler.output.journal_path), "processes")}
    assert seen == {hungry.pid}
    errors = capfd.readouterr().err
    assert errors.count("leakscope: alert: rss>50MB: ") == 1
    assert "said rss>50MB" in errors + said


@pytest.mark.live
def test_a_quiet_recording_says_nothing(
    hungry: subprocess.Popen[bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done"
    options = RecordOptions(command=["x"], alerts=["processes>0"], on_alert=f"echo aloud; touch {done}", quiet=True)
    sampler, alerting = sampler_of(hungry, tmp_path, options)
    sample_until(sampler, done.exists)
    alerting.finish()
    sampler.finish(None)
    assert capfd.readouterr().err == ""


@pytest.mark.live
def test_a_command_that_hangs_holds_up_nothing_and_is_not_started_twice(
    hungry: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered: list[Alert] = []
    helper = subprocess.Popen(["sleep", "60"])

    def deliver(alert: Alert) -> Delivery:
        delivered.append(alert)
        return Delivery(helper.pid)

    monkeypatch.setattr("leakscope.recorder.alerting.LAST_WAIT_S", 0.1)
    alerting, job = Alerting(["rss>100MiB"], deliver), Job()
    spoken = [
        at
        for at, mib in enumerate([200.0] * 3 + [50.0] * 40 + [200.0] * 3)
        if list(alerting.look_at(at, job.holds(mib, now_s=at)))
    ]
    assert len(spoken) == 2
    assert len(delivered) == 1
    alerting.finish()
    assert set(alerting.pids) == {helper.pid}
    helper.kill()
    helper.wait()
    alerting.ended(helper.pid, 0)
    assert not alerting.pids


def run_helper(order: dict[str, Any], prelude: str = "") -> tuple[int, str]:
    """``delivery.py`` as it is, with another time limit."""
    script = Path(delivery.__file__).read_text().replace("COMMAND_S = 30", "COMMAND_S = 1")
    script = script.replace("PAUSES_S = (1.0, 4.0)", "PAUSES_S = (0.01, 0.01)").replace(
        "REQUEST_S = 5.0", "REQUEST_S = 1.0"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, input=json.dumps(order).encode(), stderr=subprocess.PIPE, timeout=30)
    return done.returncode, done.stderr.decode()


ALERT = {"host": "node7", "rule": "oom", "text": "oom: the kernel's OOM killer ended a process", "value": 1}


@pytest.mark.live
def test_a_command_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"sleep 99 & echo $! > {pids}; sleep 99"
    _, errors = run_helper({"alert": ALERT, "command": command, "webhooks": []})
    assert errors == "leakscope: the command of --on-alert was ended after 1 s\n"
    pid = int(pids.read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses the test wants, one after the other, then 200."""

    def do_POST(self) -> None:  # the name is http.server's
        server: Any = self.server
        size = int(self.headers["Content-Length"])
        server.got.append(json.loads(self.rfile.read(size)))
        server.logins.append(self.headers["Authorization"])
        status = server.answers.pop(0) if server.answers else 200
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Any]:
    running: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    running.answers, running.got, running.logins = [], [], []
    running.url = f"http://127.0.0.1:{running.server_port}/services/SECRET"
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.mark.live
def test_a_webhook_gets_the_alert_while_sampling_goes_on(
    hungry: subprocess.Popen[bytes], tmp_path: Path, server: Any
) -> None:
    options = RecordOptions(command=["x"], alerts=["rss>50MB"], webhooks=[server.url], quiet=True)
    sampler, alerting = sampler_of(hungry, tmp_path, options)
    sample_until(sampler, lambda: bool(server.got))
    alerting.finish()
    sampler.finish(None)
    (alert,) = server.got
    assert (alert["rule"], alert["recording"]) == ("rss>50MB", str(tmp_path / "run.parquet"))
    for file in Path(sampler.output.journal_path).rglob("*.j*"):
        assert b"SECRET" not in file.read_bytes()


@pytest.mark.live
@pytest.mark.parametrize(
    ("answers", "attempts", "error"),
    [([500, 429], 3, ""), ([503] * 3, 3, "HTTP 503"), ([404], 1, "HTTP 404"), ([302], 1, "HTTP 302")],
)
def test_a_webhook_is_tried_again_where_that_makes_sense(
    server: Any, answers: list[int], attempts: int, error: str
) -> None:
    server.answers = list(answers)
    code, errors = run_helper({"alert": ALERT, "command": None, "webhooks": [server.url]})
    assert (code, len(server.got)) == (bool(error), attempts)
    expected = f"leakscope: the webhook at 127.0.0.1 did not accept the alert: {error}\n"
    assert errors == (expected if error else "")


@pytest.mark.live
def test_a_webhook_that_is_not_there_ends_in_one_line_and_the_command_runs(tmp_path: Path, server: Any) -> None:
    urls = ["http://127.0.0.1:1/SECRET", server.url]
    code, errors = run_helper({"alert": ALERT, "command": f"touch {tmp_path}/ran", "webhooks": urls})
    assert code == 1
    assert errors.startswith("leakscope: the webhook at 127.0.0.1 did not accept the alert: ")
    assert "SECRET" not in errors
    assert len(server.got) == 1
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("host", "body"),
    [
        ("hooks.slack.com", {"text": "leakscope on node7: rss&gt;1GB: 1.2 GB resident"}),
        ("discord.com", {"content": "leakscope on node7: rss>1GB: 1.2 GB resident"}),
        ("ptb.discord.com", {"content": "leakscope on node7: rss>1GB: 1.2 GB resident"}),
        ("notdiscord.com", None),
        ("slack.com.example.org", None),
    ],
)
def test_bodies_are_those_the_host_understands(host: str, body: dict[str, Any] | None) -> None:
    alert = {**ALERT, "text": "rss>1GB: 1.2 GB resident"}
    assert delivery.body(host, alert) == (body or alert)


@pytest.mark.live
def test_a_login_in_the_address_is_used_and_never_shown(server: Any) -> None:
    url = server.url.replace("//", "//robot:pa%20ss@")
    assert run_helper({"alert": ALERT, "command": None, "webhooks": [url]}) == (0, "")
    assert server.logins == ["Basic " + base64.b64encode(b"robot:pa ss").decode()]
    server.answers = [404]
    _, errors = run_helper({"alert": ALERT, "command": None, "webhooks": [url]})
    assert errors == "leakscope: the webhook at 127.0.0.1 did not accept the alert: HTTP 404\n"


@pytest.mark.live
def test_who_reads_stderr_waits_for_the_job_and_not_for_what_an_alert_started(tmp_path: Path) -> None:
    """``leakscope record ... 2>&1 | tee log``, and a descriptor that the shell opened."""
    pid_file = tmp_path / "pid"
    reading, writing = os.pipe()
    command = f"echo begun; echo $$ > {pid_file}; exec sleep 60"
    words = record_command("--alert", "processes>0", "--on-alert", command, "--", "sleep", "1")
    recorder = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, pass_fds=[writing], text=True
    )
    os.close(writing)
    _, errors = recorder.communicate(timeout=TIMEOUT_S)
    os.set_blocking(reading, False)
    try:
        assert os.read(reading, 1) == b"", "somebody keeps it open"
        assert "begun\n" in errors, "what the command says is passed on"
        assert is_running(int(pid_file.read_text())), "it had ended before: this test shows nothing"
    finally:
        os.close(reading)
        os.killpg(int(pid_file.read_text()), signal.SIGKILL)


@pytest.mark.live
def test_an_alert_for_which_there_is_no_room_is_recorded_and_not_delivered(
    hungry: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting_module, "too_full", lambda bytes: Room("cgroup /job", 5 << 20))
    options = RecordOptions(command=["x"], alerts=["processes>0"], on_alert=f"touch {tmp_path}/ran", quiet=True)
    sampler, alerting = sampler_of(hungry, tmp_path, options)
    sampler.sample()
    assert not alerting.pids
    sampler.finish(None)
    told = {row["event"]: row["text"] for row in rows(Path(sampler.output.journal_path), "events")}
    assert "alert" in told
    assert told["helper-left-out"].startswith("an alert is shown here only: 5.0 MiB are left of cgroup /job")
    assert not (tmp_path / "ran").exists()
