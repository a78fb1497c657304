"""Start the command and be its transparent parent: signals passed on once, stops mirrored, exit status kept.

Runs in the recorder. There is no signal handler: every signal that can be blocked is, and the recorder sleeps in
``sigwaitinfo``, so nothing interrupts a sample and nothing is lost. The job keeps the process group, the descriptors
and the signal mask that the recorder was started with.

What the recorder's own end means for the job is what it would mean bare: a signal that the launcher asked for at its
death (PR_SET_PDEATHSIG) is asked for by the job, too, so that the chain holds; and a recorder that somebody kills takes
the job with it (guard.py), unless ``--outlive`` is given.

Refused: a new session or process group (^C and ^Z of the terminal would miss the job), a death signal that nobody asked
for (the job would outlive neither a crash of the recorder nor its OOM kill), pipes or a pty (the job would notice;
``--tee`` asks for one, on stderr).
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from .. import signals
from ..errors import LeakscopeError
from . import console, proc

SI_KERNEL = 128  # si_code of a signal the kernel made: the terminal's ^C reached the whole process group already
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_PR_SET_DUMPABLE = 4
# Faults are about the recorder itself, SIGPIPE is ignored by Python, the last two cannot be blocked.
_NOT_PASSED_ON = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGPIPE", "SIGKILL", "SIGSTOP")
HANDLED = frozenset(signal.valid_signals()) - set(signals.here(*_NOT_PASSED_ON))


class NotStarted(LeakscopeError):
    """The command could not be started; the exit status is the one a shell would give."""

    def __init__(self, line: str, exit_status: int) -> None:
        super().__init__(line)
        self.exit_status = exit_status


class Happening(NamedTuple):
    """What woke the recorder: signal, stopped, continued (the value is a signal) or ended (a wait status).

    ``most_bytes``, of one that ended: the most that it, or a process that it waited for, ever had in memory.
    """

    kind: str
    pid: int
    value: int
    most_bytes: int = 0


def find_program(name: str, path: str | None) -> str:
    """The file that ``name`` stands for. **Errors** NotStarted: 127 not found, 126 not executable, as a shell."""
    folders = [""] if "/" in name else (os.defpath if path is None else path).split(os.pathsep)
    found = [file for file in (os.path.join(folder, name) for folder in folders) if name and os.path.exists(file)]
    for file in found:
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    if found:
        reason = "it is a directory" if os.path.isdir(found[0]) else "it is not executable (chmod +x?)"
        raise NotStarted(f"cannot run {found[0]}: {reason}", 126)
    hint = f"; a whole line is for a shell: sh -c {shlex.quote(name)}" if any(map(str.isspace, name)) else ""
    raise NotStarted(f"cannot run {name or repr(name)}: not found{hint}", 127)


def with_python(command: Sequence[str], path: str | None) -> Sequence[str]:
    """A script of Python's that is no program by itself gets the Python of leakscope before it."""
    if not (command[0].endswith(".py") and os.path.isfile(command[0]) and sys.executable):
        return command
    try:
        find_program(command[0], path)
    except NotStarted:
        return [sys.executable, *command]
    return command


def block_signals() -> set[int]:
    """Block what the recorder passes on; returns the mask it was started with."""
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    # An inherited "ignore" would make the kernel reap children without telling how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return set(inherited)


