"""What a companion of the recorder is: something with processes of its own beside the job. Runs in the recorder.

The answer, the upload, alerts, metrics, trackers, checkpoints: each is one file, which starts its processes, says how
each ended, and knows when they have to go. The sampler holds a list of them, and knows no more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .helpers import Room, goes_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .figures import Figures
    from .limits import Limits
    from .tree import Row, Tree

_POLL_S = 0.02
_MOST_SAID_BYTES = 16 * 1024


class Sample(NamedTuple):
    """What one round of the sampler saw."""

    tree: Tree
    figures: Figures
    limits: Limits
    processes: Sequence[Row]  # of process_samples
    host: Sequence[Row]  # of host_samples


class Look(NamedTuple):
    """One round, as a companion is told of it. ``is_last``: the recording ends with it."""

    elapsed_s: float
    journal_bytes: int = 0
    is_last: bool = False
    now_s: float = 0.0
    sample: Sample | None = None


class Word(NamedTuple):
    """Something that a companion has to say: lines of a process of its, or, with an ``event``, a row of the recording.

    ``shown``: what the user is told of that, if anything.
    """

    text: str
    event: str = ""
    value: float | None = None
    shown: str = ""


class Companion:
    """One purpose. ``left_out``: what the job's user does without where there is no room for a process.

    ``notes``: lines for the user at the beginning. ``needs_file``: it is not done before the file is.
    """

    left_out = ""
    needs_file = False

    def __init__(self) -> None:
        self.notes: list[str] = []

    @property
    def pids(self) -> Mapping[int, str]:
        """Its processes that live, and what each does: goes on from "leakscope's own process that"."""
        raise NotImplementedError

    def go_on(self, look: Look) -> Iterable[Word | Room]:
        """Start what it is time for; a room where that was not possible."""
        return ()

    def ended(self, pid: int, status: int) -> Word | None:
        """A child of the recorder was reaped; what there is to say of it, if it was one of these."""
        raise NotImplementedError

    def give_way(self) -> None:
        """Memory is the job's: what can be done later is."""

    def stop(self) -> None:
        """The recording ends: what the end does anew is stopped."""

    def close(self) -> None:
        """The recording is complete."""

    def finish(self) -> str:
        """Let its processes end, for a while. Returns what they said."""
        return ""


class Talkers(Companion):
    """A companion of processes that may have something to say, each into a file of ours without a name."""

    wait_s = 5.0  # for the last of them, when the job has ended

    def __init__(self) -> None:
        super().__init__()
        self._full: Room | None = None  # too little of it for one that should have been started
        self._living: dict[int, tuple[str, int | None]] = {}  # what it does, and where it says something

    def go_on(self, look: Look) -> Iterable[Word | Room]:
        return [self._full] if self._full is not None else []

    @property
    def pids(self) -> Mapping[int, str]:
        return {pid: what for pid, (what, _) in self._living.items()}

    def begun(self, pid: int, what: str, said: int | None) -> None:
        goes_first(pid)
        self._living[pid] = what, said

    def ended(self, pid: int, status: int) -> Word | None:
        _, said = self._living.pop(pid, ("", None))
        text = self.own_words(words(said)) if said is not None else ""
        return Word(text) if text else None

    def own_words(self, text: str) -> str:
        """Of what a process said, what is passed on."""
        return text

    def may_wait(self) -> bool:
        return True

    def finish(self) -> str:
        """Then those that are left go on by themselves."""
        text, until_s = "", time.monotonic() + self.wait_s
        while self._living and time.monotonic() < until_s and self.may_wait():
            for pid in list(self._living):
                status = 0
                with suppress(ChildProcessError):
                    reaped, status = os.waitpid(pid, os.WNOHANG)
                    if reaped == 0:
                        continue
                said = self.ended(pid, status)
                text += said.text if said is not None else ""
            if self._living:
                time.sleep(_POLL_S)
        return text


def nameless_file() -> int | None:
    """For what a process says; None on an old kernel, where nobody hears it."""
    with suppress(OSError, AttributeError):
        return os.memfd_create("leakscope-said", os.MFD_CLOEXEC)
    return None


def words(said: int) -> str:
    """The end of what a process has said until now; no more is heard."""
    try:
        size = os.fstat(said).st_size
        return os.pread(said, _MOST_SAID_BYTES, max(0, size - _MOST_SAID_BYTES)).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(said)


def streams(said: int | None, reading: int | None = None) -> list[tuple[Any, ...]]:
    """Of a process that says something there, or nothing, and reads from a pipe of ours, or nothing."""
    nothing = os.devnull
    return [
        (os.POSIX_SPAWN_OPEN, 0, nothing, os.O_RDONLY, 0) if reading is None else (os.POSIX_SPAWN_DUP2, reading, 0),
        (os.POSIX_SPAWN_OPEN, 1, nothing, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, nothing, os.O_WRONLY, 0) if said is None else (os.POSIX_SPAWN_DUP2, said, 2),
    ]
