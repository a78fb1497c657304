"""Alerts while recording: compares what was just sampled with the user's rules. Runs in the recorder.

A rule speaks once, and again only after its figure was on the good side for a while. What follows from an alert (a
command, a webhook) is done by a helper process (``delivery.py``), which is never waited for while sampling.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..agent.journal import create
from ..alerts import Rule, parse_rule
from ..options import RecordOptions
from ..units import format_bytes
from .companion import Look, Sample, Talkers, Word, streams, words
from .figures import STEADY_WINDOW_S
from .helpers import Room, too_full
from .limits import Limit
from .tree import Tree, together

QUIET_S = 30.0
_QUIET_OF_TRENDS_S = STEADY_WINDOW_S  # a leak that falters is the same leak
# Of its own memory, seen: 6 MiB, with a secure connection 14 MiB.
_ROOM_BYTES, _ROOM_WITH_WEBHOOKS_BYTES = 8 << 20, 20 << 20
LAST_WAIT_S = 5.0  # for helpers, when the job has ended: an OOM kill is often seen only then
_HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delivery.py")
_WORKERS = frozenset(("dataloader-worker", "compile-worker", "python-fork", "python-spawn"))


class Reading(NamedTuple):
    """The figure of one rule, and in words what it is the figure of."""

    value: float
    text: str


class Alert(NamedTuple):
    """A rule that came to hold."""

    rule: Rule
    value: float
    text: str

    def message(self) -> dict[str, Any]:
        """What a command or a webhook is told of it. **Units** of ``value`` as of ``Rule.threshold``."""
        told = {"rule": self.rule.text, "text": self.text, "value": self.value, "threshold": self.rule.threshold}
        return {**told, "time_unix_s": round(time.time(), 3)}


class Delivery(NamedTuple):
    """A helper at work. ``said``: a file of ours, without a name, for what it has to say; None if nobody wants it.

    Not our stderr: a helper may live for half a minute after the job, and who reads there waits for its end.
    """

    pid: int
    said: int | None = None


class Alerting(Talkers):
    """The rules of one recording and what each did so far."""

    left_out = "an alert is shown here only"

    def __init__(self, rules: Sequence[str], deliver: Callable[[Alert], Delivery | Room | None]) -> None:
        """``deliver`` starts what follows from an alert, if anything does; a Room says why that could not be."""
        super().__init__()
        self._rules = [parse_rule(rule) for rule in rules]
        self._deliver = deliver
        self._quiet_since_s: dict[str, float | None] = {}  # of those that spoke: None while they still hold
        self._at_work: dict[str, int] = {}  # by rule, the pid of its helper

    def go_on(self, look: Look) -> Iterator[Word | Room]:
        """The alerts of this round; each one's helper, if it has any, runs already."""
        for alert, full in self.look_at(look.now_s, look.sample) if look.sample is not None else ():
            yield Word(alert.text, "alert", alert.value, f"alert: {alert.text}")
            if full is not None:
                yield full

    def look_at(self, now_s: float, sample: Sample) -> Iterator[tuple[Alert, Room | None]]:
        """The alerts of this instant, each with what left no room for its helper."""
        for rule in self._rules:
            reading = _READERS[rule.metric](rule, sample)
            if self._speaks(rule, reading, now_s) and reading is not None:
                alert, full = Alert(rule, reading.value, f"{rule.text}: {reading.text}"), None
                if self._at_work.get(rule.text) not in self.pids:  # one at a time: one that hangs must not multiply
                    helper = self._deliver(alert)
                    if isinstance(helper, Delivery):
                        self._at_work[rule.text] = helper.pid
                        self.begun(helper.pid, "delivers an alert", helper.said)
                    else:
                        full = helper
                yield alert, full

    def finish(self) -> str:
        """Let the last deliveries end, for a while; then they go on by themselves, each with a time limit.

        Returns what was said by then.
        """
        self.wait_s = LAST_WAIT_S
        said = super().finish()
        for pid, (what, file) in self._living.items():
            said += words(file) if file is not None else ""
            self._living[pid] = what, None
        return said

    def _speaks(self, rule: Rule, reading: Reading | None, now_s: float) -> bool:
        if rule.text in self._quiet_since_s:
            if not rule.is_over(None if reading is None else reading.value):
                self._quiet_since_s[rule.text] = None
                return False
            since_s = self._quiet_since_s[rule.text]
            if since_s is None:
                self._quiet_since_s[rule.text] = now_s
            elif now_s - since_s >= (_QUIET_OF_TRENDS_S if rule.is_of_trend else QUIET_S):
                del self._quiet_since_s[rule.text]
            return False
        if reading is None or not rule.holds(reading.value):
            return False
        self._quiet_since_s[rule.text] = None
        return True


def alerting_of(options: RecordOptions, job_pid: int | None, output_path: str) -> Alerting:
    """What ``options`` ask for."""
    room_bytes = _ROOM_WITH_WEBHOOKS_BYTES if options.webhooks else _ROOM_BYTES
    facts = {"host": os.uname().nodename, "pid": job_pid, "recording": output_path}

    def deliver(alert: Alert) -> Delivery | Room | None:
        if options.on_alert is None and not options.webhooks:
            return None
        if (full := too_full(room_bytes)) is not None:
            return full
        message = {**facts, **alert.message()}
        folder = None if options.quiet else os.path.dirname(output_path)
        return start_helper(message, command=options.on_alert, webhooks=options.webhooks, folder=folder)

    return Alerting(options.alerts, deliver)