def occupy_standard_descriptors() -> None:
    """Keep 0, 1 and 2 from being given to a file of ours if they were closed; the job still finds them closed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        pass
    os.close(descriptor)


def asked_to_end(inherited_mask: set[int]) -> int | None:
    """A signal to end by that came before there was a job to pass it on to."""
    pending = signal.sigpending() - inherited_mask
    return next((number for number in signals.ENDING if number in pending), None)


def adopt_orphans() -> None:
    """Make processes of the job whose parent died children of the recorder, so that they stay in its tree."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Job:
    """The command that was recorded. ``wait_status`` is None until it has ended."""

    is_ours = True
    ending_text = staticmethod(console.ending_text)

    def __init__(self, pid: int) -> None:
        self.pid = pid
        stat = proc.stat(pid)
        self.start_ticks = stat.start_ticks if stat is not None else None
        self.wait_status: int | None = None
        self._stopped = False

    @classmethod
    def start(
        cls, command: Sequence[str], environment: Mapping[str, str], mask: set[int], stderr: int | None = None
    ) -> Job:
        """``stderr`` None: ours. **Errors** NotStarted."""
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them, the job must not inherit that
        actions = [] if stderr is None else [(os.POSIX_SPAWN_DUP2, stderr, 2)]

        death_signal = death_signal_of_launcher()

        def spawn(start: Callable[..., int], program: str, words: list[str]) -> int:
            if death_signal:
                return _fork_with(death_signal, program, words, environment, mask, defaults, stderr)
            return start(program, words, environment, file_actions=actions, setsigmask=mask, setsigdef=defaults)

        try:
            try:
                pid = spawn(os.posix_spawnp, command[0], list(command))
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                script = find_program(command[0], environment.get("PATH"))  # no #! line: sh runs it, as for execvp
                pid = spawn(os.posix_spawn, "/bin/sh", ["/bin/sh", script, *command[1:]])
        except FileNotFoundError:
            raise NotStarted(f"cannot run {command[0]}: not found", 127) from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            reason = error.strerror if isinstance(error, OSError) else error
            raise NotStarted(f"cannot run {command[0]}: {reason}", 126) from None
        return cls(pid)

    @property
    def is_over(self) -> bool:
        return self.wait_status is not None

    def pause(self, timeout_s: float | None) -> list[Happening]:
        """Sleep until something happens or the time is over (None: no limit); pass signals on, reap the dead."""
        happenings = []
        wait_s = timeout_s
        while info := wait(HANDLED, wait_s):
            wait_s = 0.0
            if info.si_signo != signal.SIGCHLD and info.si_code != SI_KERNEL and self._wants(info.si_signo):
                with suppress(ProcessLookupError):
                    os.kill(self.pid, info.si_signo)
                happenings.append(Happening("signal", self.pid, info.si_signo))
        return happenings + self._reap()

    def _wants(self, number: int) -> bool:
        """A shell's ``fg`` continues the whole group: a job that runs again must not get SIGCONT twice."""
        if number != signal.SIGCONT or not self._stopped:
            return True
        now = proc.stat(self.pid)
        return now is not None and now.state in "Tt"

    def _reap(self) -> list[Happening]:
        happenings = []
        while self.wait_status is None:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                happenings.append(Happening("stopped", pid, os.WSTOPSIG(status)))
                if pid == self.pid:
                    self._stop_too(os.WSTOPSIG(status))
                    break  # look at the SIGCONT that woke us before the job's own state
            elif os.WIFCONTINUED(status):
                happenings.append(Happening("continued", pid, signal.SIGCONT))
                self._stopped = self._stopped and pid != self.pid
            else:
                happenings.append(Happening("ended", pid, status, usage.ru_maxrss * 1024))
                if pid == self.pid:
                    self.wait_status = status
        return happenings

    def _stop_too(self, number: int) -> None:
        """Show a shell with job control that its job has stopped.

        Not for a bare SIGSTOP without a terminal: whoever sends that to the job continues the job, never the recorder.
        """
        self._stopped = True
        if number != signal.SIGSTOP or _has_terminal():
            os.kill(os.getpid(), signal.SIGSTOP)


def death_signal_of_launcher() -> int:
    """The signal that this process gets when its parent dies; 0: none."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        number = ctypes.c_int()
        if ctypes.CDLL(None).prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0) == 0:
            return number.value
    return 0


def _fork_with(
    death_signal: int,
    program: str,
    words: list[str],
    environment: Mapping[str, str],
    mask: set[int],
    defaults: Collection[int],
    stderr: int | None,
) -> int:
    """As posix_spawn, which cannot ask for a signal. **Errors** OSError."""
    import ctypes

    prctl, own_pid = ctypes.CDLL(None).prctl, os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
            for number in defaults:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if os.getppid() != own_pid:  # it died before that was asked for
                os.kill(os.getpid(), death_signal)
            if stderr is not None:
                os.dup2(stderr, 2)
            os.execvpe(program, words, dict(environment))
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writing)
    with os.fdopen(reading) as stream:
        why_not = stream.read()
    if why_not:
        os.waitpid(pid, 0)
        raise OSError(int(why_not), os.strerror(int(why_not)))
    return pid


def exit_code_of(wait_status: int) -> int:
    """The exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(wait_status)


def end_as(wait_status: int) -> int:
    """End as the job did: by the same signal, or return the exit status to end with (128 + n if the signal fails)."""
    code = exit_code_of(wait_status)
    if code >= 0:
        return code
    _die_by(-code)
    return 128 - code  # process 1 of a container survives a signal that it sends to itself


def _die_by(number: int) -> None:
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _prctl(_PR_SET_DUMPABLE, 0)  # the limit does not hold for a core_pattern that is a pipe
    with suppress(ValueError, OSError):  # SIGKILL has no action to set
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def wait(signals: Collection[int], timeout_s: float | None) -> signal.struct_siginfo | None:
    """The next of these blocked signals, SIGALRM among them, or None; the end of the time is an alarm of the kernel's.

    Not sigtimedwait with a timeout: when a process is stopped and continued in it past its time, Python
    returns a signal that nobody sent, made of what lay on the stack.
    """
    if timeout_s is not None and timeout_s <= 0.0:
        return signal.sigtimedwait(signals, 0.0)
    if timeout_s is None:
        return signal.sigwaitinfo(signals)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        return signal.sigwaitinfo(signals)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _prctl(option: int, value: int) -> None:
    """prctl(2); a system without it goes on without its benefit."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
