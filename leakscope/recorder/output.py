"""The recording's place on disk: ``run.parquet``, valid from the first instant, and ``run.parquet.journal/`` beside it.

Runs in the recorder. The journal folder is made complete under another name, its lock held, and appears by one rename:
two recorders that start at once never share a name, and an earlier recording is moved aside, not overwritten.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..agent.journal import REQUEST_TAKE, Journal, create, open_regular
from ..agent.masking import Masker, new_salt
from ..errors import BadInput, LeakscopeError
from ..locks import lock
from ..private import make_folder, remove_folder
from . import naming, previous_crash, proc, staging
from .large_requests import LargeRequests
from .naming import shown
from .staging import Staged

JOURNAL_SUFFIX = ".journal"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ATTEMPTS = 20


class Output:
    """The files of one recording. ``notes`` are lines the user should see."""

    def __init__(self, path: str, meta: Mapping[str, Any], masker: Masker) -> None:
        self.path = path
        self.journal_path = path + JOURNAL_SUFFIX
        self.notes: list[str] = []
        self.journal = Journal(self.journal_path, "recorder", masker)
        self.staged: Staged | None = None  # the agent
        self._meta = masker.meta(meta)
        self._lock = -1
        self.large_requests: LargeRequests | None = None

    @classmethod
    def claim(
        cls,
        path: str,
        *,
        force: bool,
        meta: Mapping[str, Any],
        agent_config: Mapping[str, Any] | None,
        sources: bool = True,
    ) -> Output:
        """Make the files; ``agent_config`` None leaves the agent out, ``sources`` False all texts of the program.

        **Errors** BadInput, LeakscopeError.
        """
        _check(path, force)
        notes: list[str] = []
        salt = new_salt()
        try:
            for _ in range(_ATTEMPTS):
                if by := _in_use_by(path + JOURNAL_SUFFIX):
                    other = naming.add_to_name(path, str(os.getpid()))
                    notes.append(f"{shown(path)} is in use by {by}: this one is {shown(other)}")
                    path = other
                if agent_config is not None:
                    notes += previous_crash.warnings(path, path + JOURNAL_SUFFIX, meta["command"])
                notes += _make_way(path, force)
                output = cls(path, meta, Masker(salt, sources))
                if output._publish():
                    output._write_empty()
                    output.notes = notes
                    if agent_config is not None:
                        output._stage({**agent_config, "salt": salt})
                    return output
        except OSError as error:
            raise LeakscopeError(f"cannot record to {shown(path)}: {error.strerror or error}") from None
        raise LeakscopeError(f"cannot record to {shown(path)}: other recorders keep taking that name")

    def _stage(self, agent_config: Mapping[str, Any]) -> None:
        try:
            self.large_requests = LargeRequests()
            agent_config = {**agent_config, "requests_file": self.large_requests.file}
            self.staged = staging.stage(self.journal_path, agent_config)
        except OSError as error:
            self.notes.append(f"no view inside the job, there is no safe place for the agent: {error.strerror}")

    def _publish(self) -> bool:
        """Make the journal folder appear, whole; False if another one is there by now."""
        folder = _hidden(self.journal_path)
        make_folder(folder)
        try:
            self._fill(folder)
            os.rename(folder, self.journal_path)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:  # the name was taken meanwhile
                return False
            raise
        finally:
            remove_folder(folder)

    def _fill(self, folder: str) -> None:
        self.release()
        self._lock = create(os.path.join(folder, "lock"), os.O_RDWR)
        lock(self._lock)
        self._write_meta(os.path.join(folder, "meta.json"))

    def _write_meta(self, path: str) -> None:
        with os.fdopen(create(path), "w", encoding="utf-8") as stream:
            json.dump(self._meta, stream)

    def say_crashed_in_agent(self) -> None:
        """Let the next recording of this command know. **Errors** OSError."""
        self._meta = {**self._meta, previous_crash.CRASHED_IN_AGENT: self._meta["command"]}
        path = os.path.join(self.journal_path, "meta.json")
        self._write_meta(path + ".tmp")
        os.rename(path + ".tmp", path)

    def _write_empty(self) -> None:
        """The pre-built empty recording, so that every reader of parquet finds a valid file from now on."""
        with open(os.path.join(_PACKAGE, "storage", "empty.parquet"), "rb") as stream:
            empty = stream.read()
        temporary = _hidden(self.path)
        try:
            with os.fdopen(create(temporary), "wb") as stream:
                stream.write(empty)
            os.rename(temporary, self.path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def check_journal(self) -> None:
        """Bring back a journal folder that vanished, for the rows to come.

        **Errors** OSError if it had vanished, since what was in it is lost, and if it cannot be brought back.
        """
        if not os.path.isdir(self.journal_path):
            self.journal.abandon()
            make_folder(self.journal_path)
            self._fill(self.journal_path)
            raise FileNotFoundError(errno.ENOENT, "the journal folder had vanished")

    def request_take(self, reason: str) -> None:
        """Ask the agents for a snapshot now; they watch for this file. **Errors** OSError."""
        request(os.path.join(self.journal_path, REQUEST_TAKE), reason)

    def written_bytes(self) -> int:
        """Bytes of all journal files, the agents' too."""
        with suppress(OSError), os.scandir(self.journal_path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".jnl"))
        return 0

    def release(self) -> None:
        """Give up the lock: the recording is no longer live."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove_agent(self) -> None:
        """What the job starts from now on is not looked into."""
        if self.staged is not None:
            self.staged.remove()
            self.staged = None
        if self.large_requests is not None:
            self.large_requests.close()
            self.large_requests = None

    def remove(self) -> None:
        """Take everything back: the command could not be started."""
        self.release()
        self.remove_agent()
        remove_folder(self.journal_path)
        with suppress(OSError):
            os.unlink(self.path)


def request(path: str, reason: str) -> None:
    """Write a request for a snapshot, which agents know by its modification time. **Errors** OSError."""
    temporary = _hidden(path)
    with os.fdopen(create(temporary), "w", encoding="utf-8") as stream:
        stream.write(reason)
    os.rename(temporary, path)


def _check(path: str, force: bool) -> None:
    """**Errors** BadInput for a place that cannot hold a recording, before anything is touched."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise BadInput(f"cannot record to {shown(path)}: there is no folder {shown(folder)}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"cannot record to {shown(path)}: the folder {shown(folder)} is not writable")
    if os.path.isdir(path):
        raise BadInput(f"cannot record to {shown(path)}: it is a folder; name a file in it")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise BadInput(f"cannot record to {shown(path)}: it is not a regular file")
    if force and os.path.isfile(path) and not _is_parquet_or_empty(path):
        raise BadInput(f"--force: {shown(path)} is not a recording and stays as it is; choose another name")


