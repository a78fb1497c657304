"""Takes snapshots: asks first what one may cost, and waits for a safe point where it needs one. Runs in the job.

The agent's thread decides that a snapshot is due. Where the graph of all objects can be read it reads that (exact.py):
at once, unless torch is loaded, which is asked for more where the job's objects hold still: in torch's optimizer-step
hook on the training thread, or on the main thread between two bytecodes (a pending call). Only if neither comes within
some seconds (the main thread waits for others) the agent's thread does without. Where there is no library for the
graph, what Python code can tell by itself is told from the same places (plain.py).
"""

from __future__ import annotations

import _signal
import os
import sys
from _thread import allocate_lock, get_ident
from time import CLOCK_MONOTONIC, clock_gettime_ns, sleep, thread_time

from ..graph import heap_graph
from ..graph.heap_graph import HeapGraph
from ..interpreter import collector, doors, names, pending, quiet
from ..journal import stamps
from ..life import fatal_signals
from ..native import allocators, room, tracked_segments
from ..native.memory import rss_bytes
from ..torch import gradients
from ..torch.remembered import Remembered
from ..torch.tensors import known_layout
from . import pause, peak, sharing
from .devices import Devices
from .exact import ExactSnapshot
from .full_heap import FullHeap
from .plain import PlainSnapshot
from .torch_look import Look, is_loaded, no_other_threads, others_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..graph.heap_graph import Call
    from ..interpreter.thread import Thread
    from ..life.phases import Phases
    from ..outbox import Outbox
    from .schedule import Schedule
    from .steps import Steps

PATIENCE_S = 5.0  # how long a due snapshot waits for its safe point
STEPPING_S = 5.0  # a job whose last optimizer step is younger is taken at the next one
ASKS, ASK_AGAIN_S = 5, 0.002
GRAPH_WAITS = 1000  # times ASK_AGAIN_S
LEAST_RUN_S = 2.0  # a shorter one has no snapshot at its end
MOST_LINES = 200  # that were seen to run between two snapshots
MOST_FAILED = 5  # snapshots; then none any more
# Helpers of the standard library and of tools: they hold nothing of the user's and come in numbers.
_NO_SNAPSHOTS = (tracked_segments.COMMAND, "torch/_inductor/compile_worker", "torch._inductor.compile_worker")
_WITH_STEP = frozenset(("marks", "gradients", "compile_counters"))


class _Begun:
    """A snapshot of which all has been read that the job's objects have to hold still for."""

    def __init__(
        self,
        snapshot: ExactSnapshot,
        reason: str,
        safe_point: str,
        moment: dict[str, int | None],
        step: int | None,
        figures: tuple[int | None, int | None],
    ) -> None:
        self.snapshot = snapshot
        self.reason = reason
        self.safe_point = safe_point
        self.moment = moment
        self.step = step
        self.figures = figures
        self.copied_bytes: int | None = None


