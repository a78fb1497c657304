"""A recording that goes to a bucket: made on this machine first, and copied there by a helper. Runs in the recorder.

``-o s3://bucket/run.parquet`` records into a folder of its own below the spool, with a note of where the file is to go.
The helper (``leakscope.uploading``) brings the file up to date and copies it: now and then, and at the end, when it
takes the folder away again. What a recorder that was killed leaves there is uploaded by the next one's helper, or by
``leakscope upload``. An address may hold a password: it is told to the helper, and written nowhere.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from .. import signals
from ..addresses import name_of, without_credentials
from ..agent.journal import create
from ..errors import BadInput
from ..options import RecordOptions
from ..private import make_folder, make_private, remove_folder
from ..units import GiB, MiB, format_bytes
from . import finalizing, naming
from .companion import Companion, Look, Word
from .helpers import Room, goes_first, too_full
from .launch import HANDLED

ORDER = "upload.json"  # in the recording's folder: where it is to go
FIRST_S = 60.0
FIRST_WITH_OTHERS_S = 5.0  # where recordings of others wait: they go with the first upload
NEXT = 0.5  # of the recording's age, until the next upload: all of them are three times the last one
MOST_S = 3600.0
# Of its own memory, seen: 70 MiB with s3fs; more where the file is large.
ROOM_BYTES, ROOM_OF_MACHINE_BYTES = 128 * MiB, GiB
_CODE = "from leakscope.uploading.__main__ import main; os._exit(main())"
_MOST_SAID_BYTES = 65536


def default_spool(environ: Mapping[str, str] = os.environ) -> str | None:
    """The folder below which recordings wait for their upload: ``LEAKSCOPE_SPOOL``, or a private one that outlives a
    restart of the machine. None: there is no such place.
    """
    if chosen := environ.get("LEAKSCOPE_SPOOL"):
        return os.path.abspath(chosen)
    for above in ("/var/tmp", environ.get("TMPDIR"), "/tmp"):
        if above and os.path.isabs(above):
            base = os.path.join(os.path.realpath(above), f"leakscope-spool-{os.geteuid()}")
            with suppress(OSError):
                if make_private(base):
                    return base
    return None


def upload_of(options: RecordOptions, url: str) -> Upload:
    """The upload that the options ask for. **Errors** BadInput."""
    spool = options.spool or default_spool()
    if spool is None:
        raise BadInput(
            f"--output {without_credentials(url)}: there is no place to record meanwhile: name one by --spool"
        )
    return Upload(url, os.path.abspath(spool), every_s=options.upload_every_s, force=options.force)


class Upload(Companion):
    """Where one recording goes, and the helper that is at work, if one is."""

    left_out = "the recording is not uploaded while the job runs"

    def __init__(self, url: str, spool: str, *, every_s: float | None, force: bool) -> None:
        """Make its folder. ``every_s`` None: the older the recording, the rarer. **Errors** BadInput."""
        super().__init__()
        self._is_told = False  # that it failed
        self.url = url
        self.shown = without_credentials(url)
        self.pid: int | None = None
        self._every_s, self._force = every_s, force
        self._next_s = FIRST_S if every_s is None else every_s
        self._others_wait = self._is_with_others = False
        with suppress(OSError):
            if os.listdir(spool):
                self._others_wait = True
                self._next_s = min(self._next_s, FIRST_WITH_OTHERS_S)
        self._said = -1
        self._spool = spool
        name = name_of(url)
        if not name:
            raise BadInput(f"--output {self.shown}: the URL names no file: end it with a name such as run.parquet")
        stamp = f"{naming.stamp(time.time())}-{os.getpid()}-{os.urandom(4).hex()}"
        self._folder = os.path.join(spool, stamp)
        try:
            os.makedirs(spool, 0o700, exist_ok=True)
            make_folder(self._folder)
            with os.fdopen(create(os.path.join(self._folder, ORDER)), "w") as stream:
                json.dump({"url": self.shown, "has_credentials": self.shown != url, "file": name}, stream)
        except OSError as error:
            raise BadInput(f"cannot record below {spool}: {error.strerror}: choose another --spool") from None
        self.path = os.path.join(self._folder, name)

    def remove(self) -> None:
        """Nothing was recorded."""
        remove_folder(self._folder)

    @property
    def pids(self) -> Mapping[int, str]:
        return {} if self.pid is None else {self.pid: "uploads the recording"}

    def go_on(self, look: Look) -> Iterator[Word | Room]:
        """Start the helper where it is time for that; what leaves no room for it."""
        if self.pid is not None or look.is_last or look.elapsed_s < self._next_s or not finalizing.is_possible():
            return
        after_s = min(MOST_S, NEXT * look.elapsed_s) if self._every_s is None else self._every_s
        self._next_s = look.elapsed_s + after_s
        if (full := too_full(ROOM_BYTES, ROOM_OF_MACHINE_BYTES)) is not None:
            yield full
        else:
            self._start(is_over=False)

    def ended(self, pid: int, status: int) -> Word | None:
        """The first failure is told to the user, too: there may be time to mend it before the job ends."""
        reason = self.note_exit(pid, status)
        if reason is None:
            return None
        shown = "" if self._is_told else f"not uploaded yet: {reason}"
        self._is_told = True
        return Word(reason, "not-uploaded", None, shown)

    def _start(self, *, is_over: bool) -> None:
        """At the end (``is_over``) the helper goes on also when nobody waits for it any more."""
        # What others left here is uploaded when nobody waits: with one of our own, or when all is done.
        self._is_with_others = self._others_wait and not is_over
        spool = self._spool if self._is_with_others else None
        self._order({"path": self.path, "url": self.url, "force": self._force, "is_over": is_over, "spool": spool})
        if self.pid is not None and not is_over:
            finalizing.yields(self.pid)

    def note_exit(self, pid: int, status: int) -> str | None:
        """A child of the recorder was reaped; the reason, if it was the helper and it failed."""
        if pid != self.pid:
            return None
        self.pid = None
        said = self._words()
        if status == 0:
            self._others_wait = self._others_wait and not self._is_with_others
            return None
        return said or f"the helper ended with status {os.waitstatus_to_exitcode(status)}"

    def upload(self, seconds: float) -> tuple[bool, str]:
        """The last upload: whether it is done, and if not, why; empty where the time is over and it goes on.

        A signal to end cuts the waiting short.
        """
        self.stop()
        if not finalizing.is_possible():
            return False, "pyarrow is not installed here, which an upload needs"
        full = too_full(ROOM_BYTES)
        if full is not None:
            return False, f"too little memory is left for that ({format_bytes(max(0, full.left_bytes))}, {full.name})"
        self._start(is_over=True)
        until_s = time.monotonic() + seconds
        while self.pid is not None:
            with suppress(ChildProcessError):
                while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                    if reaped[0] == self.pid:
                        reason = self.note_exit(*reaped)
                        if reason is None and self._others_wait:
                            self._order({"path": None, "spool": self._spool})  # by itself: nobody waits for it
                        return reason is None, reason or ""
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False, ""
            info = signal.sigtimedwait(HANDLED, min(left_s, 0.5))
            if info is not None and info.si_signo in signals.ENDING:
                return False, ""
        return False, "no process could be started"

    def stop(self) -> None:
        """End a helper that is at work: the last one begins anew."""
        if self.pid is not None:
            finalizing.stop(self.pid)
            self.pid = None
            self._words()

    def _order(self, order: dict[str, Any]) -> None:
        theirs, ours = os.pipe()
        try:
            self._said = os.memfd_create("leakscope-upload", os.MFD_CLOEXEC)
            self.pid = finalizing.spawn(
                finalizing.command(_CODE),
                [
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._said, 2),
                ],
            )
            with suppress(BrokenPipeError):
                os.write(ours, json.dumps(order).encode())
            goes_first(self.pid)
        except OSError:
            self.pid = None
        finally:
            os.close(theirs)
            os.close(ours)

    def _words(self) -> str:
        """The last line of what the helper said."""
        if self._said < 0:
            return ""
        data = os.pread(self._said, _MOST_SAID_BYTES, 0).decode("utf-8", "replace")
        os.close(self._said)
        self._said = -1
        return data.strip().rpartition("\n")[2].replace("leakscope: ", "", 1)
