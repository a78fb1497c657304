"""The agent's thread: none that the job sees, and no Python code while somebody watches. Runs in the job."""

from __future__ import annotations

import _signal
import ctypes
import os
import sys
from _functools import partial
from _operator import methodcaller, not_
from _thread import _local, allocate_lock, get_ident, get_native_id, start_new_thread
from itertools import count, repeat
from time import monotonic, sleep

from . import doors, files, names, pending, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

END_S = 1.0  # how long to wait for its end: it may be making a snapshot, or writing its last rows
ENDS_S = 0.001  # from the end of its last function to that of its thread; on a busy machine several times as long
MOST_END_S = 10.0  # and where there is no processor for it
STARVES_S = 0.1  # over which that is told
AT_FORK, AT_EXIT = "fork", "exit"  # why it is to end
FIRST_TICK_S = 0.05
BEGINS_S = 0.1  # a new thread begins in 0.1 ms, on a busy machine in a few


class Thread:
    """Calls ``tick(asked_to_end)`` every ``tick_s`` until that returns True, and at its end what is in ``parting``.

    ``restarts()`` is called on the main thread where the thread was to come back and nobody watches.
    """

    def __init__(
        self,
        tick: Callable[[list[str]], bool],
        tick_s: float,
        parting: list[Callable[[], object]],
        restarts: Callable[[], None],
        will: waiting.LastWill | None = None,
    ) -> None:
        self._tick = tick
        self._tick_s = tick_s
        self._parting = parting
        self.ident: int | None = None
        self._native_id: list[int] = []  # its number to the kernel, once it has begun; the list stays the same
        self._waits, self._ticks = count(), 0
        self._due_at = 0.0  # its next tick
        # Of the thread that is there, each in a list of one, where C functions find it.
        self._waiting = waiting.Waiting()
        self._wakes: list[Callable[[], object]] = []  # all of these
        self._ended = [allocate_lock()]  # held while it is there
        self._asked_to_end: list[list[str]] = [[]]  # holds a list, with something in it if the thread shall end
        self._body: list[Callable[[], object]] = []
        self._will = waiting.LastWill() if will is None else will
        # Whether the kernel has it no more; nothing before it has begun.
        path = doors.again(map, "/proc/self/task/%d".__mod__, self._native_id)
        self._is_gone = doors.again(map, not_, doors.again(map, os.access, path, repeat(os.F_OK)))
        self.restart = pending.PendingCall(
            restarts,
            (
                doors.with_first(list.clear, self._asked_to_end),
                self._native_id.clear,
                doors.with_first(start_new_thread, self._body, [()]),
            ),
        )

    def begin(self, is_new: bool = True) -> None:
        """Not ``is_new``: it comes back, after a fork, and ticks when it would have. A job may fork all the time."""
        asked: list[str] = []
        if is_new:  # many processes are over by then; and what begins has the GIL for itself
            self._due_at = monotonic() + min(FIRST_TICK_S, self._tick_s)
        for leave in self._waiting.leaves:
            leave()
        self._waiting = here = waiting.new(self._will)
        ended = allocate_lock()
        self._native_id.clear()
        self._waits, self._ticks = count(), 0  # as often as it ticks it waits, unless somebody watches
        ended.acquire()
        self._asked_to_end[:], self._wakes[:], self._ended[:] = [asked], here.wakes, [ended]
        # A new thread inherits the mask of its maker. Signals are the job's: one that it keeps blocked to wait for
        # (sigwait) would be delivered to a thread that does not block it, and end the process.
        every = _signal.valid_signals()
        mask = _signal.pthread_sigmask(_signal.SIG_SETMASK, every)
        try:
            # Not a threading.Thread: the job's threading.enumerate() and active_count() stay what they were.
            begun = allocate_lock()
            begun.acquire()
            body = doors.thread_body(
                begins=(
                    partial(_signal.pthread_sigmask, _signal.SIG_SETMASK, every),
                    doors.put(get_native_id, self._native_id),
                    *here.begins,
                    partial(ended.acquire, False),
                    partial(begun.acquire, False),
                    begun.release,
                    here.wait(max(0.0, self._due_at - monotonic())),
                ),
                wait=(here.wait(self._tick_s), self._waits.__next__),
                tick=partial(self._tick, asked),
                is_asked_to_end=partial(any, asked),
                ends=(doors.call_each(self._parting), self._parting.clear, *here.ends, ended.release),
            )
            self._body[:] = [body]
            self.ident = start_new_thread(body, ())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        # A job may fork, or crash, at once: for the one its number must be known, and Python 3.14's faulthandler
        # takes the state of a thread that has not begun for a freed one, and writes nothing more.
        begun.acquire(timeout=BEGINS_S)

    def ticked(self) -> None:
        _leave_no_dummy()
        self._ticks += 1
        self._due_at = monotonic() + self._tick_s

    def waited_unseen(self) -> bool:
        """Whether it waited, and was not to begin before: somebody watched."""
        return _number_of(self._waits) > self._ticks

    def wake_up(self) -> None:
        try:
            for wake in self._wakes:
                wake()
        except RuntimeError:
            pass  # a lock that somebody else has released meanwhile: awake already

    def is_last(self) -> bool:
        """Whether all other threads have ended, the main one first, and the process will with this one."""
        return self._waiting.is_last()

    def is_shut(self, at_exit: bool = False) -> bool:
        """Whether the job has set a filter of system calls since: nothing of ours makes one any more, on any thread.

        ``at_exit``: may be asked once in a process, and on its main thread.
        """
        return self._waiting.is_shut(at_exit)

    def end_unseen(self, reason: str) -> tuple[Callable[[], object], ...]:
        """C functions that end the thread while somebody watches, and wait until it is gone."""
        return (
            doors.with_first(list.append, self._asked_to_end, [reason]),
            doors.call_each(self._wakes),
            doors.with_first(methodcaller("acquire", True, END_S), self._ended),
            doors.waiting(self._is_gone, partial(sleep, ENDS_S), int(END_S / ENDS_S)),
        )

    def is_asked_to_end(self) -> bool:
        """Whether somebody waits for its end, and it should begin with nothing more."""
        return bool(self._asked_to_end[0])

    def end(self) -> None:
        """Where a process forks, its child must not find a lock held for ever, nor Python 3.12 a second thread."""
        ident, self.ident = self.ident, None
        if ident is None:
            return
        self._asked_to_end[0].append(AT_FORK)
        self.wake_up()
        began = monotonic()
        while not any(self._is_gone):
            sleep(0.0001)
            lasts_s = monotonic() - began
            if lasts_s > MOST_END_S or (lasts_s > END_S and not self._starves()):
                break

    def _starves(self) -> bool:
        """Whether it, or who waits for it, waits for a processor most of the time: else it would be gone."""
        tasks = [*self._native_id, get_native_id()]
        began, waited_s = monotonic(), _waited_s(tasks)
        while not any(self._is_gone) and monotonic() - began < STARVES_S:
            sleep(0.001)
        return _waited_s(tasks) - waited_s > 0.5 * (monotonic() - began)


