"""The recorder: start a command, sample its processes from outside until it ends, leave one file.

Standard library only. ``record`` is the whole sequence. Whatever goes wrong here after the command has started, the
command does not notice: the recorder then is its transparent parent and no more.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..addresses import is_url
from ..agent import config
from ..agent.journal import open_regular
from ..errors import FAILED_BEFORE_START, LeakscopeError, needs_linux
from ..options import RecordOptions, parse_attach, parse_record
from ..schema import SCHEMA_VERSION
from ..units import format_bytes
from ..version import __version__
from . import (
    attach,
    console,
    finalizing,
    job_identity,
    large_requests,
    launch,
    namesakes,
    naming,
    no_agent,
    preflight,
    proc,
)
from .answering import FIRST_S, Answer, Answering
from .companion import Companion
from .guard import ROOM_BYTES as GUARD_BYTES
from .guard import Guard
from .helpers import Room, too_full
from .output import Output
from .sampler import Sampler
from .stderr_file import StderrFile
from .tree import Row, Tree

if TYPE_CHECKING:
    import socket

    from .tee import Tee
    from .uploads import Upload

_LEAST_SHOWN = 12  # characters of a command


def main(argv: Sequence[str], command: str = "record") -> int | None:
    """``leakscope record`` and ``attach``: returns the exit status, or ends by the signal that ended the command.

    None: the help is asked for, which others write.
    """
    try:
        options = parse_attach(argv) if command == "attach" else parse_record(argv)
        if options.help:
            return None
        needs_linux(command)
        if options.find_training:
            from .ps import main as list_processes

            return list_processes()
        return attach_to(options) if options.attaches else record(options)
    except launch.NotStarted as error:
        console.say(str(error))
        return error.exit_status
    except (LeakscopeError, OSError) as error:
        console.say(str(error))
        return FAILED_BEFORE_START


def record(options: RecordOptions) -> int:
    """Run the command of ``options`` and record it. **Errors** LeakscopeError, only before the command has started."""
    mask = launch.block_signals()
    launch.occupy_standard_descriptors()
    path = os.environ.get("PATH")
    asked = shlex.join([os.path.basename(options.command[0]), *options.command[1:]])
    options = options._replace(command=launch.with_python(options.command, path))
    launch.find_program(options.command[0], path)
    known = job_identity.belongs(os.environ, os.getcwd())
    preflight.check(options)
    listener = preflight.listener(options, known)
    now_unix_ns, now_mono_ns = time.time_ns(), time.monotonic_ns()
    output, upload = _claim(
        options,
        now_unix_ns,
        now_mono_ns,
        known,
        agent_config=_agent_config(options, now_mono_ns) if options.agent else None,
    )
    if options.adopts:
        launch.adopt_orphans()
    if signal_number := launch.asked_to_end(mask):
        _take_back(output, upload)
        return launch.end_as(signal_number)
    stderr = _kept_stderr(options, output)
    _announce(options, output, upload, asked)
    try:
        job = launch.Job.start(
            options.command, _environment(options, output), mask, stderr.for_job if stderr is not None else None
        )
    except LeakscopeError:
        _take_back(output, upload)
        raise
    if stderr is not None:
        stderr.started()
    if options.agent and (note := no_agent.at_start(options.command)) is not None:
        output.notes.append(note)
    if not options.quiet:
        for note in output.notes:
            console.say(note)
        if (note := preflight.unanswered(options)) is not None:
            console.say(note)
    guard = _guard_of(job, options)
    try:
        _Recording(job, output, options, stderr, upload, listener, guard).run()
    finally:
        if guard is not None:
            guard.dismiss()
    assert job.wait_status is not None
    return launch.end_as(job.wait_status)


def attach_to(options: RecordOptions) -> int:
    """Record processes that run already until they end or somebody says so. **Errors** LeakscopeError."""
    ending = attach.block_signals()
    launch.occupy_standard_descriptors()
    onlooker = attach.Onlooker(options.pids, ending)
    known = job_identity.belongs(os.environ, os.getcwd())
    preflight.check(options)
    listener = preflight.listener(options, known)
    now_unix_ns, now_mono_ns = time.time_ns(), time.monotonic_ns()
    enters = bool(options.pids) and options.agent and (options.invited or attach.can_enter())
    output, upload = _claim(
        options,
        now_unix_ns,
        now_mono_ns,
        known,
        agent_config=_agent_config(options, now_mono_ns) if enters else None,
        command=attach.commands(options.pids),
    )
    _announce(options, output, upload, _whom(options.pids))
    if output.staged is not None and not options.invited:
        output.notes += filter(None, [attach.enter(pid, output.staged, output.journal_path) for pid in options.pids])
    if not options.quiet:
        for note in output.notes:
            console.say(note)
    recording = _Recording(onlooker, output, options, upload=upload, listener=listener)
    recording.run()
    return 0 if recording.is_whole else FAILED_BEFORE_START


def _announce(options: RecordOptions, output: Output, upload: Upload | None, what: str) -> None:
    """Before the job can print: what is recorded, where to, and how to look. Who reads it from a pipe gets the end."""
    if options.quiet or not options.summary or not console.is_watched():
        return
    shown = naming.shown(output.path)
    look = "leakscope watch" if shown == naming.DEFAULT_OUTPUT else f"leakscope watch {shlex.quote(shown)}"
    to = "" if upload is not None else f" in {shown}"  # a note of the upload says where
    ends = "; Ctrl-C ends the recording" if options.attaches else ""
    then = f"{to}{ends}; live: {look}"
    room = max(_LEAST_SHOWN, console.columns() - len(f"leakscope: recording {then} "))
    console.say(f"recording {what if len(what) <= room else what[: room - 3] + '...'}{then}")
    if (other := namesakes.found()) is not None:
        console.say(other)


def _whom(pids: Sequence[int]) -> str:
    if not pids:
        return "all processes of this host"
    return f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}"


def _guard_of(job: launch.Job, options: RecordOptions) -> Guard | None:
    """None: the command goes on if we are killed, since it shall, or the kernel is too old, or memory is the job's."""
    if not options.outlives and too_full(GUARD_BYTES) is None:
        with suppress(OSError, AttributeError):
            return Guard(job.pid)
    return None


