"""One process's agent: its thread, its safe points, its journal file. Runs in the job."""

import _signal
import atexit
import ctypes
import os
import sys
import time
from _functools import partial
from _operator import methodcaller
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from itertools import count
from time import clock_gettime_ns, monotonic, sleep, thread_time, time_ns

from . import (
    collector,
    config,
    cuda,
    doors,
    experiments,
    fatal_signals,
    gradients,
    hooks,
    journal,
    last_words,
    level,
    masking,
    names,
    native,
    native_window,
    pause,
    peak,
    phases,
    quiet,
    safepoint,
    sentinels,
    sharing,
    tracked_segments,
)
from .memory import rss_bytes
from .probes import compile_counters
from .take import Take

TICK_S = 0.5
END_S = 1.0  # how long to wait for its last rows, or for the end of an inventory that it makes
# When a process with threads forks. It asks the kernel how many there are: ours must be gone.
WARNS_OF_THREADS = sys.version_info >= (3, 12)
_AT_FORK, _AT_EXIT = "fork", "exit"
LOADED = "loaded"
WATCHED = "take-skipped", "a tracer, profiler or debugger is set: no inventories while it is"
FIRST_TICK_S = 0.05
ASKS, ASK_AGAIN_S = 5, 0.002
BEGINS_S = 0.1  # a new thread begins in 0.1 ms, on a busy machine in a few
IMPORTS_S = 20.0  # a job that still imports then is looked into all the same
EXPERIMENTS_S = 50.0  # the share of it may be spent on them at the end: 0.5 s at 1 %
MAX_FAILURES = 5  # after which the agent leaves the job alone for good
# Helpers of the standard library and of tools: they hold nothing of the user's and come in numbers.
_NO_TAKES = ("multiprocessing.resource_tracker", "torch/_inductor/compile_worker", "torch._inductor.compile_worker")

_WITH_STEP = frozenset(("marks", "gradients", "compile_counters"))

_agent = None


def start(folder):
    """Begin in this process; ``folder`` is the agent's. **Errors** any: the caller goes on without an agent."""
    global _agent
    if sys.version_info < (3, 8) or _agent is not None:
        return
    if getattr(sys.flags, "isolated", 0) or not hasattr(os, "register_at_fork"):
        return
    is_gil_enabled = getattr(sys, "_is_gil_enabled", None)
    if is_gil_enabled is not None and not is_gil_enabled():
        return  # free-threaded: objects do not hold still for anybody
    options = config.read(folder)
    _agent = Agent(options["journal"] or folder, options)
    _agent.start()


def mark(step=None, phase=None, label=None):
    """A step, phase or label of the user's own; called by ``leakscope.mark``."""
    if _agent is not None:
        _agent.mark(step, phase, label)