def _waited_s(tasks: list[int]) -> float:
    """How long threads of this process have waited for a processor so far; 0 where the kernel does not count it."""
    waited_ns = 0
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/schedstat", "rb", opener=files.open_high) as stream:
                waited_ns += int(stream.read().split()[1])
        except (OSError, ValueError, IndexError):
            pass
    return waited_ns / 1e9


def _leave_no_dummy() -> None:
    """Take this thread out of those that ``threading`` lists.

    A tool of ``sys.monitoring`` that is set while ours is at work is told of it, too. If it asks which thread that is,
    as bdb does, ``threading`` makes a dummy for ours, and keeps it as long as the thread.
    """
    threading = sys.modules.get("threading")
    active = names.getattr_plain(threading, "_active")
    if type(active) is not dict or active.pop(get_ident(), None) is None:
        return
    values = names.getattr_plain(threading, "_thread_local_info")  # since Python 3.13 it is kept here, too
    if type(values) is _local:
        try:
            del values._track_dummy_thread_ref
        except AttributeError:
            pass


def load_unwinder() -> None:
    """What glibc loads as a thread ends by pthread_exit, or it aborts the process.

    By then there may be no memory for it, or another root. In Python 3.8 every thread ends so, later those that run as
    the interpreter ends.
    """
    try:
        ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        pass  # another libc, which needs none


def _number_of(counter: count[int]) -> int:
    """What ``next`` would give, without it."""
    return int(str(counter)[len("count(") : -1])
