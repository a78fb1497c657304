"""The kernel's lines in systemd's journal: this job's for those who may not read /dev/kmsg, and kills of days before.

Runs in the recorder. journalctl is asked at the end of a job that the kernel may have killed, and never else.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any, NamedTuple

from ._kernel_line import Line

_KERNEL = ("_TRANSPORT=kernel", "SYSLOG_FACILITY=0")  # what a program writes to /dev/kmsg has the first, not the second
_MOST_RECORDS, _MOST_EARLIER = 5000, 20
_EARLIER_DAYS = 30
_LOOK_S = 0.3  # under memory pressure the journal is 0.1 to 1 s behind the kernel
_TIMEOUT_S = 1.0


class Entry(NamedTuple):
    """One line of the journal. ``unix_ns`` is when the journal received it."""

    boot_id: str | None
    unix_ns: int
    line: Line


class Found(NamedTuple):
    """``why_not`` says what kept lines from being read, or that there are none."""

    entries: list[Entry]
    why_not: str = ""


def entries_since(unix_s: float, until_s: float) -> Found:
    """Asks until a kill is among them or ``until_s`` (CLOCK_MONOTONIC) has passed, at least once."""
    if not (known := _ask("--lines=1")).entries:
        return Found([], known.why_not or "the journal shows no line of the kernel")
    while True:
        found = _ask(f"--since=@{unix_s:.0f}", f"--lines={_MOST_RECORDS}")
        left_s = until_s - time.monotonic()
        if found.why_not or left_s <= 0 or any("Killed process" in entry.line.text for entry in found.entries):
            return found if found.entries or found.why_not else Found([], "the journal has no such line")
        time.sleep(min(_LOOK_S, left_s))


def earlier_kills(unix_s: float) -> list[Entry]:
    """Kill lines of the last weeks, the newest ones; empty where the journal cannot be searched."""
    since = f"--since=@{unix_s - _EARLIER_DAYS * 86400:.0f}"
    return _ask(since, f"--until=@{unix_s:.0f}", "--grep=Killed process", f"--lines={_MOST_EARLIER}").entries


def _ask(*options: str) -> Found:
    command = ["journalctl", *_KERNEL, "--output=json", "--all", "--no-pager", "--quiet", *options]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S)
    except FileNotFoundError:
        return Found([], "there is no journalctl")
    except (OSError, subprocess.SubprocessError) as error:
        return Found([], f"journalctl failed: {type(error).__name__}")
    if done.returncode and not done.stdout:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        return Found([], f"journalctl failed: {lines[0] if lines else done.returncode}")
    return Found([line for entry in done.stdout.splitlines() for line in entries_of(entry)])


def entries_of(text: bytes) -> list[Entry]:
    """Lines of one entry; a record of several lines is one entry, and bytes that are no UTF-8 come as numbers."""
    try:
        fields: dict[str, Any] = json.loads(text)
        message = fields["MESSAGE"]
        words = message if isinstance(message, str) else bytes(message).decode("utf-8", "replace")
        time_s = int(fields["_SOURCE_MONOTONIC_TIMESTAMP"]) / 1e6
        unix_ns = int(fields["__REALTIME_TIMESTAMP"]) * 1000
    except (ValueError, KeyError, TypeError):
        return []
    return [Entry(fields.get("_BOOT_ID"), unix_ns, Line(time_s, part)) for part in words.split("\n")]
