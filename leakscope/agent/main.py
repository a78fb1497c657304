"""One process's agent: what it is made of, and what it does from its first moment to its last. Runs in the job."""

from __future__ import annotations

import atexit
import os
import sys
from time import monotonic

from . import config
from .allocations.sampler import Sampler
from .interpreter import around, doors, names, waiting
from .interpreter.thread import AT_EXIT, AT_FORK, Thread, load_unwinder
from .interpreter.turns import give_way
from .journal import stamps
from .life import experiments, fatal_signals, hooks, last_words, lost_references, phases, sentinels
from .native import allocators, memory, tracked_segments
from .outbox import WATCHED, Outbox
from .probes import compile_counters
from .snapshots import maker, steps
from .snapshots.schedule import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

TICK_S = 0.5
FIRST_FLUSH_S = 1.0
SAMPLING_AFTER_S = 1.0
SENTINELS_SHARE = 0.5  # of what a pause may be: for a single reading
# When a process with threads forks. It asks the kernel how many there are: ours must be gone.
WARNS_OF_THREADS = sys.version_info >= (3, 12)
COUNTS = "counts"  # a note: what a step is, where it is none of training
EXPERIMENTS_S = 50.0  # the share of it may be spent on them at the end: 0.5 s at 1 %

_agent: Agent | None = None


def start(folder: str) -> None:
    """Begin in this process; ``folder`` is the agent's. **Errors** any: the caller goes on without an agent."""
    global _agent
    if _agent is not None:
        return
    if getattr(sys.flags, "isolated", 0) or not hasattr(os, "register_at_fork"):
        return
    options = config.read(folder)
    _agent = Agent(options["journal"] or folder, options)
    _agent.start()


def mark(step: object = None, phase: object = None, label: object = None) -> None:
    """A step, phase or label of the user's own; called by ``leakscope.mark``."""
    if _agent is not None:
        _agent.mark(step, phase, label)


def counter() -> Callable[[str], object] | None:
    """To be called for each request or task of a service, on any of its threads; None where there is no agent."""
    return None if _agent is None else _agent.steps.count_one


def snapshot() -> None:
    """One as soon as it can be; called by ``leakscope.snapshot``."""
    if _agent is not None:
        _agent.snapshots.is_asked = True


def is_over() -> bool:
    """Whether there is no agent, or nobody reads any more what it writes."""
    return _agent is None or _agent.outbox.is_given_up()


