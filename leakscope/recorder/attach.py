"""Look at processes that run already: ``record -p PID`` and ``record --system``. Runs in the recorder.

Everything is read from outside, so nothing happens to them. They are not children of the recorder: how they end is
known only where the kernel tells (exits.py), their signals are their own, and a grandchild whose parent died before the
first look is not found.

Refused: to start the agent by way of gdb. Tried on a sleeping Python 3.11: a call that gdb could not finish made the
job's ``time.sleep`` raise ``OSError: [Errno 514]``, and the job died of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress

from .. import signals
from ..agent.journal import create
from ..errors import LeakscopeError
from ..units import format_duration
from . import proc
from .launch import Happening, wait
from .limits import Kills
from .staging import Staged
from .tree import Process, Row, Tree

_WAKING = signals.here("SIGCHLD", "SIGALRM")  # which wake it, and no more
LOOK_S = 1.0  # a process that is no child of ours ends without a signal to us

# What sys.remote_exec runs in the process: the same as at its start, without touching sys.path or its __main__.
# It may come to that when the recording is long over: then it does nothing.
_ENTER = """
import os, sys
from importlib.machinery import SourceFileLoader
try:
    os.unlink(SCRIPT)
except OSError:
    pass
if "_leakscope_agent" not in sys.modules and os.path.isdir(JOURNAL):
    file = os.path.join(FOLDER, "boot", "sitecustomize.py")
    space = {"__name__": "_leakscope_entrance", "__file__": file}
    try:
        exec(compile(SourceFileLoader("", file).get_data(file), file, "exec"), space)
        space["_start"]()
    except Exception:
        pass
"""


class Onlooker:
    """Stands where ``launch.Job`` stands for a command. ``is_over`` when every process ended, or a signal said so."""

    is_ours = False  # what we did not start we do not wait for
    wait_status = None  # never known

    def __init__(self, pids: Sequence[int], ending: Collection[int]) -> None:
        """No pids: the whole host. ``ending``: blocked signals that end it. **Errors** LeakscopeError of ``check``."""
        self.pid = pids[0] if pids else None
        self._start_ticks = {pid: check(pid) for pid in pids}
        self._ending = ending
        self._asked_to_end = False
        self._is_gone = False

    @property
    def is_over(self) -> bool:
        return self._asked_to_end or self._is_gone

    def pause(self, timeout_s: float | None) -> list[Happening]:
        """Sleep until a signal asks to end, the processes may have ended, or the time is over."""
        timeout_s = LOOK_S if timeout_s is None else min(timeout_s, LOOK_S)
        info = wait({*self._ending, *_WAKING}, timeout_s)
        self._asked_to_end = self._asked_to_end or (info is not None and info.si_signo in self._ending)
        self._is_gone = bool(self._start_ticks) and not any(map(self._lives, self._start_ticks))
        return _reaped()

    def _lives(self, pid: int) -> bool:
        stat = proc.stat(pid)
        return stat is not None and not stat.is_dead and stat.start_ticks == self._start_ticks[pid]

    def ending_text(self, exit_code: int | None, elapsed_s: float, kills: Kills) -> str:
        """How it ended, for a person; the status of a process that is no child of ours is not known."""
        if not self._start_ticks:
            return f"recorded {format_duration(elapsed_s)} of the whole host"
        noun, goes, ended = ("process", "goes", "has") if len(self._start_ticks) == 1 else ("processes", "go", "have")
        if not self._is_gone:
            return f"recorded {format_duration(elapsed_s)}; the {noun} {goes} on"
        who = "a process of it" if kills.number == 1 else f"{kills.number} of its processes"
        blame = f"; the kernel killed {who}: {kills.why}" if kills.number else ""
        return f"the {noun} {ended} ended, after {format_duration(elapsed_s)} of recording{blame}"


def check(pid: int) -> int:
    """The start time of a process that can be looked at. **Errors** LeakscopeError, in one line."""
    stat = proc.stat(pid)
    if stat is None or stat.is_dead:
        raise LeakscopeError(f"cannot record process {pid}: there is no such process")
    status = proc.read(f"/proc/{pid}/status") or b""
    owner = int((proc.text_of(status, b"Uid") or "-1").split()[0])
    if owner not in (os.geteuid(), -1) and proc.read(f"/proc/{pid}/smaps_rollup") is None:
        raise LeakscopeError(
            f"cannot record process {pid}: it belongs to {user_name(owner)}; run leakscope as that user or as root"
        )
    return stat.start_ticks


def user_name(uid: int) -> str:
    """The user's name, or the number of one without a name."""
    import pwd  # rarely needed

    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"


def block_signals() -> set[int]:
    """Returns those that end the recording: they wait for ``pause``. ^Z stops the recorder as it stops any program."""
    # What was ignored stays so, SIGHUP under nohup: the kernel keeps also an ignored signal for who waits for it.
    ending: set[int] = {number for number in signals.ENDING if signal.getsignal(number) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ending, *_WAKING})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return ending


