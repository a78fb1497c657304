"""The kernel's lines in systemd's journal, for those who may not read /dev/kmsg. Runs in the recorder.

journalctl is asked at the end of a job that the kernel may have killed, and never else.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any, NamedTuple

from .kernel_log import Line

_MOST_RECORDS = 5000
_LOOK_S = 0.3  # under memory pressure the journal is 0.1 to 1 s behind the kernel
_LEAST_PATIENCE_S = 1.0


class Found(NamedTuple):
    """Lines with the boot they belong to; ``why_not`` says what kept them from being read, or that there are none."""

    lines: list[tuple[str | None, Line]]
    why_not: str


def lines_since(unix_s: float, until_s: float) -> Found:
    """Asks until a kill is among them or ``until_s`` (CLOCK_MONOTONIC) has passed, at least once."""
    while True:
        found = _ask(unix_s, max(_LEAST_PATIENCE_S, until_s - time.monotonic()))
        now_s = time.monotonic()
        if found.why_not or any("Killed process" in line.text for _, line in found.lines) or now_s >= until_s:
            return found if found.lines or found.why_not else Found([], "the journal has no line of the kernel")
        time.sleep(min(_LOOK_S, until_s - now_s))


def _ask(unix_s: float, timeout_s: float) -> Found:
    command = [
        "journalctl", "_TRANSPORT=kernel", "SYSLOG_FACILITY=0", "-o", "json", "--all", "--no-pager", "-q",
        f"--since=@{unix_s:.0f}", f"--lines={_MOST_RECORDS}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s)
    except FileNotFoundError:
        return Found([], "there is no journalctl")
    except (OSError, subprocess.SubprocessError) as error:
        return Found([], f"journalctl failed: {type(error).__name__}")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        return Found([], f"journalctl failed: {lines[0] if lines else done.returncode}")
    return Found([line for entry in done.stdout.splitlines() for line in lines_of(entry)], "")


def lines_of(entry: bytes) -> list[tuple[str | None, Line]]:
    """Lines of one entry; a record of several lines is one entry, and bytes that are no UTF-8 come as numbers."""
    try:
        fields: dict[str, Any] = json.loads(entry)
        message = fields["MESSAGE"]
        text = message if isinstance(message, str) else bytes(message).decode("utf-8", "replace")
        time_s = int(fields["_SOURCE_MONOTONIC_TIMESTAMP"]) / 1e6
    except (ValueError, KeyError, TypeError):
        return []
    return [(fields.get("_BOOT_ID"), Line(time_s, part)) for part in text.split("\n")]