class Agent:
    """Its thread reads sentinels, decides when snapshots are due, and alone writes the journal."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        self._folder = folder
        self._options = options
        stress_s = config.stress_interval_s()
        self._will = waiting.LastWill()
        self.outbox = Outbox(folder, options, self._will)
        tick_s = TICK_S if stress_s is None else min(TICK_S, stress_s)
        self._thread = Thread(self._tick, tick_s, self.outbox.parting, self._restart, self._will)
        self.steps = steps.Steps(self._stepped)
        self._phases = phases.Phases(self._phase_began, self.steps.look_at_next)
        self._schedule = Schedule(folder, options, stress_s)
        self.snapshots = maker.SnapshotMaker(
            options, self.outbox, self._thread, self._schedule, self.steps, self._phases,
            self._exit_soon, stress_s,
        )  # fmt: skip
        self._gpu_history = self.snapshots.devices.history
        self._sampler: Sampler | None = None
        if options["sampling"] and self.snapshots.may_make:
            self._sampler = Sampler(stress_s is not None, options["requests_file"] or "")
        self._sampling_from = monotonic() + (SAMPLING_AFTER_S if stress_s is None else 0.0)
        sentinels.pause_at_most(SENTINELS_SHARE * self.snapshots.pauses.limit())
        self._lost = lost_references.LostReferences(bool(options["probe"]))
        self._fatal_signals: fatal_signals.FatalSignals | None = None
        self._hooks = hooks.Hooks(self._callbacks())
        self._next_sentinel = self._next_flush = monotonic()
        self._counted_pid: int | None = None  # of the process that has noted what it counts
        self._exiting_pid: int | None = None  # of the process that has noted its exit: a forked child has its own

    def start(self) -> None:
        outbox = self.outbox
        outbox.note_loaded()
        if not self._options["takes"]:
            outbox.note("take-skipped", config.SWITCHED_OFF)
        elif not self.snapshots.makes:
            outbox.note("helper", "holds nothing of the user's: sentinels only")
        try:
            self._fatal_signals = fatal_signals.FatalSignals(self._folder, outbox.pid, outbox.start_ticks)
            self._will.faults_are_handled_by(self._fatal_signals.handler)
        except (OSError, AttributeError):
            pass  # too few descriptors, another libc: fatal signals leave no text
        around.load()
        self._hooks.start()
        os.register_at_fork(
            before=doors.door(self._before_fork, self._thread.end_unseen(AT_FORK) if WARNS_OF_THREADS else ()),
            after_in_child=doors.door(self._after_fork_in_child),
        )
        if WARNS_OF_THREADS:
            doors.call_last_after_forks(self._thread.restart.ask_unseen)
        ends = [] if self._sampler is None else self._sampler.ends
        atexit.register(doors.door(self._at_exit, (doors.call_each(ends), *self._thread.end_unseen(AT_EXIT))))
        outbox.prepare_to_part()
        load_unwinder()
        waiting.load()
        self.snapshots.load_reader()
        if self._sampler is not None:
            self._sampler.load(outbox.start_ticks)
        self._begin_thread()

    def _callbacks(self) -> dict[str, Any]:
        callbacks = dict(self._phases.hooks(), **self.steps.hooks())
        if self._gpu_history is not None:
            callbacks.update(self._gpu_history.hooks())
        callbacks["threading"] = last_words.of_threads(self._add_last_words)
        if self._options["framework_logs"]:
            callbacks["transformers.trainer"] = self._add_callbacks
        return callbacks

    def _add_callbacks(self, _hooks: hooks.Hooks, module: ModuleType) -> None:
        """For --framework-logs only. Lightning finds its callbacks by an entry point; transformers has none."""
        import importlib

        try:  # what is installed beside the job, not this copy of the agent: they share nothing
            discovery = importlib.import_module("leakscope.integrations._discovery")
        except ImportError:
            self.outbox.note(
                "framework-logs", "leakscope is not installed where the training runs: its logs stay as they are"
            )
            return
        discovery.transformers_imported(module)

    # ---- the thread

    def _begin_thread(self) -> None:
        memory.rss_bytes()  # opens its file while no other thread can open one
        self._next_sentinel = monotonic()
        self._next_flush = self._next_sentinel + FIRST_FLUSH_S
        self._thread.begin()

    def _tick(self, asked_to_end: list[str]) -> bool:
        """On the agent's thread, every now and then. True if that has to end."""
        if self._thread.is_shut():
            return False  # it ends by itself
        is_last = self._thread.is_last()
        if asked_to_end or is_last or self.outbox.is_given_up():
            if AT_EXIT in asked_to_end:
                self._look_for_watchers()
                self._last_rows()
            elif is_last:
                self._note_exit("its main thread ended before the others, and they have ended, too")
                self._last_rows()
            del self.outbox.parting[:]  # nobody watches this thread: what there is to say is said
            return True
        try:
            self._look_around(monotonic())
        except Exception as error:
            self.outbox.failed(error)
        return False

    def _look_around(self, now: float) -> None:
        self._look_for_watchers()
        self._thread.ticked()
        self._hooks.tick()
        moment = stamps()  # rows that belong together
        for row in self._lost.tick(now):
            self.outbox.add_stamped("lost_references", dict(row, **moment))
        pymalloc_bytes = None
        if now >= self._next_sentinel:
            self._next_sentinel = now + self._options["sentinel_interval_s"]
            pymalloc_bytes = self._add_sentinels()["pymalloc_in_use_bytes"]
        self._phases.tick()
        if self._fatal_signals is not None:
            self._fatal_signals.tick()
        give_way()
        self.snapshots.look_at_level(now)
        self._sample(pymalloc_bytes)
        give_way()
        self.snapshots.consider(now)
        self.steps.look()
        if not self.snapshots.is_exiting:
            self.snapshots.work_out()
        if now >= self._next_flush or self.outbox.has_snapshot():
            self._next_flush = now + self._options["flush_s"]
            self._add_counters()
            self.outbox.write()

    def _sample(self, pymalloc_bytes: int | None) -> None:
        """Not in the first second: most processes are over by then, and what modules allocate is no leak."""
        sampler = self._sampler
        if sampler is None:
            return
        if not sampler.is_on:
            if monotonic() < self._sampling_from:
                return
            sampler.begin()
            self.snapshots.know_blocks(sampler.blocks)
        sampler.tick(pymalloc_bytes)
        self._add_lives()
        if sampler.refusal is not None:
            self.outbox.note("no-allocation-samples", sampler.refusal)
            self._sampler = None

    def _add_lives(self) -> None:
        if self._sampler is not None:
            moment = stamps()
            for row in self._sampler.lives():
                self.outbox.add_stamped("allocation_lives", dict(row, **moment))

    def _look_for_watchers(self) -> None:
        """While somebody traces, profiles or debugs no snapshot is made: it would be seen, and what it reads used."""
        if self._lost.watches():
            return
        outbox, is_watched = self.outbox, not doors.is_unwatched()
        if (is_watched or self._thread.waited_unseen()) and not outbox.watched_is_noted:
            outbox.watched_is_noted = True
            outbox.note(*WATCHED)
            outbox.write()  # before they watch this thread, too
        self.snapshots.watched(is_watched)

    # ---- rows

    def mark(self, step: object, phase: object, label: object) -> None:
        try:
            self._mark(step, phase, label)
        except Exception as error:  # a training must not end because of a note about it
            if names.is_foreign(error):
                raise

    def _mark(self, step: object, phase: object, label: object) -> None:
        if type(step) is int:
            self.steps.said = step
        if phase is not None:
            self._phases.enter(str(phase), said=True)
        if step is not None or label is not None:
            self._add_mark(self._phases.current, None if label is None else str(label))

    def _note_unit(self) -> None:
        """Once. No row for each: there may be thousands a second. The sentinels read the count."""
        unit = self.steps.unit()
        if unit is not None and self._counted_pid != self.outbox.pid:
            self._counted_pid = self.outbox.pid
            self.outbox.note(COUNTS, unit)

    def _phase_began(self, phase: str) -> None:
        self._add_mark(phase, None)

    def _add_mark(self, phase: str, text: str | None) -> None:
        self.outbox.add("marks", {"step": self.steps.current(), "phase": phase, "text": text})

    def _stepped(self) -> bool:
        """Whether the next step is wanted, too."""
        self._phases.stepped()
        self.snapshots.stepped()
        return self.snapshots.wanted is not None

    def _add_counters(self) -> None:
        """What is only counted, and so can be read from any thread: snapshots are too rare for a trend."""
        self._note_unit()
        for table, rows in (
            ("phases", self._phases.rows()),
            ("compile_counters", compile_counters.rows(None)),
            (
                "tracked_segments",
                tracked_segments.rows(self.snapshots.main_thread) if self.snapshots.is_tracker else (),
            ),
        ):
            for row in rows:
                self.outbox.add(table, dict(row, step=self.steps.current()))
        if self._sampler is not None:
            for text in self._sampler.left_out():
                self.outbox.note("fewer-allocation-samples", text)
            moment, step = stamps(), self.steps.current()  # rows that belong together
            for row in self._sampler.rows():
                self.outbox.add_stamped("allocation_stacks", dict(row, step=step, **moment))
            self._add_lives()

    def _add_last_words(self, columns: dict[str, Any] | None) -> None:
        if columns is not None:
            self.outbox.add("crash_text", dict(columns, step=self.steps.current()))

    def _last_rows(self) -> None:
        self._add_counters()
        self._add_sentinels()
        self.outbox.write()

    def _add_sentinels(self) -> dict[str, Any]:
        row = dict(sentinels.row(), step=self.steps.current())
        row["burst_bytes"] = self._sampler.burst_bytes() if self._sampler is not None else None
        if row["malloc_library"] is not None and row["malloc_in_use_bytes"] is None and self._sampler is not None:
            row["malloc_in_use_bytes"] = self._sampler.in_use_bytes()
        self.outbox.add("sentinels", row)
        moment = stamps()  # rows that belong together
        for arena in sentinels.rows_of_arenas() if not self.outbox.is_given_up() else ():
            self.outbox.add_stamped("malloc_arenas", dict(arena, **moment))
        return row

    # ---- fork and exit

    def _before_fork(self) -> bool:
        if self._thread.is_shut():
            return True
        self.snapshots.forks()
        if WARNS_OF_THREADS:
            self._thread.end()
        return True

    def _restart(self) -> None:
        """As soon as the fork is over: whether Python warns is decided after its hooks."""
        if self._thread.ident is None and not self.snapshots.is_exiting and not self._thread.is_shut():
            try:
                self._thread.begin(is_new=False)
            except Exception:
                pass  # no threads any more: the interpreter is on its way out

    def _after_fork_in_child(self) -> bool:
        if self._thread.is_shut():
            return True
        outbox, snapshots = self.outbox, self.snapshots
        try:
            outbox.abandon()
            snapshots.abandon()
            self._thread.restart.forget()
            self._lost.forked()
            doors.this_is_the_main_thread()
            self._schedule.begin()
            outbox.forked()
            if self._sampler is not None:
                self._sampler.forked(outbox.start_ticks)
            if self._fatal_signals is not None:
                self._fatal_signals.forked(outbox.pid, outbox.start_ticks)
            outbox.prepare_to_part()
            self.steps.forked()
            snapshots.forked()
            text = f"forked by {names.forker(sys._getframe())}: it takes no snapshot"
            if snapshots.fork is not None:
                text += " until it has gained memory of its own"
            outbox.note("forked", text)
            self._begin_thread()
        except Exception:
            pass
        return True

    def _exit_soon(self) -> None:
        """Exit handlers run in turn, the last registered first: ours from the start is after those of torch.

        So another at the snapshots 1, 2, 4, 8, ..., for a job that imports on: what takes seconds to end is no work.
        """
        number = self.snapshots.number
        if not self.snapshots.is_exiting and number & (number - 1) == 0:
            atexit.register(doors.door(self._note_exit))

    def _note_exit(self, text: str = "the interpreter shuts down") -> bool:
        if self._exiting_pid != self.outbox.pid:
            self._exiting_pid = self.outbox.pid
            self.snapshots.is_exiting = True
            self.outbox.note("exit", text)
        return True

    def _at_exit(self) -> bool:
        is_shut = self._thread.is_shut(at_exit=True)
        if is_shut or self.outbox.pid != os.getpid():  # or a fork that somebody watched from its beginning
            self._end_sampling()
            return True
        self._look_for_watchers()
        try:
            self._add_last_words(last_words.of_main_thread())
            self._note_exit()
            if self._fatal_signals is not None:
                self._fatal_signals.leave_to_others()
            if self._gpu_history is not None:
                self._gpu_history.end()
            self.snapshots.make_last()
            self._last_rows()
            self._end_sampling()
            if self.snapshots.makes or self._options["probe"]:
                limit_s = min(experiments.BUDGET_S, EXPERIMENTS_S * self._options["max_overhead_fraction"])
                for row in experiments.run(self._options["probe"], allocators.malloc_figures()[1], limit_s):
                    self.outbox.add("experiments", row)
                    self.outbox.write()  # each by itself: the finalizers that a collection runs might not come back
        except Exception:
            self._end_sampling()
        # Python's end would stop it by pthread_exit, which aborts the process if there is no memory for libgcc.
        self._thread.end()
        return True

    def _end_sampling(self) -> None:
        if self._sampler is not None:
            self._sampler.end()