def commands(pids: Sequence[int]) -> list[str]:
    """What the first process runs: it stands where a recording has its command."""
    return (proc.command_line(pids[0]) or [f"pid {pids[0]}"]) if pids else ["(the whole host)"]


def can_enter() -> bool:
    """Whether this interpreter could start the agent in another one: PEP 768, from Python 3.14."""
    return hasattr(sys, "remote_exec")


def enter(pid: int, staged: Staged, journal_path: str) -> str | None:
    """Ask a running Python of our own version to start the agent at its next safe point; a line where it refuses.

    Seen with 3.14.10: a process 2 s old, entered within a second.
    """
    script = staged.entrance(pid)
    names = {"SCRIPT": script, "FOLDER": staged.path, "JOURNAL": journal_path}
    with os.fdopen(create(script), "w", encoding="utf-8") as stream:
        # In a namespace of its own: the interpreter runs the script as part of the job's __main__.
        stream.write(f"exec({_ENTER!r}, {names!r})\n")
    if not _can_read(pid, script):  # it would say so on its stderr
        os.unlink(script)
        return f"no view inside process {pid}: it is another user's, or sees other files"
    try:
        sys.remote_exec(pid, script)  # type: ignore[attr-defined, unused-ignore]
    except (OSError, RuntimeError, ValueError) as error:  # no Python, another version, switched off, no rights
        os.unlink(script)
        reason = error.strerror if isinstance(error, OSError) else error
        return f"no view inside process {pid}: {reason}"
    return None


def enter_here(folder: str, journal_path: str) -> None:
    """Start the agent in this process; ``folder`` is that of the run. What hinders it is not said."""
    exec(_ENTER, {"SCRIPT": os.path.join(folder, "enter"), "FOLDER": folder, "JOURNAL": journal_path})


def _can_read(pid: int, script: str) -> bool:
    """Whether it runs as the user whose script it is, and finds it by the same name."""
    status = proc.read(f"/proc/{pid}/status") or b""
    if set((proc.text_of(status, b"Uid") or "").split()) != {str(os.geteuid())}:
        return False
    try:
        return os.path.samefile(f"/proc/{pid}/root{script}", script)
    except OSError:
        return False


class HostTree(Tree):
    """The processes of the machine that hold most memory or grow most, at most ``MOST``; who is in stays for a while.

    **Cost** 15 us for each process of the machine and look, of which there are few: at a new process, and each 10 s.
    """

    INTERVAL_S = 5.0
    MOST = 200
    MOST_GROWERS = 50  # of them chosen for their growth: small now, but not for long
    LEAST_BYTES = 1 << 20  # kernel threads have nothing, and a shell is no suspect

    def __init__(self, recorder_pid: int, pss_period_s: float | None = None) -> None:
        super().__init__(None, recorder_pid, pss_period_s)
        self._first_bytes: dict[int, int] = {}

    def _find_new(self, now_ns: int) -> list[Row]:
        present = {
            pid: rss_bytes
            for pid in proc.pids()
            if pid != self._recorder_pid and pid not in self._helpers and (rss_bytes := resident_bytes(pid))
        }
        self._first_bytes = {pid: self._first_bytes.get(pid, rss_bytes) for pid, rss_bytes in present.items()}
        wanted = self._chosen(present)
        room = self.MOST - len(self.living)
        newcomers = [pid for pid in wanted if pid not in self.living]
        leaving = sorted(self.living.keys() - set(wanted), key=lambda pid: present.get(pid, 0))
        for pid in leaving[: max(0, len(newcomers) - room)]:
            del self.living[pid]
        rows: list[Row] = []
        for pid in newcomers:
            if (stat := proc.stat(pid)) is not None and not stat.is_dead:
                rows += self._add(Process(pid, stat, self.now_s, now_ns, is_root=False, is_stranger=True), now_ns)
        # Of a job every cgroup is kept; of a host they come and go without end.
        self.cgroups = {process.cgroup: None for process in self if process.cgroup is not None}
        return rows

    def _chosen(self, present: dict[int, int]) -> list[int]:
        large = [pid for pid, rss_bytes in present.items() if rss_bytes >= self.LEAST_BYTES]
        growth = {pid: present[pid] - self._first_bytes[pid] for pid in large}
        growers = sorted((p for p in large if growth[p] > 0), key=lambda p: -growth[p])[: self.MOST_GROWERS]
        by_size = sorted(set(large).difference(growers), key=lambda p: -present[p])
        return [*growers, *by_size][: self.MOST]


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 for one that is gone or a part of the kernel."""
    statm = proc.read(f"/proc/{pid}/statm")
    return int(statm.split()[1]) * proc.PAGE_BYTES if statm else 0


def _reaped() -> list[Happening]:
    """Our own helpers that ended."""
    happenings = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            happenings.append(Happening("ended", *ended))
    return happenings
