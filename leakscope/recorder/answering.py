"""The answer at the end of a recording, soon after it: a helper has loaded what it takes. Runs in the recorder.

The helper also makes the file, since whoever makes it has to load pyarrow, which this one has.

To load what it takes is a third of a second of CPU, which on a busy machine is more than anybody should wait for the
end of a job. So in the first minutes a helper waits beside the job with everything loaded (86 MB), where memory is
plenty. It lets the job go first, so that on a busy machine it may not be ready. Then, and after a long run, one is
loaded when the job is over, as fast as the job itself would run. A helper also looks at a long run now and then: what
it says is provisional, and is there if the recorder is killed. A helper is the first to go when memory becomes short.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from .. import signals
from ..units import GiB, MiB, format_bytes, format_duration
from . import finalizing, proc
from .companion import Companion, Look, Word
from .helpers import Room, goes_first, too_full

FIRST_S = 6.0  # shorter runs are too short for a verdict
WAITING_S = 180.0  # so long a helper waits beside the job: later it looks and ends
NEXT_LOOK = 2.0  # times the age of the recording at the last look
# For the answer, after the job: of the helper's own CPU time, which on a busy machine takes several times as long. It
# takes 0.2 to 0.4 s, and 0.3 s more to load; of a long run there is more to read. A signal ends the wait.
PATIENCE_CPU_S, MOST_PATIENCE_CPU_S = 2.5, 5.0
PATIENCE_SHARE = 0.05  # of the run
MOST_PATIENCE_S = 20.0
MOST_OF_A_RUN = 0.75  # an earlier look at less of it says nothing of its end, but for a leak with its line
ROOM_BYTES, ROOM_OF_MACHINE_BYTES = GiB, 4 * GiB  # it takes 80 to 140 MiB
# When the job is over nobody else needs what is left: 128 to 139 MB were measured of a minute, half of them
# pages of libraries that others map, too; and of a day 250 MB, which had a journal of 60 MB.
ROOM_AFTER_BYTES, ROOM_OF_A_JOURNAL = 160 * MiB, 2
MOST_JOURNAL_BYTES = 512 * MiB  # which it would read into memory
# It loads with a third of the time of a job that wants the same core, and looks with what nobody wants.
# What yields is one thread: a process that yields may not hurry again later, unless it is root's. The libraries of
# numpy would start threads of their own, which nothing here needs.
# Nor does anybody read the texts that pyarrow.compute makes for each of its functions (17 ms).
HELPER = f"""{finalizing.NO_CERTIFICATES}
import os, sys, threading
class docscrape:
    NumpyDocString = staticmethod(lambda text: {{"Parameters": ()}})
sys.modules["pyarrow.vendored.docscrape"] = docscrape
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
def yielding(work, by=19):
    def run():
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, own + by))
        work()
        done.append(True)
    done = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if not done:
        os._exit(1)
def load():
    global main
    from leakscope.answering.serving import main