class SnapshotMaker:
    """Of one process: what is ``wanted`` and why, and what the snapshots leave to each other.

    ``thread``: the agent's. ``stress_s``: for tests of ours, whatever a snapshot costs and finds; else None.
    """

    def __init__(
        self,
        options: dict[str, Any],
        outbox: Outbox,
        thread: Thread,
        schedule: Schedule,
        steps: Steps,
        phases: Phases,
        before_snapshot: Callable[[], None],
        stress_s: float | None,
    ) -> None:
        self._options = options
        self._outbox = outbox
        self._thread = thread
        self._schedule = schedule
        self._steps = steps
        self._phases = phases
        self._before_take = before_snapshot
        self._stress_s = stress_s
        self.main_thread = get_ident()
        command = _command()
        is_helper = any(part in command for part in _NO_SNAPSHOTS)
        self.is_tracker = tracked_segments.COMMAND in command
        self.may_make = self.makes = bool(options["takes"]) and not is_helper
        self.fork: sharing.Fork | None = None  # in a forked child: whether it is worth a snapshot
        self.pauses = pause.Pauses(options["max_pause_s"])
        self.peak = peak.Peak(self._look_at_peak)
        self.pending = pending.PendingCall(self._on_main_thread)
        self.wanted: str | None = None  # the reason of a snapshot that is due and waits for its safe point
        self.wanted_at = 0.0
        self._turn = allocate_lock()  # held while a snapshot is made
        self.is_watched = False  # by a tracer, profiler or debugger
        self.is_exiting = False
        self.number = 0
        self._numbers: dict[Any, int] = {}  # of what plain snapshots met
        self._memory = Remembered()
        self._has_forked = False  # what it looks at is shared with others
        self._graph: HeapGraph | None = None  # made once a snapshot is due
        self._module_count = 0  # as the user's were last looked for
        self._blocks: Callable[[], tuple[Any, int]] | None = None
        self._noted_refusal: str | None = None
        self._full_heap = FullHeap(options, outbox)
        self.devices = Devices(
            outbox, steps, self._running_now, self._on_full_device, keeps_history=bool(options["gpu_history"])
        )
        self._begun: list[_Begun] = []  # at most one, which the agent's thread is to finish
        self._failed = 0
        self._has_said_refusal = False
        self._is_exact = False  # what is wanted can be had from the graph alone, on the agent's thread
        self._seen_lines: dict[str, None] = {}  # since the last snapshot
        self.is_asked = False  # by the program itself: leakscope.snapshot()
        self._answered: int | None = None  # the stamp of the last request from outside

    @property
    def is_making(self) -> bool:
        return self._turn.locked()

    # ---- forks

    def forks(self) -> None:
        """From now on its pages may be shared."""
        self._has_forked = True

    def abandon(self) -> None:
        """In a forked child, first: what goes on here goes on in the parent."""
        self.makes = self.is_tracker = False
        self._turn = allocate_lock()
        self._begun = []
        collector.let_go()
        self.pending.forget()
        if self._graph is not None:
            self._graph.forget()

    def forked(self) -> None:
        """In a forked child."""
        self.wanted = None
        self.number = self._failed = 0
        self._memory = Remembered(self._memory.tensor_layout)
        self._seen_lines = {}
        self._has_forked = False
        self._full_heap.forked()
        self._has_said_refusal = False
        self.main_thread = get_ident()
        can_read = heap_graph.load() is None if self._graph is None else self._has_graph()
        self.fork = sharing.Fork(copies=not can_read) if self.may_make else None
        self.makes = self.may_make and self._stress_s is not None

    # ---- on the agent's thread

    def watched(self, is_watched: bool) -> None:
        """Whether somebody watches now: what was wanted until nobody did is wanted no more."""
        if self.is_watched and not is_watched:
            self.wanted = None
        self.is_watched = is_watched

    def look_at_level(self, now: float) -> None:
        self._schedule.look_at_level(self._is_stepping(now))

    def consider(self, now: float) -> None:
        """Is a snapshot due, and has it waited too long for its safe point?"""
        if self.fork is None and self.makes and not self.is_watched and not self._is_stepping(now):
            self.devices.look_from_aside()  # after steps they are steadier
        if not self.makes:
            if self.fork is not None:
                self.makes = self.fork.is_worth_a_snapshot()
                if self.fork.refusal is not None:
                    self._outbox.note("take-skipped", self.fork.refusal)
                    self.fork.refusal = None
            return
        if self.is_exiting:
            return  # exit handlers of others take down what the program was at work on
        if self.is_making or self.is_watched or self._begun:
            return  # what it costs decides when the next is due
        if self._graph is None and self._steps.installed:
            self._prepare_graph()  # the first step takes a snapshot, without asking here
        self._note_running()
        if self.wanted is None:
            reason = self._asked() or self._schedule.reason(self._outbox.note)
            if reason is None:
                return
            self._make_graph()
            running, outbox = self._running_now(), self._outbox
            is_asked = reason in ("user", "pressure")
            if not is_asked and self._schedule.waits_for_imports(running.values(), outbox.note):
                return
            self._prepare_graph()  # before it is wanted: an optimizer step may come by at once
            self.pauses.look(running)
            self._full_heap.is_asked = self._schedule.asks_for_all(reason, outbox.pid, outbox.start_ticks)
            self.wanted, self.wanted_at = reason, now
        if self._is_exact:
            # To get this far may have taken a while: to load the library, the first time.
            if doors.is_unwatched() and not self._thread.is_asked_to_end():
                self._make_here()
            return
        if self._is_stepping(now):
            return  # the next optimizer step is near: it takes what is wanted
        # A main thread that has not come by since the snapshot before is not waited for once more.
        waits_since = min(self.wanted_at, self.pending.asked_at or self.wanted_at)
        if now - waits_since > PATIENCE_S:
            self._make_here()
            return
        for _ in range(ASKS):  # another call of ours may run just now
            if self.pending.ask():
                return
            sleep(ASK_AGAIN_S)

    def _asked(self) -> str | None:
        """Whether a person wants one now. It is made whatever others cost, and its own cost puts off the next."""
        stamp = self._schedule.request_to(self._outbox.pid, self._outbox.start_ticks)
        is_new, self._answered = stamp is not None and stamp != self._answered, stamp or self._answered
        is_asked, self.is_asked = self.is_asked, False
        return "user" if is_new or is_asked else None

    def load_reader(self) -> None:
        """As the process starts; what hinders it is said once a snapshot is due, and tried again."""
        heap_graph.load()

    def know_blocks(self, blocks: Callable[[], tuple[Any, int]]) -> None:
        """From now on there are sampled allocations (``Sampler.blocks``)."""
        self._blocks = blocks
        if self._graph is not None:
            self._graph.native = blocks

    def _make_graph(self) -> None:
        """Tries the library while nothing of the job's waits for us; from another thread a graph can then be read."""
        if self._graph is None or self._graph.may_come_later:
            with collector.HeldBack():  # classes are made for it, and the job's garbage is not ours to free
                self._graph, self._module_count = HeapGraph(), 0
            refusal = self._graph.refusal
            if refusal is not None and refusal != self._noted_refusal:
                self._noted_refusal = refusal
                self._outbox.note("no-heap-graph", refusal)

    def _prepare_graph(self) -> None:
        """For a snapshot that comes next."""
        self._make_graph()
        assert self._graph is not None
        if len(sys.modules) != self._module_count:  # 12 ms for 2,000
            self._module_count = len(sys.modules)
            self._graph.user_namespaces = sorted(id(namespace) for _, namespace, _ in names.user_namespaces())
        self._graph.recorder = doors.thread_state()
        self._graph.native = self._blocks
        if self._has_graph() and not self._graph.kept_bytes:
            self._graph.keep_room(room.left_bytes())
        self._is_exact = self._can_be_exact()

    def _running_now(self) -> dict[int, list[Call]]:
        """What other threads run, where the library is there already."""
        return self._graph.running() if self._graph is not None and self._has_graph() else {}

    def _note_running(self) -> None:
        """Which of the user's lines run now. **Cost** 30 us a tick of the agent's thread, and 0.5 us a frame."""
        innermost = []
        for calls in self._running_now().values():
            seen = [f"{file}:{line} {name}" for file, line, _, name in calls if names.is_user_file(file)]
            self._seen_lines.update(dict.fromkeys(seen[: MOST_LINES - len(self._seen_lines)]))
            innermost += seen[:1]
        self._schedule.saw(innermost)

    def _can_be_exact(self) -> bool:
        """Of torch more is read than the graph has: on its own thread, between two steps."""
        return self._has_graph() and not is_loaded()

    def _has_graph(self) -> bool:
        return self._graph is not None and self._graph.refusal is None

    def work_out(self) -> None:
        """Finish the snapshot that was begun at a safe point."""
        if not self._begun:
            return
        try:
            begun = self._begun.pop()
        except IndexError:
            return
        self._finish(begun)

    def _is_stepping(self, now: float) -> bool:
        return self._steps.count is not None and now - self._steps.last_at < STEPPING_S

    def _make_here(self) -> None:
        """At a blocked fault the kernel ends the process before its words are written."""
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, fatal_signals.FAULTS)
        try:
            self.make("agent-thread")
        finally:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, fatal_signals.FAULTS)

    # ---- safe points

    def _on_main_thread(self) -> None:
        if self.makes and self.fork is None and not self.is_making:
            self.devices.look()
        if not self.is_exiting and self.wanted is not None and not self.is_making:
            self.make("pending-call")

    def stepped(self) -> None:
        """After each optimizer step, on the thread that made it."""
        self._schedule.stepped()
        if self.makes and self.fork is None:
            if self._steps.count == 1 and self.wanted is None and self._schedule.allows():
                for row in gradients.import_order_notes():
                    self._outbox.note(row["note"], row["text"])
                self.wanted = "schedule"  # weights as training begins: a checkpoint still held is seen equal to them
            self.peak.stepped(self._steps.count)
            self.devices.look()
        if self.wanted is not None and not self.is_making:
            self.make("optimizer-step")

    def _on_full_device(self) -> None:
        """Torch is about to raise: the frames that asked still stand, so this is the moment for a snapshot."""
        on_main_thread = get_ident() == self.main_thread
        if on_main_thread and self.makes and not self.is_making and self._schedule.allows():
            self.wanted = "pressure"
            self.make("cuda-oom")

    def _look_at_peak(self) -> None:
        """The tensors as a backward pass begins: what a step needs at most."""
        if self.wanted is None and not self.is_making and self._schedule.allows():
            began_s = thread_time()
            self.pauses.begin(self._longest_pause_s())
            if self._graph is None:
                self._prepare_graph()
            if not self.pauses.allows_sweep(2) or not self._others_wait():
                return
            for row in peak.rows(self._phases.batch_storages):
                self._outbox.add("tensors", dict(row, take=self.number))
            self._schedule.budget.charge(thread_time() - began_s)

    def make_last(self) -> None:
        """As the process ends; after an unhandled exception its frames still stand."""
        self.is_exiting = True
        self.work_out()
        for _ in range(GRAPH_WAITS):  # the agent's thread may be at work on one
            if not self.is_making and not (self._graph is not None and self._graph.is_busy):
                break
            sleep(ASK_AGAIN_S)
        is_long_enough = self._schedule.elapsed_s() > LEAST_RUN_S or self._stress_s is not None
        if not self.makes or not is_long_enough or self.is_making:
            return
        has_failed = hasattr(sys, "last_traceback")
        if not has_failed and self._schedule.has_seen_the_end():
            return
        if self._schedule.allows_last():
            self.wanted = "exception" if has_failed else "exit"
            self._is_exact = self._can_be_exact()
            self.make("exit")
        else:
            self._outbox.note("throttled", f"none at the end: {self._schedule.budget.why()}")

    # ---- the snapshot

    def make(self, safe_point: str) -> None:
        """Make what is wanted, here and now, unless another thread is at it."""
        turn = self._turn  # a fork has another
        if not turn.acquire(False):
            return
        try:
            self._make_wanted(safe_point)
        finally:
            turn.release()
            self._thread.wake_up()

    def _make_wanted(self, safe_point: str) -> None:
        reason, self.wanted = self.wanted, None
        if reason is None or self._outbox.is_given_up() or self._outbox.pid != os.getpid():
            return
        if collector.goes_on():
            self.wanted = reason
            return
        hidden = quiet.hide()
        try:
            if self._graph is None:
                self._prepare_graph()  # out of memory on a GPU before the first snapshot was due
            if self._has_graph():
                self._make_exact(reason, safe_point)
            else:
                self._make_plain(reason, safe_point)
        except BaseException as error:
            self._schedule.failed()
            if names.is_foreign(error):
                self._outbox.note("take-interrupted", f"a signal handler of the job raised {type(error).__name__}")
                raise
            self._outbox.note("failed", f"snapshot: {type(error).__name__}: {error!s}")
            self._failed += 1
            self.makes = self.makes and self._failed < MOST_FAILED
        finally:
            quiet.show(hidden)

    def _make_exact(self, reason: str, safe_point: str) -> None:
        """To read the graph writes to no page: it costs forks nothing. To ask torch does."""
        assert self._graph is not None
        look, shared_bytes = self._look(safe_point)
        layout = known_layout(self._memory) if not self._graph.weighs_tensors else None
        if layout is not None:
            self._graph.weigh_tensors(*layout)
        snapshot = ExactSnapshot(self.number + 1, self._graph, self.pauses, look, self._left_bytes)
        moment, figures = stamps(), (rss_bytes(), allocators.malloc_figures()[0])  # without what reading takes
        begun = _Begun(snapshot, reason, safe_point, moment, self._steps.current(), figures)
        if safe_point == "agent-thread":  # elsewhere the job would wait for that, too
            snapshot.make_room(self._longest_pause_s())
        self.pauses.begin(self._longest_pause_s())
        is_read = snapshot.read(
            holds_still=look is not None and self._others_wait(),
            is_after_step=safe_point == "optimizer-step",
        )
        if not is_read:
            self._is_for_later(reason)
            return
        self.number += 1
        self._outbox.with_sources = True
        self._before_take()
        if snapshot.is_sampled:
            self._say_what_was_left_out("long containers were sampled, so their sizes are estimates")
        elif snapshot.left_out:
            self._say_reduced(f"{snapshot.left_out:,} tensors were not looked at: others represent them")
        if shared_bytes and look is not None:
            begun.copied_bytes = max(0, shared_bytes - (self._shared_bytes() or 0))
        if get_ident() == self._thread.ident or self.is_exiting:
            self._finish(begun)
        else:
            self._begun.append(begun)

    def _left_bytes(self) -> int:
        left_bytes = room.left_bytes()
        return left_bytes if self.fork is None else min(left_bytes, self.fork.left_bytes())

    def _look(self, safe_point: str) -> tuple[Look | None, int]:
        """(a look at torch's objects, if it may be had here, bytes that a write would copy)."""
        if not is_loaded() or safe_point == "agent-thread":
            return None, 0
        if self.fork is not None:  # its torch is its parent's: a few tensors are asked where they have their memory
            is_known = known_layout(self._memory) is not None
            return None if is_known else self._new_look(learns_only=True), 0
        shared_bytes = self._shared_bytes() or 0
        most = float("inf") if self._stress_s is not None else sharing.tensors_allowed(shared_bytes)
        return self._new_look(most_tensors=most), shared_bytes

    def _new_look(self, *, most_tensors: float = float("inf"), learns_only: bool = False) -> Look:
        """``most_tensors``: so many may be asked, whatever the pause allows."""
        return Look(
            self._memory, self._phases.batch_storages, self.pauses, self._options["take_pause_s"],
            most_tensors=most_tensors, learns_only=learns_only,
        )  # fmt: skip

    def _others_wait(self) -> bool:
        running = self._running_now()
        return others_wait(running) if running else no_other_threads(self.main_thread, self._thread.ident)

    def _is_for_later(self, reason: str) -> None:
        """A graph was not read: a collection goes on, or somebody watches, and that may be tried again; or there is too
        little memory, or time, even for a part of it.
        """
        assert self._graph is not None
        if not self._graph.counted:
            self.wanted = None if self.is_exiting else reason
            return
        self._schedule.failed()
        self._say_what_was_left_out("who holds what was not read")

    def _finish(self, begun: _Begun) -> None:
        """What was read says. Most of it without the GIL."""
        snapshot, moment = begun.snapshot, begun.moment
        file = self._full_heap.file_of(snapshot.number, begun.reason)
        rows = snapshot.run(file)
        self._full_heap.made(file)
        if not rows:
            self._schedule.failed()
            self._outbox.note("reduced-take", "there was too little memory to work out who holds what")
            return
        held_s = (clock_gettime_ns(CLOCK_MONOTONIC) - (moment["time_mono_ns"] or 0)) / 1e9
        weighed = snapshot.summary
        for table, row in rows:
            if table == "heap_graphs":
                row["held_s"] = held_s
                # Nobody asks a fork's torch; of many tensors it was asked of some, and of many objects of none.
                is_asked = self.fork is None and not snapshot.left_out and not snapshot.is_sampled
                if row["weighs_tensors"] and not is_asked:
                    weighed = dict(weighed, tensor_bytes=row["storage_bytes"])
        self._schedule.taken(weighed["take_cpu_s"], begun.figures[0])
        summary = dict(weighed, take=snapshot.number, copied_bytes=begun.copied_bytes)
        # Memory fell since main() has returned: the program is at its end, and works no more.
        reason = "exit" if begun.reason == "fall" and not snapshot.saw_code_run else begun.reason
        self._write(rows, summary, moment, begun.step, reason, begun.safe_point, begun.figures)

    def _make_plain(self, reason: str, safe_point: str) -> None:
        shared_bytes = self._shared_bytes()
        if not self._sharing_allows(shared_bytes):
            self._schedule.put_off()
            return
        self.number += 1
        self._outbox.with_sources = True
        self._before_take()
        look, _ = self._look(safe_point)
        is_alone = no_other_threads(self.main_thread, self._thread.ident) and safe_point != "agent-thread"
        snapshot = PlainSnapshot(self.number, self.pauses, look, self._options["take_pause_s"], is_alone, self._numbers)
        moment, figures = stamps(), (rss_bytes(), allocators.malloc_figures()[0])
        with collector.HeldBack():
            self.pauses.begin(self._longest_pause_s())
            rows = snapshot.run(
                holds_still=look is not None and self._others_wait(),
                is_after_step=safe_point == "optimizer-step",
            )
        if not snapshot.is_swept:
            self._say_what_was_left_out("only what names lead to was looked at")
        self._schedule.taken(snapshot.summary["take_cpu_s"], figures[0])
        copied_bytes = max(0, shared_bytes - (self._shared_bytes() or 0)) if shared_bytes else None
        summary = dict(snapshot.summary, take=self.number, copied_bytes=copied_bytes)
        self._write(rows, summary, moment, self._steps.current(), reason, safe_point, figures)

    def _write(
        self,
        rows: list[tuple[str, dict[str, Any]]],
        summary: dict[str, Any],
        moment: dict[str, int | None],
        step: int | None,
        reason: str | None,
        safe_point: str,
        figures: tuple[int | None, int | None],
    ) -> None:
        """``figures``: resident memory, and what malloc handed out."""
        outbox = self._outbox
        summary = dict(
            summary, reason=reason, safe_point=safe_point, step=step,
            rss_bytes=figures[0], malloc_in_use_bytes=figures[1],
        )  # fmt: skip
        seen, self._seen_lines = self._seen_lines, {}
        summary["seen_lines"] = "\n".join(seen) or None
        for table, row in rows:
            row.update(moment)
            if table in _WITH_STEP:
                row["step"] = step
            outbox.add_stamped(table, row)
        summary.update(moment)
        outbox.add_stamped("takes", summary)

    def _longest_pause_s(self) -> float:
        """What a snapshot may hold up the job now. At its end nobody waits for an answer, but for the end: to work out
        what was read takes twice as long again, and all of it is in the budget.
        """
        if self._stress_s is not None:
            return float("inf")
        limit_s = self.pauses.limit(is_training=self._steps.count is not None)
        if not self.is_exiting or self._options["max_pause_s"] is not None:
            return limit_s
        return max(limit_s, min(pause.TRAINING_S, self._schedule.left_at_end_s() / 3))

    def _say_what_was_left_out(self, what_was_left: str) -> None:
        little = "a fork may use little memory for a snapshot" if self.fork is not None else "little memory is left"
        self._say_reduced(self.pauses.refusal(what_was_left) or f"{little}: {what_was_left}")

    def _say_reduced(self, text: str) -> None:
        """Once."""
        if not self._has_said_refusal:
            self._has_said_refusal = True
            self._outbox.note("reduced-take", text)

    def _shared_bytes(self) -> int | None:
        """Bytes that a write would copy; 0: this process is no fork and never forked; None: unclear."""
        if self.fork is None and not self._has_forked:
            return 0
        return sharing.shared_dirty_bytes()

    def _sharing_allows(self, shared_bytes: int | None) -> bool:
        """Looking at all objects writes to their pages, which other processes then hold a copy of: bound that cost."""
        if self._stress_s is not None:
            return True
        if self.fork.allows_copies(shared_bytes) if self.fork is not None else sharing.parent_allows(shared_bytes):
            return True
        text = f"{(shared_bytes or 0) >> 20} MiB are shared with forked children and a snapshot would copy them"
        self._outbox.note("take-skipped", text if self.fork is None else sharing.would_copy(shared_bytes))
        return False


def _command() -> str:
    """The words that this process was started with."""
    try:
        with open("/proc/self/cmdline", "rb") as stream:
            return stream.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""