def _is_parquet_or_empty(path: str) -> bool:
    with open(path, "rb") as stream:
        return stream.read(4) in (b"PAR1", b"")


def _hidden(path: str) -> str:
    """A name beside it that nobody can have taken before."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp-{os.urandom(8).hex()}")


def _in_use_by(journal: str) -> str | None:
    """Who must not be disturbed: a recorder that lives, a job that writes on after it, or another user."""
    another = "another recording"
    with suppress(OSError):
        if os.geteuid() not in (0, os.lstat(journal).st_uid):
            return "another user"
    with suppress(OSError):
        descriptor = open_regular(os.path.join(journal, "lock"))
        try:
            if not lock(descriptor):
                return another
        finally:
            os.close(descriptor)
    with suppress(OSError):
        for name in os.listdir(journal):
            parts = name.split("-")
            if parts[0] == "agent" and len(parts) == 4 and parts[1].isdigit():
                stat = proc.stat(int(parts[1]))
                if stat is not None and not stat.is_dead and str(stat.start_ticks) == parts[2]:
                    return another
    return None


def _make_way(path: str, force: bool) -> list[str]:
    """Move an earlier recording and its journal aside by its start time, or delete them; returns lines for the user."""
    journal = path + JOURNAL_SUFFIX
    if not (os.path.lexists(path) or os.path.lexists(journal)):
        return []
    if force:
        remove_folder(journal)
        with suppress(FileNotFoundError):
            os.unlink(path)
        return []
    with_time = naming.add_to_name(path, naming.start_stamp(path, journal))
    target, number = with_time, 1
    while os.path.lexists(target) or os.path.lexists(target + JOURNAL_SUFFIX):
        number += 1
        target = naming.add_to_name(with_time, str(number))
    for old, new in ((journal, target + JOURNAL_SUFFIX), (path, target)):
        with suppress(FileNotFoundError):
            os.rename(old, new)
    return [f"the earlier {shown(path)} is now {shown(target)}"]