yielding(load, 5) if "ahead" in sys.argv else load()
os._exit(main(yielding))
"""
_POLL_S = 0.02
_TELL_S = 1.0
_NEARLY_LOADED_S = 0.2  # of 0.3 s
_MOST_BYTES = 65536


class Answer(NamedTuple):
    """What a helper said, and of which moment of the recording; 0: of its end. ``peak_bytes``: as the report has it."""

    lines: list[str]
    as_of_s: float = 0.0
    peak_bytes: int | None = None

    def is_told(self, elapsed_s: float) -> bool:
        """Whether it is worth a word after a run of ``elapsed_s``: half of one that leaks may look well."""
        names_a_line = self.lines[0].startswith("LEAKING") and len(self.lines) > 1
        return not self.as_of_s or names_a_line or self.as_of_s >= MOST_OF_A_RUN * elapsed_s

    def told(self) -> list[str]:
        """With the moment behind the verdict, if it is provisional."""
        if not self.as_of_s:
            return self.lines
        return [f"{self.lines[0]} (Provisional, as of {format_duration(self.as_of_s)}.)", *self.lines[1:]]


class Answering(Companion):
    """What is known of the answer while the recording goes on. ``pid``: the helper that is there now, if one is."""

    left_out = "there is no verdict at the end"

    def __init__(self, output: str) -> None:
        super().__init__()
        self.pid: int | None = None
        self.why_not = ""  # there is no final answer, and when there will be one
        self._output = output
        self._answer: Answer | None = None
        self._orders = self._words = -1  # our ends of its stdin and stdout
        self._said = b""
        self._is_ready = self._has_looked = False
        self._asked = 0  # how many answers are to come
        self.is_making_file = False
        self._is_made: bool | None = None  # as it said
        self._next_look_s = WAITING_S
        self._is_over = False  # no more helpers while the job runs: one failed, or there is no room

    @property
    def pids(self) -> Mapping[int, str]:
        return {} if self.pid is None else {self.pid: "waits for the end, for the verdict"}

    def go_on(self, look: Look) -> Iterator[Word | Room]:
        """Start a helper, or have it look, where it is time for that; what leaves no room for one."""
        if not look.is_last and (full := self._begin_or_look(look.elapsed_s, look.journal_bytes)) is not None:
            yield full

    def _begin_or_look(self, elapsed_s: float, journal_bytes: int) -> Room | None:
        if self.pid is not None:
            self._listen()
            if self._has_looked and not self._asked:
                self._end_helper()
            elif self._is_ready and not self._asked and elapsed_s >= self._next_look_s:
                self._has_looked, self._asked, self._next_look_s = True, 1, NEXT_LOOK * elapsed_s
                self._order("look")
            return None
        if self._is_over or elapsed_s < (FIRST_S if elapsed_s < WAITING_S else self._next_look_s):
            return None
        if journal_bytes > MOST_JOURNAL_BYTES or not finalizing.can_answer():
            self._is_over = True
        elif (full := too_full(ROOM_BYTES, ROOM_OF_MACHINE_BYTES)) is not None:
            self._is_over = True
            return full
        else:
            self._start("ahead")
        return None

    def ended(self, pid: int, status: int) -> Word | None:
        """A child of the recorder was reaped: it may be the helper, before its time."""
        if pid == self.pid:
            self._is_over = True
            self._let_go()
        return None

    def give_way(self) -> None:
        """It is no longer wanted, or memory is short: then none comes while the job runs."""
        self._is_over = True
        self._end_helper()

    def begin(
        self, elapsed_s: float, journal_bytes: int, *, is_job_over: bool = True, is_telling: bool = False
    ) -> None:
        """The recording is over: the helper loads, if it has not.

        One that has not yet loaded everything, or is in the middle of a look, gives way to one that hurries.
        ``is_telling``: a short run has something to tell all the same, such as a kill.
        """
        self._listen()
        if self.pid is not None and (self._asked or not (self._is_ready or _cpu_s(self.pid) > _NEARLY_LOADED_S)):
            self._end_helper()
        if self.pid is None:
            self.why_not = self._why_none(elapsed_s, journal_bytes, is_job_over, is_telling)
            if self.why_not:
                return
            self._start("now")
            self.why_not = "" if self.pid is not None else "no process could be started to judge it"

    def _why_none(self, elapsed_s: float, journal_bytes: int, is_job_over: bool, is_telling: bool) -> str:
        """Why no helper is started at the end; empty where one can be."""
        if elapsed_s < FIRST_S and not is_telling:
            return f"it ran for less than {FIRST_S:g} s, which is too short for one"
        if not finalizing.can_answer():
            return "what judges a recording is not installed here"
        if journal_bytes > MOST_JOURNAL_BYTES:
            return f"there are {format_bytes(journal_bytes)} to read, which takes a while"
        after = ROOM_AFTER_BYTES + ROOM_OF_A_JOURNAL * journal_bytes
        needed = (after, None) if is_job_over else (ROOM_BYTES, ROOM_OF_MACHINE_BYTES)
        if (full := too_full(*needed)) is not None:
            return f"{format_bytes(max(0, full.left_bytes))} of memory are left, {full.name}, which is too little here"
        return ""

    def makes_file(self, keep_journal: bool) -> bool:
        """Have the helper make the file, if there is one."""
        self.is_making_file = self.pid is not None
        if self.is_making_file:
            self._order("finish", keep_journal)
        return self.is_making_file

    def file_is_made(self) -> bool | None:
        """When it is. False: it has to be made otherwise; None: a signal ended the wait, and the helper."""
        while self.pid is not None and self._is_made is None:
            if _is_asked_to_end():
                self.give_way()
                return None
            self._take_in(_POLL_S)
        return bool(self._is_made)

    def answer(self, elapsed_s: float, waits: Callable[[], None] = lambda: None) -> Answer | None:
        """What it says of the finished file, if it says so in time; else what was said before, of most of a run of
        ``elapsed_s``, and ``why_not``. The helper is gone then. ``waits`` is called once if it takes longer.
        """
        provisional, self._answer = self._answer, None
        if self.pid is not None:
            self.why_not = "judging it failed"
            self._asked += 1
            self._order("tell")
            self._wait(max(PATIENCE_CPU_S, min(PATIENCE_SHARE * elapsed_s, MOST_PATIENCE_CPU_S)), waits)
        if self._answer is not None:
            self.why_not = ""
        self.give_way()
        self._remove_leftover()
        answer = self._answer or provisional
        return answer if answer is not None and answer.is_told(elapsed_s) else None

    def _wait(self, cpu_s: float, waits: Callable[[], None]) -> None:
        """For the final answer: as long as the helper is at work, and no longer than that is worth."""
        began_s = time.monotonic()
        until_s = began_s + MOST_PATIENCE_S
        used_s = _cpu_s(self.pid)
        is_told = False
        while self.pid is not None and self._answer is None:
            now_s = time.monotonic()
            if now_s >= until_s:
                self.why_not = f"{format_duration(now_s - began_s)} were not enough on this busy machine"
                return
            if _cpu_s(self.pid) - used_s > cpu_s:
                self.why_not = f"there is more to read than {format_duration(cpu_s)} are enough for"
                return
            if _is_asked_to_end():
                self.why_not = "a signal ended the wait for it"
                return
            if not is_told and now_s - began_s > _TELL_S:
                is_told = True
                waits()
            self._take_in(min(_POLL_S, until_s - now_s))

    def _remove_leftover(self) -> None:
        """What a helper that was stopped had begun to write: the file with its verdict."""
        folder, name = os.path.split(self._output)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(f".{name}.tmp-"):
                    os.unlink(entry.path)

    def _start(self, how: str) -> None:
        """``how``: ``ahead``, behind everything else that runs, or ``now``."""
        theirs_in, self._orders = os.pipe()
        self._words, theirs_out = os.pipe()
        try:
            self.pid = finalizing.spawn(
                finalizing.command(HELPER, how),
                [
                    (os.POSIX_SPAWN_DUP2, theirs_in, 0),
                    (os.POSIX_SPAWN_DUP2, theirs_out, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )
        except OSError:
            self._is_over = True
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        if self.pid is None:
            self._let_go()
            return
        goes_first(self.pid)

    def _order(self, what: str, *how: bool) -> None:
        with suppress(OSError):
            os.write(self._orders, json.dumps([what, self._output, *how]).encode() + b"\n")

    def _listen(self) -> None:
        """Take in what it said so far, without waiting."""
        self._take_in(0.0)

    def _end_helper(self) -> None:
        if (pid := self._let_go()) is not None:
            finalizing.stop(pid)

    def _take_in(self, timeout_s: float) -> None:
        for word in self._heard(timeout_s):
            if "answer" in word:
                self._asked -= 1
                self._answer = Answer(word["answer"], word["as_of_s"] or 0.0, word.get("peak_bytes"))
            self._is_made = word.get("made", self._is_made)
            self._is_ready = True

    def _heard(self, timeout_s: float) -> list[dict[str, Any]]:
        """Whole lines that came; a helper that closed its end is gone."""
        if self._words < 0 or not select.select([self._words], [], [], timeout_s)[0]:
            return []
        part = os.read(self._words, _MOST_BYTES)
        if not part:
            self.give_way()
            return []
        *whole, self._said = (self._said + part).split(b"\n")
        return [json.loads(line) for line in whole]

    def _let_go(self) -> int | None:
        """Close our ends; the pid of what may still run."""
        for descriptor in (self._orders, self._words):
            if descriptor >= 0:
                os.close(descriptor)
        pid, self.pid = self.pid, None
        self._orders = self._words = -1
        self._said, self._is_ready, self._has_looked, self._asked = b"", False, False, 0
        return pid


def _is_asked_to_end() -> bool:
    return bool(signal.sigpending() & set(signals.ENDING))


def _cpu_s(pid: int | None) -> float:
    """What a process has used so far; 0 for one that is gone."""
    fields = (proc.read(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / proc.TICKS_PER_S if len(fields) > 12 else 0.0