class _Recording:
    """A job that is being recorded: ``run`` returns when it has ended and the file is finished."""

    def __init__(
        self,
        job: launch.Job | attach.Onlooker,
        output: Output,
        options: RecordOptions,
        stderr: StderrFile | Tee | None = None,
        upload: Upload | None = None,
        listener: socket.socket | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._job = job
        self._guard = guard
        self._upload = upload
        self._stderr = stderr
        self._stderr_tail = ""
        self._output = output
        self._options = options
        self._status = console.Status(not options.quiet)
        self._sampler: Sampler | None = None  # None once recording is over
        self._finished: Sampler | None = None
        self._is_closed = False
        self._helper: int | None = None  # makes the file, where what answers does not
        self._helper_status: int | None = None
        self._size_bytes = 0  # of a file that was uploaded
        self._full: Room | None = None  # what leaves no room to finish the file
        self._listener = listener  # of --metrics
        self._answering = Answering(output.path) if options.summary else None
        self._has_told_peak = False
        self._companions: list[Companion] = [one for one in (self._answering, upload) if one is not None]

    def run(self) -> None:
        with self._guarded():
            self._begin()
        while self._goes_on():
            happenings = self._job.pause(self._sampler.seconds_to_next() if self._sampler else None)
            with self._guarded():
                self._follow(happenings)
        if self._guard is not None:
            self._guard.dismiss()
        with self._guarded():
            self._end()

    def _goes_on(self) -> bool:
        """A command is waited for also when its recording is over."""
        return not self._job.is_over and (self._job.is_ours or self._sampler is not None)

    @property
    def is_whole(self) -> bool:
        """No fault of ours cut it short."""
        return self._finished is not None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """End the recording, and nothing else, if a step of it fails: the command must not die of its recorder."""
        try:
            yield
        except Exception as error:
            self._sampler = self._finished = None
            self._status.end()
            fault = f"{type(error).__name__}: {error}"
            console.say(f"a fault of leakscope ended the recording, not the command ({fault}); {self._kept()}")

    def _begin(self) -> None:
        options = self._options
        if options.alerts:
            from .alerting import alerting_of

            self._companions.append(alerting_of(options, self._job.pid, self._output.path))
        sampler = Sampler(
            self._output,
            self._tree(),
            interval_s=options.interval_s or (attach.HostTree.INTERVAL_S if options.system else None),
            flush_s=options.flush_s,
            fsync_s=options.fsync_s,
            max_cpu_fraction=options.max_overhead_fraction,
            asks_agents=options.agent,
            status=self._status,
            companions=self._companions,
        )
        self._sampler = self._finished = sampler
        if (pid := getattr(self._stderr, "pid", None)) is not None:
            sampler.tree.leave_out(pid)
        if self._guard is not None:
            sampler.begin_guarding(self._guard)
        sampler.looks_for_agents = options.agent and not options.attaches and not self._output.notes  # nothing was said
        sampler.sample()
        sampler.event("start", "recording began", pid=self._job.pid)
        for companion in self._with_the_job():
            self._companions.append(companion)
            sampler.add_companion(companion)
            for note in companion.notes if not options.quiet else ():
                console.say(note)

    def _with_the_job(self) -> Iterator[Companion]:
        """Those that read the journal, which is there by now."""
        options = self._options
        if options.metrics is not None or options.otlp is not None:
            from .metering import Metering

            yield Metering(options, self._output.path, self._listener)
        if options.log_to:
            from .trackers import Trackers

            yield Trackers(self._output.path, options.log_to)

    def _tree(self) -> Tree:
        if self._options.system:
            return attach.HostTree(os.getpid(), self._options.pss_interval_s)
        return Tree(self._job.pid, os.getpid(), self._options.pss_interval_s, self._options.pids)

    def _follow(self, happenings: list[launch.Happening]) -> None:
        for happening in happenings:
            if happening.pid == self._helper and happening.kind == "ended":
                self._helper_status = happening.value
        if self._sampler is None:
            return
        self._sampler.take_in(happenings)
        if self._job.is_over:
            return
        self._sampler.sample_if_due()
        if self._options.duration_s is not None and self._sampler.elapsed_s >= self._options.duration_s:
            self._close(self._sampler)

    def _close(self, sampler: Sampler | None) -> None:
        """End the recording and begin to finish the file; after a fault there is no sampler, but there are its rows."""
        self._sampler, self._is_closed = None, True
        self._status.end()
        if sampler is not None:
            sampler.finish(self._job.wait_status, self._job.ending_text)
            for table, row in self._last_rows():
                sampler.add(table, row)
                self._look_for_us(row)
        if self._output.large_requests is not None:
            for row in self._output.large_requests.rows():
                self._output.journal.add(large_requests.TABLE, row)
        with suppress(OSError):
            self._output.journal.close()
        for companion in self._companions:
            companion.close()
        self._output.release()
        self._full = finalizing.full_limit(self._output.written_bytes())
        if self._full is None and finalizing.is_possible():
            if self._answering is not None and sampler is not None:
                self._answering.begin(
                    sampler.elapsed_s,
                    self._output.journal.written_bytes,
                    is_job_over=self._job.is_over,
                    is_telling=bool(sampler.own_kills.number),
                )
            keeps = self._options.keep_journal
            if finalizing.at_once(self._output.path, self._output.written_bytes(), keeps):
                self._helper_status = 0
            elif self._answering is None or sampler is None or not self._answering.makes_file(keeps):
                self._start_finishing()
        self._output.remove_agent()

    def _start_finishing(self) -> None:
        keep = ["--keep-journal"] if self._options.keep_journal else []
        self._helper = finalizing.start(self._output.path, *keep, log=self._log)

    def _wait_for_file(self) -> None:
        if self._answering is not None and self._answering.is_making_file:
            is_made = self._answering.file_is_made()
            if is_made is None:
                return
            if is_made:
                self._helper_status = 0
            else:
                self._start_finishing()
        if self._helper is not None and self._helper_status is None:
            self._helper_status = finalizing.wait(self._helper)

    def _last_rows(self) -> Iterator[tuple[str, Row]]:
        """What can only be told when the job is over: its last words."""
        from . import crash_text  # nobody waits for it at the start

        for row in crash_text.of_fatal_signals(self._output.journal_path):
            yield crash_text.TABLE, row
        if isinstance(self._job, launch.Job) and self._job.wait_status and self._stderr_tail:
            yield crash_text.TABLE, crash_text.of_stderr(self._stderr_tail, self._job.pid, self._job.start_ticks)

    def _look_for_us(self, row: Row) -> None:
        """A crash with our agent's calls on its stack is told to who records the command again."""
        from ..faults import agent_in_crash, last_fatal_error, library_in_crash

        text = row.get("last_words")
        text = last_fatal_error(text) if isinstance(text, str) else ""
        if agent_in_crash(text) or library_in_crash(text):
            with suppress(OSError):
                self._output.say_crashed_in_agent()

    def _end(self) -> None:
        if self._stderr is not None:
            self._stderr_tail = self._stderr.tail()  # what we say ourselves comes after it
        elapsed_s = self._finished.elapsed_s if self._finished else 0.0  # without the time that finishing takes
        if not self._is_closed:
            self._close(self._sampler)
        is_told = self._finished is not None and self._options.summary and not self._options.quiet
        if self._finished is not None and is_told:
            console.say(self._ending(self._finished, elapsed_s))
        self._wait_for_file()
        for companion in self._companions:
            if not companion.needs_file:
                console.pass_on(companion.finish())
        answer = None
        if self._answering is not None and self._helper_status == 0:
            answer = self._answering.answer(elapsed_s, self._tell_wait if is_told else lambda: None)
        uploaded = self._uploaded() if self._upload is not None else ""
        for companion in self._companions:
            if companion.needs_file:
                console.pass_on(companion.finish())
        if self._finished is None:
            return
        if is_told and self._helper_status == 0:
            self._sum_up(elapsed_s, answer, uploaded)
        if lost := self._finished.lost_text():
            console.say(lost)
        if self._helper_status != 0:
            peak = f"{self._peak(self._finished)}; " if is_told and not self._has_told_peak else ""
            console.say(f"{peak}{self._why_not_finished()}; {self._kept()}")

    def _uploaded(self) -> str:
        """Have the file uploaded, within the time for that; where it can be found then."""
        assert self._upload is not None
        with suppress(OSError):
            self._size_bytes = os.stat(self._output.path).st_size
        is_done, reason = self._upload.upload(self._options.upload_wait_s)
        if is_done:
            return self._upload.shown
        if reason:
            console.say(f"not uploaded to {self._upload.shown}: {reason}; {self._kept_for_upload()}")
        elif not self._options.quiet:
            console.say(f"still being uploaded to {self._upload.shown}; if that fails, {self._kept_for_upload()}")
        return ""

    def _kept_for_upload(self) -> str:
        return f"it is in {self._output.path}: leakscope upload {shlex.quote(self._output.path)}"

    def _ending(self, sampler: Sampler, elapsed_s: float) -> str:
        """How the job ended, at once: the verdict may take a moment."""
        status = self._job.wait_status
        code = None if status is None else launch.exit_code_of(status)
        ending = self._job.ending_text(code, elapsed_s, sampler.own_kills)
        is_told_later = self._answering is not None and self._answering.pid is not None
        return ending if is_told_later else f"{ending}, {self._peak(sampler)}"

    def _peak(self, sampler: Sampler, answer: Answer | None = None) -> str:
        """What the report says, where it is known; said once."""
        self._has_told_peak = True
        known = answer.peak_bytes if answer is not None else None
        return f"peak {format_bytes(known)}" if known is not None else console.memory_text(sampler.figures)

    @staticmethod
    def _tell_wait() -> None:
        if os.isatty(2):
            console.say_under("being judged ... (Ctrl-C ends the wait)")

    def _sum_up(self, elapsed_s: float, answer: Answer | None, uploaded: str) -> None:
        """What is the matter, or why nobody says so yet; and what to type for more."""
        shown = uploaded or naming.shown(self._output.path)
        command = "leakscope report" if shown == naming.DEFAULT_OUTPUT else f"leakscope report {shlex.quote(shown)}"
        for line in answer.told() if answer is not None else ():
            console.say_under(line)
        peak = f"{self._peak(self._finished, answer)}; " if self._finished and not self._has_told_peak else ""
        why_not = self._answering.why_not if self._answering is not None else ""
        if self._failed_to_start(elapsed_s):
            why_not = f"it failed as it began, which says nothing of its memory{self._own_python()}"
        if why_not:
            what = "final verdict" if answer is not None else "verdict"
            if elapsed_s >= FIRST_S:  # there is more to be said of it
                what, why_not = f"{what} yet", f"{why_not}; {command} judges it"
            console.say_under(f"no {what}: {why_not}")
        console.say_under(f"{peak}{self._recorded(shown, command)}")

    def _own_python(self) -> str:
        """Who activates our environment to record has our Python for ``python``, which lacks the program's packages."""
        command = self._options.command
        is_python = bool(command) and os.path.basename(command[0]).startswith("python")
        path = launch.find_program(command[0], os.environ.get("PATH")) if is_python else ""
        folder = os.path.dirname(sys.executable)
        if os.path.dirname(path) != folder or not os.path.exists(os.path.join(folder, os.pardir, "pyvenv.cfg")):
            return ""
        return f"; it ran {path}, which is leakscope's own: if a module is missing there, write your project's Python"

    def _failed_to_start(self, elapsed_s: float) -> bool:
        status = self._job.wait_status
        is_killed = self._finished is not None and bool(self._finished.own_kills.number)
        return bool(status) and elapsed_s < FIRST_S and not is_killed

    @property
    def _log(self) -> str:
        """Where the helper's complaint goes: beside the journal files, which stay if it has one."""
        return os.path.join(self._output.journal_path, "finalize.log")

    def _complaint(self) -> str:
        with suppress(OSError), os.fdopen(open_regular(self._log), encoding="utf-8", errors="replace") as stream:
            return stream.read()
        return ""

    def _recorded(self, shown: str, command: str) -> str:
        with suppress(OSError):
            size = format_bytes(self._size_bytes or os.stat(self._output.path).st_size)
            return f"recorded in {shown} ({size}); more: {command}; as a page: {command} -o report.html"
        return f"recorded in {shown}"

    def _kept(self) -> str:
        shown = naming.shown(self._output.path)
        then = "leakscope finalize" if finalizing.is_possible() else "where leakscope is installed, leakscope report"
        return f"what was recorded is in {shown}.journal: {then} {shown}"

    def _why_not_finished(self) -> str:
        if self._full is not None:
            left = format_bytes(max(0, self._full.left_bytes))
            return f"the file is not finished while so little memory is left ({left}, {self._full.name})"
        if not finalizing.is_possible():
            return "pyarrow is not installed here, which the finished file needs"
        if self._helper_status is None:
            return "finishing the file was interrupted"
        if os.WIFSIGNALED(self._helper_status):
            return f"finishing the file was ended by {console.named_signal(os.WTERMSIG(self._helper_status))}"
        complaint = self._complaint().splitlines()
        return complaint[-1].replace("leakscope: ", "", 1) if complaint else "finishing the file failed"


def _claim(
    options: RecordOptions,
    now_unix_ns: int,
    now_mono_ns: int,
    known: Mapping[str, str | int],
    *,
    agent_config: Mapping[str, Any] | None,
    command: Sequence[str] | None = None,
) -> tuple[Output, Upload | None]:
    """Make the files, in the spool if they are to be uploaded. **Errors** BadInput, LeakscopeError."""
    upload = None
    if options.output is not None and is_url(options.output):
        from .uploads import upload_of

        template = naming.one_a_rank(options.output, known)
        upload = upload_of(options, naming.filled_in(template, os.environ, now_unix_ns / 1e9, known))
    path = naming.output_path(options.output, os.environ, now_unix_ns / 1e9, known) if upload is None else upload.path
    meta = _meta(options, now_unix_ns, now_mono_ns, known)
    if command is not None:
        meta["command"] = command
    try:
        output = Output.claim(path, force=options.force, meta=meta, agent_config=agent_config, sources=options.sources)
    except LeakscopeError:
        if upload is not None:
            upload.remove()
        raise
    if upload is not None:
        output.notes.append(f"recording in {path}, to be uploaded to {upload.shown}")
    return output, upload


def _take_back(output: Output, upload: Upload | None) -> None:
    """The command could not be started."""
    output.remove()
    if upload is not None:
        upload.remove()


def _kept_stderr(options: RecordOptions, output: Output) -> StderrFile | Tee | None:
    """Where the end of what the job writes to stderr will be found; None if nobody keeps it."""
    file = StderrFile.before_start()
    if file is not None or not options.tee:
        return file
    from .tee import Tee

    reason = "it is neither a terminal, a pipe nor a file"
    try:
        if tee := Tee.before_start():
            return tee
    except OSError as error:
        reason = error.strerror or str(error)
    output.notes.append(f"--tee: the end of stderr is not kept: {reason}")
    return None


def _meta(options: RecordOptions, now_unix_ns: int, now_mono_ns: int, known: Mapping[str, str | int]) -> dict[str, Any]:
    """What is known about the run before it begins; the file's footer repeats it."""
    system = os.uname()
    return {
        "format_version": SCHEMA_VERSION,
        "command": list(options.command),
        "cwd": os.getcwd(),
        "host": system.nodename,
        "kernel": system.release,
        "boot_id": proc.read_text("/proc/sys/kernel/random/boot_id"),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_unix_ns / 1e9)),
        "start_mono_ns": now_mono_ns,
        "start_unix_ns": now_unix_ns,
        "recorder_pid": os.getpid(),
        "leakscope_version": __version__,
        "labels": {**job_identity.labels(os.environ), **options.labels},
        "belongs": dict(known),
        "options": options.to_write_down(),
        "attached": options.attaches,
        "gpu_driver": proc.read_text("/sys/module/nvidia/version"),
        "python": sys.executable,
    }


def _agent_config(options: RecordOptions, now_mono_ns: int) -> dict[str, Any]:
    """What the user asked for that is the agent's to do, under the names that it has here."""
    asked = {name: value for name, value in options._asdict().items() if name in config.DEFAULTS}
    asked["sampling"] = options.sampling and not options.invited  # it may be invited again
    return {**asked, "recorder_pid": os.getpid(), "start_mono_ns": now_mono_ns}


def _environment(options: RecordOptions, output: Output) -> dict[str, str]:
    """The job's environment: ours, with the boot folder first in PYTHONPATH."""
    environment = dict(os.environ)
    if b"LC_CTYPE=" not in (proc.read("/proc/self/environ") or b"LC_CTYPE="):
        environment.pop("LC_CTYPE", None)  # Python set it for itself, in the C locale (PEP 538)
    if output.staged is None:
        return environment
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = output.staged.boot + (os.pathsep + inherited if inherited else "")
    if options.framework_logs:
        environment["LEAKSCOPE_FRAMEWORK_LOGS"] = "1"  # what the entry point for Lightning looks at
    return environment
