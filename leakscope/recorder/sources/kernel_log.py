"""What the kernel wrote into its log about a lack of memory, while the job ran and just after. Runs in the recorder.

Only the lines of an OOM report are kept, as they stand: who was killed, by which limit, is for the analysis to read.
A row without ``kernel_time_s`` is a remark of ours: lines are missing, or the log may not be read at all.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

from .. import proc
from ..tree import Row, Tree
from ._kernel_line import Line

if TYPE_CHECKING:
    from . import _kernel_journal

TABLE = "kernel_log"
_DEVICE = "/dev/kmsg"
_MOST_AT_ONCE = 5000  # records read in one look: a kernel that writes faster must not keep the recorder from its work
_RECORD_BYTES = 8192
_ASKING_BYTES = 32 << 20  # what journalctl may take
_PATIENCE_S = 1.0  # the kernel prints the kill after it has sent the signal
_MOST_LINES, _MOST_KILL_LINES = 4000, 6000  # in a recording: some ten reports, then kills alone
_MOST_REPORT_LINES = 1500  # a table of 1,000 tasks, and what stands before it
_REPORT_S = 3.0  # longer it takes no kernel to print one: what it began is not going to end
_ESCAPE = re.compile(r"((?:\\x[0-9a-f]{2})+)")

_BEGINS = "invoked oom-killer"
_ENDS = re.compile(r"Killed process \d|no killable processes|Kernel panic")
_STANDS_ALONE = re.compile(
    r"invoked oom-killer|Kill(ed)? process \d|oom_reaper: (reaped|unable)|^oom-kill:|killed as a result of limit of|"
    r"no killable processes|killed due to memory\.oom\.group|oom_kill_process: \d+ callbacks suppressed"
)


def rows(tree: Tree) -> Iterator[Row]:
    """Lines since the last look; at the end of the job, the last ones. **Cost** 1 us while the kernel is silent."""
    log = _logs.get(tree)
    if log is None:
        log = _logs[tree] = _Log(tree)
    if not log.is_over and tree.root_pid is not None and log.had_root and tree.root_pid not in tree.living:
        log.is_over = True
        yield from log.last_rows(tree)
    else:
        yield from log.new_rows()
    log.had_root = log.had_root or tree.root_pid in tree.living


class Reports:
    """Picks the lines of OOM reports out of the kernel's log."""

    def __init__(self) -> None:
        self.kill_count = 0
        self._kept_count = 0
        self._left_count = 0  # lines that may still belong to the report that began last
        self._until_s = 0.0

    def keeps(self, line: Line) -> bool:
        if _BEGINS in line.text:
            self._left_count, self._until_s = _MOST_REPORT_LINES, line.time_s + _REPORT_S
        inside = self._left_count > 0 and line.time_s <= self._until_s
        self._left_count -= 1
        if _ENDS.search(line.text):
            self._left_count = 0
            self.kill_count += "Killed process" in line.text
        alone = _STANDS_ALONE.search(line.text) is not None
        keeps = (inside and self._kept_count < _MOST_LINES) or (alone and self._kept_count < _MOST_KILL_LINES)
        self._kept_count += keeps
        return keeps


class _Log:
    """The log as one recording sees it, from its first look on."""

    def __init__(self, tree: Tree) -> None:
        self.is_over = self.had_root = False
        self._began_unix_s = time.time()
        self._kills_before = _kills_of_host()
        self._reports = Reports()
        self._why_not = ""
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._why_not = error.strerror or str(error)
            return
        finalize(tree, os.close, self._descriptor)
        with suppress(OSError):
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def new_rows(self) -> Iterator[Row]:
        if self._descriptor is None:
            return
        for _ in range(_MOST_AT_ONCE):
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the next read goes on with the oldest record there is
                yield _remark("lines are missing here: the kernel overwrote them before they were read")
                continue
            except OSError as error:
                self._descriptor, self._why_not = None, error.strerror or str(error)
                return
            if not record:  # a container's /dev/kmsg that is really /dev/null
                self._descriptor, self._why_not = None, "it is empty"
                return
            yield from (_row("kmsg", line) for line in lines_of(record) if self._reports.keeps(line))

    def last_rows(self, tree: Tree) -> Iterator[Row]:
        """What came since the last look. Waits a moment where somebody was killed and the kernel has yet to say so."""
        expected = self._kills_expected(tree)
        until_s = time.monotonic() + _PATIENCE_S
        yield from self.new_rows()
        while self._descriptor is not None and self._reports.kill_count < expected:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not _waits_for(self._descriptor, left_s):
                break
            yield from self.new_rows()
        if expected and _has_room_to_ask():
            yield from self._from_journal(until_s)

    def _kills_expected(self, tree: Tree) -> int:
        """Kills the kernel has counted since the beginning; where it does not count, one if SIGKILL ended a process."""
        kills = _kills_of_host()
        if kills is None or self._kills_before is None:
            return 1 if tree.sigkill_count else 0
        return max(0, kills - self._kills_before)

    def _from_journal(self, until_s: float) -> Iterator[Row]:
        """What /dev/kmsg did not give, from systemd's journal, which some may read who are not root; earlier kills."""
        from . import _kernel_journal as journal  # rarely needed

        if not self._reports.kill_count:
            found = journal.entries_since(self._began_unix_s, until_s)
            yield from (_journal_row(entry) for entry in found.entries if self._reports.keeps(entry.line))
            if not self._reports.kill_count and self._why_not:
                text = f"the kernel's log could not be read: {_DEVICE}: {self._why_not}; {found.why_not}"
                yield _remark(text)
        yield from map(_journal_row, journal.earlier_kills(self._began_unix_s))


def _has_room_to_ask() -> bool:
    from ..helpers import too_full  # which asks sources itself

    return too_full(_ASKING_BYTES) is None


_logs: WeakKeyDictionary[Tree, _Log] = WeakKeyDictionary()


def lines_of(record: bytes) -> Iterator[Line]:
    """Lines of a record of /dev/kmsg, ``3,503,1348045010,-;text``, that the kernel itself wrote (facility 0).

    Anybody who may write to the log can write the same words, but not with that facility.
    """
    head, _, rest = record.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if len(fields) < 3 or not (fields[0].isdecimal() and fields[2].isdecimal()) or int(fields[0]) >> 3:
        return
    text = _ESCAPE.sub(_unescaped, rest.partition("\n")[0])  # the lines below are for machines
    for part in text.split("\n"):
        yield Line(int(fields[2]) / 1e6, part)


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match[1].replace("\\x", "")).decode("utf-8", "replace")


def _waits_for(descriptor: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def _kills_of_host() -> int | None:
    return proc.count_of(proc.read("/proc/vmstat"), b"oom_kill")


def _row(source: str, line: Line) -> Row:
    return {"log_source": source, "kernel_time_s": line.time_s, "text": line.text}


def _journal_row(entry: _kernel_journal.Entry) -> Row:
    row = {"log_boot_id": entry.boot_id, "time_unix_ns": entry.unix_ns}
    return {**_row("journal", entry.line), **row}


def _remark(text: str) -> Row:
    return {"log_source": "kmsg", "kernel_time_s": None, "text": text}
