"""The answer at the end of a recording, without a wait for it: a helper has loaded what it takes. Runs in the recorder.

To load pandas takes a second, more than anybody should wait for the end of a job. So in the first minutes a helper
waits beside the job with everything loaded (120 MB), where memory is plenty. Of a longer run the analysis itself may
take too long, and a busy machine is slow: so a helper looks at the recording now and then, and where the end cannot be
told soon, what was said last is told with the time it is of. A helper is the first to go when memory becomes short.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any, NamedTuple

from ..units import GiB, MiB, format_duration
from . import finalizing
from .finalizing import ENDS_WAITING
from .helpers import Room, goes_first, too_full

FIRST_S = 6.0  # shorter runs are too short for a verdict
FIRST_LOOK_S = 16.0  # and somewhat longer ones for an earlier answer
WAITING_S = 180.0  # so long a helper waits beside the job: later it looks and ends
NEXT_LOOK = 2.0  # times the age of the recording at the last look
# For the answer, after the job: on a busy machine it takes seconds. A signal ends the wait.
PATIENCE_S, MOST_PATIENCE_S = 0.5, 5.0
PATIENCE_SHARE = 0.05  # of the run
MOST_OF_A_RUN = 0.75  # an earlier look at less of it says nothing of its end, but for a leak with its line
ROOM_BYTES, ROOM_OF_MACHINE_BYTES = GiB, 4 * GiB  # it takes 120 to 200 MiB
MOST_JOURNAL_BYTES = 512 * MiB  # which it would read into memory
_CODE = "from leakscope.answering.__main__ import main; os._exit(main())"
_POLL_S = 0.02
_BEHIND = 5  # a third of the time where both want the same core: the file goes first
_MOST_BYTES = 65536


class Answer(NamedTuple):
    """What a helper said, and of which moment of the recording; 0: of its end."""

    lines: list[str]
    as_of_s: float = 0.0

    def is_told(self, elapsed_s: float) -> bool:
        """Whether it is worth a word after a run of ``elapsed_s``: half of one that leaks may look well."""
        names_a_line = self.lines[0].startswith("LEAKING") and len(self.lines) > 1
        return not self.as_of_s or names_a_line or self.as_of_s >= MOST_OF_A_RUN * elapsed_s

    def told(self) -> list[str]:
        """With the moment behind the verdict."""
        if not self.as_of_s:
            return self.lines
        return [f"{self.lines[0]} (As of {format_duration(self.as_of_s)}.)", *self.lines[1:]]


class Answering:
    """What is known of the answer while the recording goes on. ``pid``: the helper that is there now, if one is."""

    def __init__(self, output: str) -> None:
        self.pid: int | None = None
        self._output = output
        self._answer: Answer | None = None
        self._orders = self._words = -1  # our ends of its stdin and stdout
        self._said = b""
        self._is_ready = False
        self._asked = 0  # how many answers are to come
        self._asked_at_s = 0.0  # the age of the recording when it was told to look
        self._next_look_s = FIRST_LOOK_S
        self._is_over = False  # no more helpers: one failed, or there is no room

    def go_on(self, elapsed_s: float, journal_bytes: int) -> Room | None:
        """Start a helper, or have it look, where it is time for that; what leaves no room for one."""
        if self.pid is not None:
            self._listen()
            if self._is_ready and not self._asked and elapsed_s >= self._next_look_s:
                self._ask()
                self._asked_at_s, self._next_look_s = elapsed_s, NEXT_LOOK * elapsed_s
            return None
        if self._is_over or elapsed_s < (FIRST_S if elapsed_s < WAITING_S else self._next_look_s):
            return None
        return self._start_if_it_can(journal_bytes)

    def _start_if_it_can(self, journal_bytes: int) -> Room | None:
        full = too_full(ROOM_BYTES, ROOM_OF_MACHINE_BYTES)
        if full is not None or journal_bytes > MOST_JOURNAL_BYTES or not finalizing.can_answer():
            self._is_over = True
            return full
        self._start()
        return None

    def note_exit(self, pid: int) -> None:
        """A child of the recorder was reaped: it may be the helper, before its time."""
        if pid == self.pid:
            self._is_over = True
            self._let_go()

    def stop(self) -> None:
        """It is no longer wanted, or memory is short: then none comes later either."""
        self._is_over = True
        if (pid := self._let_go()) is not None:
            finalizing.stop(pid)

    def begin(self, elapsed_s: float, journal_bytes: int) -> None:
        """The job is over, and its file is being made: meanwhile the helper reads what it is made of.

        After a long run none is there: whoever waited for that waits for one to be loaded.
        """
        if self.pid is None and not self._is_over and elapsed_s >= WAITING_S:
            self._start_if_it_can(journal_bytes)
        if self.pid is not None:
            finalizing.hurries(self.pid, _BEHIND)
            self._order("ahead")

    def answer(self, elapsed_s: float) -> Answer | None:
        """What it says of the finished file, if it says so soon; else what was said before, of most of a run of
        ``elapsed_s``. The helper is gone then.
        """
        until_s = time.monotonic() + max(PATIENCE_S, min(PATIENCE_SHARE * elapsed_s, MOST_PATIENCE_S))
        if self.pid is not None:
            finalizing.hurries(self.pid)
            self._listen()
            self._ask()
            while self.pid is not None and self._asked and (left_s := until_s - time.monotonic()) > 0:
                self._take_in(min(_POLL_S, left_s))
                if signal.sigpending() & set(ENDS_WAITING):
                    break
        self.stop()
        self._remove_leftover()
        return self._answer if self._answer is not None and self._answer.is_told(elapsed_s) else None

    def _remove_leftover(self) -> None:
        """What a helper that was stopped had begun to write: the file with its verdict."""
        folder, name = os.path.split(self._output)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(f".{name}.tmp-"):
                    os.unlink(entry.path)

    def _start(self) -> None:
        theirs_in, self._orders = os.pipe()
        self._words, theirs_out = os.pipe()
        try:
            self.pid = finalizing.spawn(
                finalizing.command(_CODE),
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
        finalizing.yields(self.pid)
        goes_first(self.pid)

    def _ask(self) -> None:
        self._asked += 1
        self._order("tell")

    def _order(self, what: str) -> None:
        with suppress(OSError):
            os.write(self._orders, json.dumps([what, self._output]).encode() + b"\n")

    def _listen(self) -> None:
        """Take in what it said so far, without waiting; one that told of a long run ends."""
        self._take_in(0.0)
        is_enough = self._answer is not None and not self._asked and self._asked_at_s >= WAITING_S
        if is_enough and (pid := self._let_go()) is not None:
            finalizing.stop(pid)

    def _take_in(self, timeout_s: float) -> None:
        for word in self._heard(timeout_s):
            if "answer" in word:
                self._asked -= 1
                self._answer = Answer(word["answer"], word["as_of_s"] or 0.0)
            self._is_ready = True

    def _heard(self, timeout_s: float) -> list[dict[str, Any]]:
        """Whole lines that came; a helper that closed its end is gone."""
        if self._words < 0 or not select.select([self._words], [], [], timeout_s)[0]:
            return []
        part = os.read(self._words, _MOST_BYTES)
        if not part:
            self.stop()
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
        self._said, self._is_ready, self._asked = b"", False, 0
        return pid