class Agent(object):
    """One process's agent. Its thread reads sentinels, decides when takes are due, and alone writes the journal."""

    def __init__(self, folder, options):
        self.folder = folder
        self.options = options
        self.masker = masking.Masker(options["salt"], options["sources"])
        self.main_thread = get_ident()
        self.thread = None
        self.native_thread = []  # its number to the kernel, once it has begun
        self.may_take = self.takes = bool(options["takes"]) and not _is_helper()
        self.fork = None  # in a forked child: whether it is worth a take
        self.began = monotonic()
        self.stress_s = config.stress_interval_s()
        self.tick_s = TICK_S if self.stress_s is None else min(TICK_S, self.stress_s)
        self.budget = self._new_budget()
        self.pauses = pause.Pauses(self.options["max_pause_s"])
        sentinels.pause_at_most(0.5 * self.pauses.limit())
        self.has_said_refusal = False
        self.steps = safepoint.Steps(self._on_step)
        self.phases = phases.Phases(self._phase_began)
        self.peak = peak.Peak(self._look_at_peak)
        self.pending = safepoint.PendingCall(self._take_on_main_thread)
        self.stacks = native.GrowthStacks()
        self.level = level.Level()
        self.native_window = native_window.NativeWindow(folder, self.note) if options["native"] else None
        self.user_step = None
        self.wanted = None  # the reason of a take that is due and waits for its safe point
        self.wanted_at = 0.0
        self.taking = False
        self.take_number = 0
        self.memory = {}
        self.module_count = 0
        self.rss_at_take = None
        self.inbox = []  # rows from other threads; the agent's thread writes them
        # Of the thread that is there, each in a list of one, where C functions find it.
        self.wake = [allocate_lock()]
        self.ended = [allocate_lock()]  # held while it is there
        self.asked_to_end = [[]]  # holds a list, with something in it if the thread shall end
        self.writing = allocate_lock()
        self.next_sentinel = self.next_flush = self.began
        self.exiting = False
        self.parting = []  # what to call as the thread ends, should nobody of ours be able to say it before
        self.is_watched = self.watched_is_noted = False  # by a tracer, profiler or debugger
        self.exiting_pid = None  # of the process that has noted its exit: a forked child has its own
        self.failures = self.failed_takes = 0
        self.sources_written = set()
        self.request = None
        self.fatal_signals = None
        self.hooks = hooks.Hooks(self._callbacks())
        self.body = [None]
        self.restart = safepoint.PendingCall(
            self._restart,
            (
                doors.with_first(list.clear, self.asked_to_end),
                doors.with_first(start_new_thread, self.body, [()]),
            ),
        )
        self._identify()

    def _new_budget(self):
        if self.stress_s is not None:
            return safepoint.Stress(self.stress_s)
        return safepoint.Budget(self.options["take_fraction"], self.options["take_interval_s"])

    def _identify(self):
        self.pid = os.getpid()
        self.start_ticks = _start_ticks()
        stem = "agent-%d-%d" % (self.pid, self.start_ticks)
        self.journal = journal.Journal(self.folder, stem, self.masker)

    def start(self):
        self.request = safepoint.request_stamp(self.folder)
        self.note(LOADED, _version(self.pid))
        if not self.options["takes"]:
            self.note("take-skipped", "takes are switched off")
        elif not self.takes:
            self.note("helper", "holds nothing of the user's: sentinels only")
        try:
            self.fatal_signals = fatal_signals.FatalSignals(self.folder, self.pid, self.start_ticks)
        except (OSError, AttributeError):
            pass  # too few descriptors, another libc: fatal signals leave no text
        self.hooks.start()
        os.register_at_fork(
            before=doors.door(self._before_fork, self._end_unseen(_AT_FORK) if WARNS_OF_THREADS else ()),
            after_in_child=doors.door(self._after_fork_in_child),
        )
        if WARNS_OF_THREADS:
            doors.call_last_after_forks(self.restart.ask_unseen)
        atexit.register(doors.door(self._at_exit, self._end_unseen(_AT_EXIT)))
        self._prepare_to_part()
        _load_unwinder()
        self._start_thread()

    def _callbacks(self):
        callbacks = dict(self.phases.hooks(), **self.steps.hooks())
        callbacks["threading"] = last_words.of_threads(self._add_last_words)
        if self.options["framework_logs"]:
            callbacks["transformers.trainer"] = self._add_callbacks
        return callbacks

    # ---- the thread

    def _start_thread(self):
        rss_bytes()  # opens its file while no other thread can open one
        self.native_thread, asked, wake, ended = [], [], allocate_lock(), allocate_lock()
        self.waits, self.ticks = count(), 0  # as often as it ticks it waits, unless somebody watches
        wake.acquire()
        ended.acquire()
        self.asked_to_end[:], self.wake[:], self.ended[:] = [asked], [wake], [ended]
        self.next_sentinel = monotonic()
        self.next_flush = self.next_sentinel + 1.0
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
                    doors.put(get_native_id, self.native_thread),
                    partial(ended.acquire, False),
                    partial(begun.acquire, False),
                    begun.release,
                    # Many processes are over by then; and what begins has the GIL for itself.
                    partial(wake.acquire, True, min(FIRST_TICK_S, self.tick_s)),
                ),
                wait=(partial(wake.acquire, True, self.tick_s), self.waits.__next__),
                tick=partial(self._tick, asked),
                is_asked_to_end=partial(any, asked),
                ends=(doors.call_each(self.parting), self.parting.clear, ended.release),
            )
            self.body[:] = [body]
            self.thread = start_new_thread(body, ())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        # A job may fork, or crash, at once: for the one its number must be known, and Python 3.14's faulthandler
        # takes the state of a thread that has not begun for a freed one, and writes nothing more.
        begun.acquire(timeout=BEGINS_S)

    def _tick(self, asked_to_end):
        """On the agent's thread, every now and then. True if that has to end."""
        if asked_to_end or self.failures >= MAX_FAILURES:
            if _AT_EXIT in asked_to_end:
                self._look_for_watchers()
                self._last_rows()
            del self.parting[:]  # nobody watches this thread: what there is to say is said
            return True
        try:
            self._look_around(monotonic())
        except Exception:
            self.failures += 1
        return False

    def _look_around(self, now):
        self._look_for_watchers()
        self.ticks += 1
        self.hooks.tick()
        if now >= self.next_sentinel:
            self.next_sentinel = now + self.options["sentinel_interval_s"]
            self._add("sentinels", dict(sentinels.row(), step=self.step()))
        self.phases.tick()
        if self.fatal_signals is not None:
            self.fatal_signals.tick()
        self._look_at_level(now)
        self.stacks.tick(self.wake[0], self.level.is_flat)
        if self.native_window is not None:
            self.native_window.tick()
        if self.takes:
            self._consider(now)
        elif self.fork is not None:
            self.takes = self.fork.is_worth_a_take()
        if now >= self.next_flush or (self.inbox and self.inbox[-1][0] == "takes"):
            self.next_flush = now + self.options["flush_interval_s"]
            self._add_counters()
            self._write()

    def _look_for_watchers(self):
        """While somebody traces, profiles or debugs no inventory is made: it would be seen, and what it reads used."""
        was_watched, self.is_watched = self.is_watched, not doors.is_unwatched()
        was_unseen = _number_of(self.waits) > self.ticks  # the thread waited, and was not to begin
        if (self.is_watched or was_unseen) and not self.watched_is_noted:
            self.watched_is_noted = True
            self.note(*WATCHED)
            self._write()  # before they watch this thread, too
        if was_watched and not self.is_watched:
            self.wanted = None

    def _consider(self, now):
        """Is a take due, and has it waited too long for its safe point?"""
        if self.taking or self.is_watched:
            return  # what it costs decides when the next is due
        elapsed = now - self.began
        if self.wanted is None:
            self.wanted = self._reason(elapsed)
            if self.wanted is None:
                return
            self.wanted_at = now
        if self.steps.count is not None and now - self.steps.last_at < safepoint.STEPPING_S:
            return  # the next optimizer step is near: it takes what is wanted
        # A main thread that has not come by since the take before is not waited for once more.
        waits_since = min(self.wanted_at, self.pending.asked_at or self.wanted_at)
        if now - waits_since > safepoint.PATIENCE_S:
            self._take_here()
            return
        for _ in range(ASKS):  # a burst of looks (native.py) may just have asked for a call of its own, which runs now
            if self.pending.ask():
                return
            sleep(ASK_AGAIN_S)

    def _take_here(self):
        """On the agent's thread. At a blocked fault the kernel ends the process before its words are written."""
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, fatal_signals.FAULTS)
        try:
            self._take("agent-thread")
        finally:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, fatal_signals.FAULTS)

    def _reason(self, elapsed):
        modules, self.module_count = self.module_count, len(sys.modules)
        if self.module_count > modules and elapsed < IMPORTS_S and self.stress_s is None:
            return None  # imports go on: all that grows now is code
        stamp = safepoint.request_stamp(self.folder)
        if stamp is not None and stamp != self.request:
            self.request = stamp
            if self.budget.allows(elapsed):
                return "pressure"
        if self.budget.is_due(elapsed, self._is_flat):
            return "schedule"
        if self.rss_at_take is not None and self.budget.allows(elapsed):
            grown = (rss_bytes() or 0) - self.rss_at_take
            enough = max(safepoint.GROWTH_MIN_BYTES, safepoint.GROWTH_FRACTION * self.rss_at_take)
            if grown > enough and elapsed - self.last_take_at > 1.0:
                return "growth"
        reason = self.budget.holds_back(elapsed)
        if reason is not None:
            self.note("throttled", reason)
        return None

    def _look_at_level(self, now):
        if now - self.steps.last_at < safepoint.STEPPING_S:
            self.level.asked = True  # of the next step, which ends where every step ends
        else:
            self.level.look()

    def _is_flat(self):
        """Nothing is known of what grows on a device: there takes come as if it did."""
        return self.level.is_flat() and not cuda.is_used()

    # ---- safe points

    def _on_step(self):
        self.phases.stepped()
        if self.level.asked:
            self.level.look()
        if self.takes and self.fork is None:
            if self.steps.count == 1 and self.wanted is None and self.budget.allows(monotonic() - self.began):
                for row in gradients.import_order_notes():
                    self.note(row["note"], row["text"])
                self.wanted = "schedule"  # weights as training begins: a checkpoint still held is seen equal to them
            self.peak.stepped(self.steps.count)
            self._look_at_cuda()
        if self.wanted is not None and not self.taking:
            self._take("optimizer-step")

    def _look_at_cuda(self):
        """Nothing until the job itself uses CUDA: a flag is read, then the allocator's counters once a second."""
        for row in cuda.rows_if_due(self.step()):
            self._add("allocator", row)
        refused = cuda.attach_oom_observer(self._on_cuda_oom)
        if refused is not None:
            self.note("cuda-observer", refused)

    def _on_cuda_oom(self, device, requested_bytes, total_bytes, free_bytes, frames):
        """Torch is about to raise: the frames that asked still stand, so this is the moment for an inventory."""
        self.note("cuda-oom", cuda.oom_text(device, requested_bytes, total_bytes, free_bytes, frames))
        row = cuda.device_row(device, self.step())
        if row is not None:
            self._add("allocator", row)
        on_main_thread = get_ident() == self.main_thread
        if on_main_thread and self.takes and not self.taking and self.budget.allows(monotonic() - self.began):
            self.wanted = "pressure"
            self._take("cuda-oom")

    def _take_on_main_thread(self):
        if not self.exiting and self.wanted is not None and not self.taking:
            self._take("pending-call")

    def _take(self, safe_point):
        reason, self.wanted = self.wanted, None
        if self.failures >= MAX_FAILURES or self.pid != os.getpid():
            return
        if collector.goes_on():
            self.wanted = reason
            return
        self.taking = True
        hidden = quiet.hide()
        try:
            shared_bytes = self._shared_bytes()
            if not self._sharing_allows(shared_bytes):
                self.budget.spend(0.0, monotonic() - self.began)
                return
            self.take_number += 1
            self._exit_soon()
            take = Take(
                self.take_number, self.options["take_pause_s"], self.memory,
                self.main_thread, self.thread, safe_point, self.phases.batch_storages,
                with_torch=self.fork is None,  # a fork must not compute with threads that only its parent has
                pauses=self.pauses,
            )  # fmt: skip
            stamps = _stamps()
            self.pauses.begin(self._longest_pause_s())
            rows = take.run()
            self._say_what_was_left_out(take.is_swept)
            self.last_take_at = monotonic() - self.began
            self.budget.spend(take.summary["take_cpu_s"], self.last_take_at)
            self.level.begin()
            self.rss_at_take = rss_bytes()
            in_use = sentinels.malloc_figures()[0]
            summary = dict(
                take.summary, take=self.take_number, reason=reason, safe_point=safe_point, step=self.step(),
                rss_bytes=self.rss_at_take, malloc_in_use_bytes=in_use,
                copied_bytes=max(0, shared_bytes - (self._shared_bytes() or 0)) if shared_bytes else None,
            )  # fmt: skip
            for table, row in rows:
                row.update(stamps)
                if table in _WITH_STEP:
                    row["step"] = self.step()
                self.inbox.append((table, row))
            summary.update(stamps)
            self.inbox.append(("takes", summary))
            if self.native_window is not None and not self.exiting:
                explained = sum(summary[account] or 0 for account in ("python_bytes", "array_bytes", "tensor_bytes"))
                self.native_window.look(in_use, explained, "%d-%d" % (self.pid, self.start_ticks))
        except BaseException as error:
            self.last_take_at = monotonic() - self.began
            self.budget.spend(0.25, self.last_take_at)
            if names.is_foreign(error):
                self.note("take-interrupted", "a signal handler of the job raised %s" % type(error).__name__)
                raise
            self.note("failed", "take: %s: %s" % (type(error).__name__, error))
            self.failed_takes += 1
            self.takes = self.takes and self.failed_takes < MAX_FAILURES
        finally:
            quiet.show(hidden)
            self.taking = False
            self._wake()

    def _longest_pause_s(self):
        """What a take may hold up the job now. As it ends nobody waits for an answer: there only the budget counts."""
        if self.stress_s is not None:
            return float("inf")
        limit_s = self.pauses.limit(is_training=self.steps.count is not None)
        return max(limit_s, self.budget.left_s(monotonic() - self.began)) if self.exiting else limit_s

    def _say_what_was_left_out(self, is_swept):
        text = self.pauses.refusal(is_swept)
        if text is not None and not self.has_said_refusal:
            self.has_said_refusal = True
            self.note("reduced-take", text)

    def _shared_bytes(self):
        """Bytes that a write would copy; 0: this process is no fork and never forked; None: nobody can tell."""
        if self.fork is None and not self.memory.get("forked"):
            return 0
        return sharing.shared_dirty_bytes()

    def _sharing_allows(self, shared_bytes):
        """Looking at an object writes to its page, which its other processes then hold a copy of: bound that cost."""
        if self.stress_s is not None:
            return True
        if self.fork.allows(shared_bytes) if self.fork is not None else sharing.parent_allows(shared_bytes):
            return True
        text = "%d MiB are shared with forked children and a take would copy them"
        if self.fork is not None:
            text = "a fork shares %d MiB with others and a take would copy them"
        self.note("take-skipped", text % ((shared_bytes or 0) >> 20))
        return False

    # ---- rows

    def step(self):
        return self.user_step if self.user_step is not None else self.steps.count

    def mark(self, step, phase, label):
        if type(step) is int:
            self.user_step = step
        if phase is not None:
            self.phases.enter(str(phase), said=True)
        if step is not None or label is not None:
            text = None if label is None else str(label)
            self._add("marks", {"step": self.step(), "phase": self.phases.current, "text": text})

    def _phase_began(self, phase):
        self._add("marks", {"step": self.step(), "phase": phase, "text": None})

    def _add_counters(self):
        """What is only counted, and so can be read from any thread: takes are too rare for a trend."""
        for table, rows in (
            ("phases", self.phases.rows()),
            ("compile_counters", compile_counters.rows(None)),
            ("growth_stacks", self.stacks.rows()),
            ("tracked_segments", () if self.takes else tracked_segments.rows(self.main_thread)),
        ):
            for row in rows:
                self._add(table, dict(row, step=self.step()))

    def _look_at_peak(self):
        """The tensors as a backward pass begins: what a step needs at most."""
        if self.wanted is None and not self.taking and self.budget.allows(monotonic() - self.began):
            began_s = thread_time()
            self.pauses.begin(self._longest_pause_s())
            if not self.pauses.allows_sweep(2):
                return
            for row in peak.rows(self.phases.batch_storages):
                self._add("tensors", dict(row, take=self.take_number))
            self.budget.charge(thread_time() - began_s)

    def _add_last_words(self, columns):
        if columns is not None:
            self._add("crash_text", dict(columns, step=self.step()))

    def note(self, kind, text):
        self._add("agent_notes", {"note": kind, "text": text})

    def _add(self, table, row):
        if self.failures >= MAX_FAILURES:
            return  # nobody writes it any more: it must not pile up
        row.update(_stamps())
        self.inbox.append((table, row))

    def _wake(self):
        try:
            self.wake[0].release()
        except RuntimeError:
            pass  # awake already

    def _write(self):
        """Hand the collected rows to the kernel. Only the agent's thread calls it, and the exit handler after it."""
        if not self.writing.acquire(timeout=2.0):
            return
        try:
            if not journal.is_there(self.folder):
                # The recording is over and its folder gone, but this process lives on: an open file would grow on.
                self.failures = MAX_FAILURES
                self.inbox = []
                self.journal.abandon()
                return
            if self.take_number and self.options["sources"]:
                self._add_sources()
            while self.inbox:
                table, row = self.inbox.pop(0)
                row["pid"] = self.pid
                row["start_ticks"] = self.start_ticks
                self.journal.add(table, row)
            self.journal.flush()
            self._prepare_to_part()
        except OSError:
            self.failures += 1
        finally:
            self.writing.release()

    def _prepare_to_part(self):
        """A watched thread, or a process with a tool of sys.monitoring, runs no Python of ours: C code says so then.

        **Errors** OSError.
        """
        del self.parting[:]
        if not self.watched_is_noted:
            process = dict(_stamps(), pid=self.pid, start_ticks=self.start_ticks)
            notes = [(LOADED, _version(self.pid))] if not self.journal.written_bytes else []
            rows = [dict(process, note=note, text=text) for note, text in [*notes, WATCHED]]
            self.parting.append(doors.appending(*self.journal.to_append("agent_notes", rows)))

    def _add_sources(self):
        for name, module in list(sys.modules.items()):
            file = names.getattr_plain(module, "__file__")
            if type(file) is not str or file in self.sources_written or len(self.sources_written) > 300:
                continue
            if not file.endswith(".py") or not names.is_user_module(name, file):
                continue
            self.sources_written.add(file)
            try:
                with open(file, "rb") as stream:
                    text = stream.read(256 * 1024).decode("utf-8", "replace")
            except OSError:
                continue
            self._add("sources", {"module": name, "file": os.path.abspath(file), "source_text": text})

    # ---- fork and exit

    def _add_callbacks(self, _hooks, module):
        """For --framework-logs only. Lightning finds its callbacks by an entry point; transformers has none."""
        import importlib

        try:  # what is installed beside the job, not this copy of the agent: they share nothing
            discovery = importlib.import_module("leakscope.integrations._discovery")
        except ImportError:
            self.note("framework-logs", "leakscope is not installed where the training runs: its logs stay as they are")
            return
        discovery.transformers_imported(module)

    def _before_fork(self):
        self.memory["forked"] = True
        if WARNS_OF_THREADS:
            self._stop_thread()
        return True

    def _end_unseen(self, reason):
        """C functions that end the thread while somebody watches, and wait until it is gone."""
        return (
            doors.with_first(list.append, self.asked_to_end, [reason]),
            doors.with_first(methodcaller("acquire", False), self.wake),
            doors.with_first(methodcaller("release"), self.wake),
            doors.with_first(methodcaller("acquire", True, END_S), self.ended),
            partial(sleep, 0.002),
        )

    def _stop_thread(self):
        thread, self.thread = self.thread, None
        if thread is None:
            return
        self.asked_to_end[0].append(_AT_FORK)
        self._wake()
        path = "/proc/self/task/%s" % (self.native_thread or ["?"])[-1]
        give_up = monotonic() + (END_S if self.taking else 0.1)
        while os.path.exists(path) and monotonic() < give_up:
            sleep(0.0001)

    def _restart(self):
        """As soon as the fork is over: whether Python warns is decided after its hooks."""
        if self.thread is None and not self.exiting:
            try:
                self._start_thread()
            except Exception:
                pass  # no threads any more: the interpreter is on its way out

    def _after_fork_in_child(self):
        try:
            self.journal.abandon()
            self.inbox = []
            self.takes = self.taking = False
            collector.let_go()
            self.pending.forget()
            self.restart.forget()
            self.wanted = self.rss_at_take = None
            self.take_number = self.failed_takes = 0
            self.memory = {}
            self.stacks = native.GrowthStacks()  # what grew before is the parent's
            self.budget = self._new_budget()
            self.has_said_refusal = False
            self.writing = allocate_lock()
            self.main_thread = get_ident()
            doors.this_is_the_main_thread()
            self.began = monotonic()
            self._identify()
            if self.fatal_signals is not None:
                self.fatal_signals.forked(self.pid, self.start_ticks)
            if self.native_window is not None:
                self.native_window.forget()
            self.watched_is_noted = False
            self._prepare_to_part()
            forker = names.forker(sys._getframe())
            # Loader workers come in numbers and read all that their parent has: what they keep, the sources tell.
            self.fork = sharing.Fork() if self.may_take and forker not in names.LOADERS else None
            text = "forked by %s: it takes no inventory, which would copy its parent's pages"
            if self.fork is not None:
                text += ", until it has gained much more itself"
            self.note("forked", text % forker)
            self.takes = self.may_take and self.stress_s is not None
            self._start_thread()
        except Exception:
            pass
        return True

    def _last_rows(self):
        self._add_counters()
        self._add("sentinels", dict(sentinels.row(), step=self.step()))
        self._write()

    def _exit_soon(self):
        """Exit handlers run in turn, the last registered first: ours from the start is after those of torch.

        So another at the takes 1, 2, 4, 8, ..., for a job that imports on: what takes seconds to end is no work.
        """
        if not self.exiting and self.take_number & (self.take_number - 1) == 0:
            atexit.register(doors.door(self._note_exit))

    def _note_exit(self):
        if self.exiting_pid != self.pid:
            self.exiting_pid = self.pid
            self.note("exit", "the interpreter shuts down")
        return True

    def _at_exit(self):
        """The last take; after an unhandled exception its frames still stand."""
        if self.pid != os.getpid():
            return True  # a fork that somebody watched from its beginning
        self._look_for_watchers()
        self.exiting = True
        try:
            self._add_last_words(last_words.of_main_thread())
            elapsed = monotonic() - self.began
            self._note_exit()
            if self.fatal_signals is not None:
                self.fatal_signals.leave_to_others()
            if (
                self.takes
                and self.pid == os.getpid()
                and (elapsed > 2.0 or self.stress_s is not None)
                and not self.taking
            ):
                if self.budget.allows(elapsed):
                    self.wanted = "exception" if hasattr(sys, "last_traceback") else "exit"
                    self._take("exit")
                else:
                    self.note("throttled", "none at the end: " + self.budget.why())
            if self.native_window is not None:
                self.native_window.close()
            self._last_rows()
            if self.takes or self.options["probe"]:
                limit_s = min(experiments.BUDGET_S, EXPERIMENTS_S * self.options["take_fraction"])
                for row in experiments.run(self.options["probe"], sentinels.malloc_figures()[1], limit_s):
                    self._add("experiments", row)
                    self._write()  # each by itself: the finalizers that a collection runs might not come back
        except Exception:
            pass
        # Python's end would stop it by pthread_exit, which aborts the process if there is no memory for libgcc.
        self._stop_thread()
        return True


def _load_unwinder():
    """What glibc loads as a thread ends by pthread_exit, or it aborts the process.

    By then there may be no memory for it, or another root. In Python 3.8 every thread ends so, later those that run as
    the interpreter ends.
    """
    try:
        ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        pass  # another libc, which needs none


def _number_of(counter):
    """What ``next`` would give, without it."""
    return int(str(counter)[len("count(") : -1])


def _version(pid):
    return "Python %s, pid %d" % (sys.version.split()[0], pid)


def _is_helper():
    try:
        with open("/proc/self/cmdline", "rb") as stream:
            line = stream.read(4096).decode("utf-8", "replace")
    except OSError:
        return False
    return any(part in line for part in _NO_TAKES)


def _stamps():
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return {
        "time_unix_ns": time_ns(),
        "time_mono_ns": clock_gettime_ns(time.CLOCK_MONOTONIC),
        "time_boot_ns": None if boot is None else clock_gettime_ns(boot),
    }


def _start_ticks():
    try:
        with open("/proc/self/stat", "rb") as stream:
            return int(stream.read().rsplit(b")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