def start_helper(
    message: dict[str, Any], *, command: str | None, webhooks: Sequence[str], folder: str | None
) -> Delivery | None:
    """Run ``delivery.py``. What it needs goes through a pipe: a webhook's address is a secret.

    ``folder``: where a file without a name takes what it says; None: nobody wants to hear it.
    """
    order = json.dumps({"alert": message, "command": command, "webhooks": list(webhooks)}).encode()
    said = _nameless_file(folder) if folder is not None else None
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        os.set_blocking(writing, False)
        os.write(writing, order)  # a pipe takes 64 KiB at once
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", _HELPER],
            os.environ,
            file_actions=streams(said, reading),
            setpgroup=0,  # ^C is for the job
            setsigmask=(),
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError:  # no processes left, for one: the alert stands in the recording all the same
        if said is not None:
            os.close(said)
        return None
    finally:
        os.close(reading)
        os.close(writing)
    return Delivery(pid, said)


def _nameless_file(folder: str) -> int | None:
    flags = os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    with suppress(OSError):
        return os.open(folder, flags, 0o600)
    with suppress(OSError):  # a file system that has none
        path = os.path.join(folder, f".leakscope-{os.urandom(8).hex()}")
        descriptor: int = create(path, os.O_RDWR | os.O_APPEND)
        os.unlink(path)
        return descriptor
    return None


def _rss(rule: Rule, sample: Sample) -> Reading | None:
    return _memory(rule, sample, sum(process.rss_bytes for process in sample.tree), "resident")


def _pss(rule: Rule, sample: Sample) -> Reading | None:
    return _memory(
        rule, sample, together(sample.tree, lambda process: process.memory_bytes), "held, shared pages counted once,"
    )


def _memory(rule: Rule, sample: Sample, bytes: int, what: str) -> Reading | None:
    """A share of the smallest limit, never more than what the limit itself counts: workers share pages."""
    where = f"{what} in {_processes(sample.tree)}"
    if not rule.is_fraction:
        return Reading(bytes, f"{rule.show(bytes)} {where}")
    limit = min((x for x in sample.limits if x.is_memory), key=lambda limit: limit.limit_bytes, default=None)
    if limit is None:
        return None
    fraction = min(bytes, limit.used_bytes) / limit.limit_bytes
    return Reading(fraction, f"{fraction:.0%} of {format_bytes(limit.limit_bytes)} ({limit.name}) {where}")


def _swap(rule: Rule, sample: Sample) -> Reading | None:
    bytes = sum(row["swap_bytes"] or 0 for row in sample.processes)
    if not rule.is_fraction:
        return Reading(bytes, f"{rule.show(bytes)} of the job's memory is in swap")
    total_bytes = sample.host[0]["swap_total_bytes"] if sample.host else None
    if not total_bytes:
        return None
    return Reading(bytes / total_bytes, f"{bytes / total_bytes:.0%} of the swap is taken by the job")


def _gpu(rule: Rule, sample: Sample) -> Reading | None:
    """The device with most in use, by whomever: what the next allocation meets."""

    def value(limit: Limit) -> float:
        return limit.used_fraction if rule.is_fraction else limit.used_bytes

    fullest = max((limit for limit in sample.limits if limit.is_gpu), key=value, default=None)
    if fullest is None:
        return None
    total = format_bytes(fullest.limit_bytes)
    return Reading(value(fullest), f"{rule.show(value(fullest))} in use on {fullest.name} ({total})")


def _growth(rule: Rule, sample: Sample) -> Reading | None:
    steady = sample.figures.course.steady()
    return None if steady is None else Reading(steady.rate, f"memory grows steadily by {rule.show(steady.rate)}")


def _oom_eta(rule: Rule, sample: Sample) -> Reading | None:
    limit = sample.limits.nearest
    if limit is None or limit.seconds_left is None:
        return None
    used = f"{limit.used_fraction:.0%} of {format_bytes(limit.limit_bytes)} is used"
    return Reading(limit.seconds_left, f"{limit.name} is full in {rule.show(limit.seconds_left)} at this rate ({used})")


def _workers(rule: Rule, sample: Sample) -> Reading:
    count = sum(process.role in _WORKERS for process in sample.tree)
    return Reading(count, "1 worker process" if count == 1 else f"{count} worker processes")


def _process_count(rule: Rule, sample: Sample) -> Reading:
    return Reading(len(sample.tree.living), _processes(sample.tree))


def _oom(rule: Rule, sample: Sample) -> Reading:
    count, killed = sample.limits.new_kill_count, sample.tree.last_killed
    text = f"the kernel's OOM killer ended {'a process' if count == 1 else f'{count} processes'}"
    if count and killed is not None:
        text += f", {killed.stat.comm} (pid {killed.pid}) with {format_bytes(killed.most_bytes)}"
    return Reading(count, f"{text}: {sample.limits.own_kills(count).why}" if count else text)


def _processes(tree: Tree) -> str:
    count = len(tree.living)
    return "1 process" if count == 1 else f"{count} processes"


_READERS: dict[str, Callable[[Rule, Sample], Reading | None]] = {
    "rss": _rss,
    "pss": _pss,
    "swap": _swap,
    "gpu": _gpu,
    "growth": _growth,
    "oom_eta": _oom_eta,
    "workers": _workers,
    "processes": _process_count,
    "oom": _oom,
}
