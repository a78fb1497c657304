"""The end of what the job writes to stderr, where that is a terminal or a pipe: only with ``--tee``.

Runs beside the recorder, in a process of its own: the job writes to a pipe (to a pseudo-terminal where it had a
terminal), the process passes every byte on and remembers the last of them. It blocks all signals and outlives the
recorder, so a recorder that is killed costs the job nothing. The terminal that controls the job stays the real one: ^C,
^Z and the process group are not touched.

What remains: whoever kills this very process makes the job's next write to stderr fail (EPIPE, EIO), as if a terminal
had been closed; stdout and stderr that go to one place may change order by some lines, since one of them goes a longer
way; ttyname(2) of stderr names the pseudo-terminal.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import struct
import time
from contextlib import suppress

from .stderr_file import STDERR, TAIL_BYTES

_COUNTS = struct.Struct("=QQ")  # bytes read from the job, bytes passed on
_CHUNK_BYTES = 64 * 1024
_PATIENCE_S = 2.0  # for a terminal that was stopped with ^S, when all is over
_QUIET_S = 0.1  # without a byte: somebody the job left behind keeps stderr open
_POLL_S = 0.002


class Tee:
    """The way from the job's stderr to ours. ``for_job`` is the descriptor that the job gets, ``pid`` who passes on."""

    def __init__(self, for_job: int, pid: int, memory: _Memory) -> None:
        self.for_job = for_job
        self.pid = pid
        self._memory = memory

    @classmethod
    def before_start(cls) -> Tee | None:
        """None if stderr is neither a terminal nor a pipe. **Errors** OSError."""
        if os.isatty(STDERR):
            source, for_job = _pseudo_terminal()
        elif stat.S_ISFIFO(os.fstat(STDERR).st_mode):
            source, for_job = os.pipe()
        else:
            return None
        memory = _Memory()
        pid = os.fork()
        if pid == 0:
            try:
                _keep_only(source)
                if os.isatty(source):
                    _follow_size(source)
                _pass_on(source, memory)
            finally:
                os._exit(0)
        os.close(source)
        return cls(for_job, pid, memory)

    def started(self) -> None:
        """The job has its copy: with ours closed, the end of the last writer is the end of the text."""
        os.close(self.for_job)

    def tail(self) -> str:
        """What the job wrote, its end, when all of it has reached our stderr."""
        give_up_s = time.monotonic() + _PATIENCE_S
        counts, since_s = self._memory.counts, time.monotonic()
        while time.monotonic() < give_up_s and not self._has_ended():
            if self._memory.counts != counts:
                counts, since_s = self._memory.counts, time.monotonic()
            elif counts[0] == counts[1] and time.monotonic() - since_s > _QUIET_S:
                break
            time.sleep(_POLL_S)
        return self._memory.tail().decode("utf-8", "replace")

    def _has_ended(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True


class _Memory:
    """The last bytes, in memory that two processes share: a ring, and how much went through it."""

    def __init__(self) -> None:
        import mmap

        self._memory = mmap.mmap(-1, _COUNTS.size + TAIL_BYTES)

    @property
    def counts(self) -> tuple[int, int]:
        read, passed = _COUNTS.unpack_from(self._memory)
        return read, passed

    def add(self, data: bytes) -> None:
        read, passed = self.counts
        for at, part in _parts(read, data[-TAIL_BYTES:], len(data)):
            self._memory[_COUNTS.size + at : _COUNTS.size + at + len(part)] = part
        _COUNTS.pack_into(self._memory, 0, read + len(data), passed)

    def was_passed_on(self) -> None:
        read, _ = self.counts
        _COUNTS.pack_into(self._memory, 0, read, read)

    def tail(self) -> bytes:
        read, _ = self.counts
        ring = self._memory[_COUNTS.size :]
        at = read % TAIL_BYTES
        return ring[:read] if read <= TAIL_BYTES else ring[at:] + ring[:at]


def _parts(read: int, data: bytes, length: int) -> list[tuple[int, bytes]]:
    """Where in the ring the last bytes of a piece go: its length may be more than theirs."""
    at = (read + length - len(data)) % TAIL_BYTES
    before_end = data[: TAIL_BYTES - at]
    return [(at, before_end), (0, data[len(before_end) :])]


def _pass_on(source: int, memory: _Memory) -> None:
    """Until the last writer has gone, or the reader has: the job then finds out by its own next write."""
    while True:
        try:
            data = os.read(source, _CHUNK_BYTES)
        except OSError:  # EIO: a pseudo-terminal that nobody has open any more
            return
        if not data:
            return
        memory.add(data)
        if not _write(data):
            return
        memory.was_passed_on()


def _write(data: bytes) -> bool:
    while data:
        select.select([], [STDERR], [])  # another program may have made our stderr one that does not wait
        try:
            data = data[os.write(STDERR, data) :]
        except BlockingIOError:
            continue
        except OSError:
            return False
    return True


def _keep_only(source: int) -> None:
    """No file, pipe or lock of the recorder may stay open for as long as the job's last process lives."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, STDERR, source):
            with suppress(OSError):
                os.close(int(name))


def _pseudo_terminal() -> tuple[int, int]:
    """One that changes no byte and looks like ours. **Errors** OSError."""
    import termios

    ours, theirs = os.openpty()
    try:
        attributes = termios.tcgetattr(STDERR)
        attributes[1] &= ~termios.OPOST  # the real terminal does that once
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    except termios.error as error:
        raise OSError(*error.args) from None
    _copy_size(ours)
    return ours, theirs


def _copy_size(terminal: int) -> None:
    import fcntl
    import termios

    with suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(STDERR, termios.TIOCGWINSZ, bytes(8)))


def _follow_size(terminal: int) -> None:
    signal.signal(signal.SIGWINCH, lambda *_: _copy_size(terminal))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGWINCH})
    _copy_size(terminal)  # it may have changed meanwhile
