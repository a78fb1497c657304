"""The process tree of the job: who was born, who died, who is whose child. Runs in the recorder.

A process is (pid, start time), since pids are reused. Once in the tree it stays: children of a parent that died are
adopted by the recorder, which finds them again as its own. A process that lives shorter than one interval and leaves
no zombie is not seen.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ..outside import is_python
from . import proc
from .exits import Exits
from .roles import role_of

Row = dict[str, Any]
FULL_SCAN_S = 10.0  # looks at everything even when no pid was given out, in case the kernel hides that
_SETTLED_S = 2.0  # a younger process may still exec itself into another program
_RECHECK_S = 10.0


class Memory:
    """Of one process, as last read. **Units** bytes."""

    rss_bytes = 0
    file_bytes = swap_bytes = 0  # RssFile and VmSwap
    pss_bytes: int | None = None
    pss_rss_bytes = 0  # rss when pss was read
    pss_file_bytes = pss_file_rss_bytes = 0  # of PSS, mapped files; RssFile then
    uss_bytes = 0  # of its own alone, when PSS was read
    pss_read_s = float("-inf")
    born_s = 0.0
    arguments: Sequence[str] = ()

    @property
    def family(self) -> tuple[str, ...]:
        """What a process has in common with its forks: they share pages, and each counts its part of them."""
        return tuple(self.arguments)

    @property
    def memory_bytes(self) -> int:
        """Its fair share of memory now: the last PSS, moved on by what RSS did since; RSS where PSS is not readable."""
        if self.pss_bytes is None:
            return self.rss_bytes
        return max(0, self.pss_bytes + self.rss_bytes - self.pss_rss_bytes)

    @property
    def held_bytes(self) -> int:
        """What a report calls held: with what is in swap, without mapped files, which the kernel takes back."""
        if self.pss_bytes is None:
            return self.rss_bytes - self.file_bytes + self.swap_bytes
        files = self.pss_file_bytes + self.file_bytes - self.pss_file_rss_bytes
        return max(0, self.memory_bytes - min(max(0, files), self.file_bytes)) + self.swap_bytes

    @property
    def unshared_bytes(self) -> int:
        """Of what it holds that which nobody else has; at most, as what came since the last PSS may be shared too."""
        if self.pss_bytes is None:
            return 0
        return min(self.held_bytes, max(0, self.uss_bytes + self.rss_bytes - self.pss_rss_bytes) + self.swap_bytes)


class Process(Memory):
    """One process of the tree: what a row of ``processes`` says, and what its readings need to remember."""

    def __init__(
        self, pid: int, stat: proc.Stat, now_s: float, now_ns: int, is_root: bool, is_stranger: bool = False
    ) -> None:
        """``is_stranger``: it ran already before it was looked at."""
        self.pid = pid
        self.stat = stat
        self.ppid = stat.ppid
        self.is_root = is_root
        self.is_stranger = is_stranger
        self.born_s = now_s
        self.born_mono_ns = now_ns
        self.died_mono_ns: int | None = None
        self.exit_code: int | None = None
        self.exit_signal: int | None = None
        self.role: str | None = None
        self.arguments = []
        self.exe: str | None = None
        self.ns_pid: int | None = None
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.cgroup: str | None = None
        self.next_look_s = now_s
        self.looked_comm = ""
        self.most_bytes = 0  # VmHWM: the most RSS it ever had, as far as samples saw
        self.new_most_bytes = 0  # the same, if it rose since the last sample, else 0
        self.pss_family_size = 0  # processes that shared its pages when its PSS was read
        self.pss_cost_s = 0.0
        self.fds_read_s = float("-inf")

    def note_most(self, most_bytes: int) -> None:
        """VmHWM as it is now. Of what runs already nobody knows when it was so high: the first reading is no news."""
        is_news = most_bytes > self.most_bytes and (self.most_bytes > 0 or not self.is_stranger)
        self.new_most_bytes = most_bytes if is_news else 0
        self.most_bytes = max(self.most_bytes, most_bytes)

    def row(self) -> Row:
        return {
            "pid": self.pid,
            "start_ticks": self.stat.start_ticks,
            "ppid": self.ppid,
            "ns_pid": self.ns_pid,
            "comm": self.stat.comm,
            "cmdline": shlex.join(self.arguments) if self.arguments else None,
            "exe": self.exe,
            "role": self.role,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "cgroup": self.cgroup,
            "born_mono_ns": self.born_mono_ns,
            "died_mono_ns": self.died_mono_ns,
            "exit_code": self.exit_code,
            "exit_signal": self.exit_signal,
            "is_root": self.is_root,
        }


def held_together(processes: Iterable[Memory]) -> int:
    """Bytes that processes hold, each page once."""
    return together(processes, lambda process: process.held_bytes)


def together(processes: Iterable[Memory], size_of: Callable[[Memory], int]) -> int:
    """A sum over processes of a size that counts shares of pages, each page once, as far as the last PSS tells.

    What forks share is divided among all of them in a reading that was made while all were there. One from before a
    birth counts the shared pages in full, and the newborn's reading counts a part of them again: of the newborn only
    what it alone has is added until the others have been read anew. It is never too much, and may be too little.
    """
    families: dict[tuple[str, ...], list[Memory]] = {}
    for process in processes:
        families.setdefault(process.family, []).append(process)
    total = 0
    for members in families.values():
        read_s = min(process.pss_read_s for process in members)
        is_read = any(process.pss_bytes is not None for process in members)  # else RSS is all that is known
        for process in members:
            is_counted = process.born_s > read_s or (is_read and process.pss_bytes is None)
            alone = len(members) == 1 or not process.arguments
            size_bytes = size_of(process)
            total += min(process.unshared_bytes, size_bytes) if is_counted and not alone else size_bytes
    return total


class Tree:
    """The living processes of the job, brought up to date by ``update``."""

    def __init__(
        self,
        root_pid: int | None,
        recorder_pid: int,
        pss_period_s: float | None = None,
        attached_pids: Collection[int] = (),
    ) -> None:
        """``pss_period_s``: what the user wants instead of a period that adapts to the cost of each process.

        ``attached_pids``: processes that run already and belong to the tree although the recorder is not their parent.
        """
        self.root_pid = root_pid
        self.pss_period_s = pss_period_s
        self.now_s = 0.0
        self.living: dict[int, Process] = {}
        self.strangers: set[int] = set()  # pids of processes that live and are not of the job: they need no second look
        self.sigkill_count = 0  # processes that SIGKILL ended, as far as that is known
        self.last_killed: Process | None = None  # of those
        self.cgroups: dict[str, None] = {}  # of all processes so far: their counters tell of a kill only afterwards
        self._recorder_pid = recorder_pid
        self._roots_to_come = {*attached_pids} if root_pid is None else {root_pid, *attached_pids}
        self._known: set[int] = {recorder_pid}  # pids that were looked at and need no second look
        self._helpers: set[int] = set()
        self._sees_strangers = root_pid is None or bool(attached_pids)  # found at the first look: they ran before
        self._last_pid: int | None = None
        self._scanned_s = float("-inf")
        self._reaped: dict[int, tuple[int | None, int | None]] = {}  # by the recorder
        self._exits = Exits()  # of those that others reap

    def __iter__(self) -> Iterator[Process]:
        return iter(list(self.living.values()))

    def leave_out(self, pid: int) -> None:
        """A child of the recorder that is not the job's: its own helper."""
        self._helpers.add(pid)

    def is_helper(self, pid: int) -> bool:
        """Whether that child of the recorder is its own, and not the job's."""
        return pid in self._helpers

    def note_exit(self, pid: int, exit_code: int | None, exit_signal: int | None) -> None:
        """What the recorder learnt when it reaped ``pid``; the process is dead at the next update."""
        if pid in self.living:
            self._reaped[pid] = exit_code, exit_signal
        self._known.discard(pid)
        self._helpers.discard(pid)

    def update(self, now_s: float, now_ns: int) -> list[Row]:
        """Rows of ``processes`` for who was born, changed its program or died since the last call."""
        self.now_s = now_s
        rows = [row for process in self for row in self._look_again(process, now_ns)]
        last_pid = proc.last_pid()
        if last_pid is None or last_pid != self._last_pid or now_s - self._scanned_s >= FULL_SCAN_S:
            if last_pid is None or self._last_pid is None or last_pid < self._last_pid:
                # The count began anew: a known pid may be somebody else now.
                self._known = {self._recorder_pid, *self.living}
            self._last_pid, self._scanned_s = last_pid, now_s
            rows += self._find_new(now_ns)
            self._exits.keep(self.living.keys())
        return rows

    def _look_again(self, process: Process, now_ns: int) -> list[Row]:
        stat = None if process.pid in self._reaped else proc.stat(process.pid)
        if stat is not None and stat.is_dead and stat.ppid == self._recorder_pid:
            return []  # the recorder is about to reap it and will know how it ended
        if stat is None or stat.is_dead or stat.start_ticks != process.stat.start_ticks:
            return [self._bury(process, now_ns)]
        process.stat = stat
        if stat.comm != process.looked_comm or self.now_s >= process.next_look_s:
            return self._identify(process)
        return []

    def _bury(self, process: Process, now_ns: int) -> Row:
        process.died_mono_ns = now_ns
        seen = self._exits.status(process.pid)
        process.exit_code, process.exit_signal = self._reaped.pop(process.pid, seen)
        if process.exit_signal == signal.SIGKILL:
            self.sigkill_count += 1
            self.last_killed = process
        self.living.pop(process.pid, None)
        return process.row()

    def _find_new(self, now_ns: int) -> list[Row]:
        present = proc.pids()
        strangers: dict[int, proc.Stat] = {}
        for pid in present:
            if pid not in self._known and pid not in self._helpers and (stat := proc.stat(pid)) is not None:
                strangers[pid] = stat
        self._known = set(present)
        rows: list[Row] = []
        parents = {self._recorder_pid, *self.living}
        roots, self._roots_to_come = self._roots_to_come, set()  # a later process of that number is another one
        while ours := [pid for pid, stat in strangers.items() if stat.ppid in parents or pid in roots]:
            for pid in sorted(ours):
                stat, is_stranger = strangers.pop(pid), self._sees_strangers
                rows += self._add(Process(pid, stat, self.now_s, now_ns, pid in roots, is_stranger), now_ns)
                parents.add(pid)
        self._sees_strangers = False
        self.strangers &= self._known - self.living.keys()
        self.strangers |= {pid for pid, stat in strangers.items() if not stat.is_dead}
        return rows

    def _add(self, process: Process, now_ns: int) -> list[Row]:
        self.living[process.pid] = process
        status = proc.read(f"/proc/{process.pid}/status") or b""
        process.ns_pid = int((proc.text_of(status, b"NSpid") or str(process.pid)).split()[-1])
        rows = self._identify(process) or [process.row()]
        if (
            process.stat.is_dead and process.ppid != self._recorder_pid
        ):  # it came and went between two looks, and its parent has not reaped it
            rows.append(self._bury(process, now_ns))
        elif process.ppid != self._recorder_pid:
            self._exits.watch(process.pid)
        return rows

    def _identify(self, process: Process) -> list[Row]:
        """Read what a process runs, and in which cgroup: who starts it may move it there. A row if that is new."""
        process.next_look_s = self.now_s if self.now_s < process.born_s + _SETTLED_S else self.now_s + _RECHECK_S
        process.looked_comm = process.stat.comm
        arguments = proc.command_line(process.pid) or process.arguments
        exe = proc.executable(process.pid) or process.exe
        parent = self.living.get(process.ppid)
        if parent is not None and arguments == parent.arguments:  # a fork: there may be a thousand, held once
            arguments = parent.arguments
        role = role_of(
            process.stat.comm, arguments, parent.role if parent else None, parent.arguments if parent else None, exe
        )
        has_title = bool(arguments) and exe == process.exe and is_python(exe or "") and not is_python(arguments[0])
        if has_title and process.role in ("python-fork", "python-spawn"):
            role = process.role  # as its command line had said
        rank, local_rank = (_number(proc.environment_value(process.pid, name)) for name in ("RANK", "LOCAL_RANK"))
        if role in ("python", "python-fork") and (rank, local_rank) != _ranks_of(parent):
            role = "trainer"  # Lightning starts the other ranks by its own command line
        cgroup = proc.cgroup(process.pid) or process.cgroup
        if (arguments, exe, role, cgroup) == (process.arguments, process.exe, process.role, process.cgroup):
            return []
        process.arguments, process.exe, process.role, process.cgroup = arguments, exe, role, cgroup
        if cgroup is not None:
            self.cgroups[cgroup] = None
        process.rank, process.local_rank = rank, local_rank
        return [process.row()]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _ranks_of(process: Process | None) -> tuple[int | None, int | None]:
    return (process.rank, process.local_rank) if process is not None else (None, None)
