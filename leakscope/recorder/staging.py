"""The agent's files for one run, where nobody but their user can put any. Runs in the recorder.

What the job starts finds ``boot`` on its PYTHONPATH, and what outlives the recording (a daemon, a terminal of tmux)
keeps it there: whoever could make that folder anew would have their sitecustomize.py run by the next Python. So a run's
folder has a name that nobody can guess, in a folder into which only the user can look or write, and which stays.
Python looks into a folder that is gone, or that it may not read, and says nothing. What a run's folder leads to is one
copy for all runs of the user, beside it.
"""

from __future__ import annotations

import json
import marshal
import mmap
import os
import re
import sys
import time
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from typing import Any

if sys.platform != "win32":
    import fcntl

from .. import private
from ..agent import config
from ..agent.journal import create, is_there, open_regular
from ..locks import lock
from ..private import make_folder, make_private, remove_folder
from . import proc

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RUN = "leakscope-run-"  # analyzers know our own frames by it
_AGENT = "leakscope-agent-"
_OWNER = "run.json"  # whose folder it is
_BOOT, _PLAIN_BOOT, _SITE = "boot", "boot-plain", "sitecustomize.py"  # plain: without entries of C
_ENTRY = "libleakscope_entry.so"
_MINOR_VERSIONS = range(8, 16)  # of Python 3, whose sitecustomize it can be; of others it is the file of Python
_UNUSED_S = 30 * 86400.0
_ABANDONED_S = 3600.0  # one that does not say whose it is: its recorder was killed while it made it


class Staged:
    """The agent of one run, ready to be started from ``boot`` or, in a process that runs already, by ``entrance``."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.boot = os.path.join(path, "boot")
        self._descriptor = descriptor  # locked for as long as the recorder lives

    def entrance(self, pid: int) -> str:
        """The name of a script for that process to run and remove: while both are there, the folder stays."""
        status = proc.stat(pid)
        return os.path.join(self.path, f"enter-{pid}-{status.start_ticks if status is not None else 0}.py")

    def remove(self) -> None:
        """The recording is over. What the job still starts is not looked into."""
        with suppress(OSError):
            if not _is_awaited(self.path):
                remove_folder(self.path)
        os.close(self._descriptor)


def stage(journal_path: str, agent_config: Mapping[str, Any]) -> Staged:
    """Copy the agent. **Errors** OSError with a reason for the user, where no folder will do."""
    sweep()
    reasons: list[str] = []
    for base in private.bases():
        if (staged := _staged(base, journal_path, agent_config, reasons)) is not None:
            return staged
    raise OSError(None, f"{'; '.join(dict.fromkeys(reasons))}: set XDG_CACHE_HOME to a folder of your own")


def sweep() -> None:
    """Remove what recorders that were killed left behind, unless their job may still start from there."""
    for base in private.bases():
        with suppress(OSError):
            if private.is_private(base):
                for name in os.listdir(base):
                    if name.startswith(_RUN):
                        _remove_if_left(os.path.join(base, name))
                _remove_unused(base)


def journal_of_agent(pid: int, start_ticks: int) -> str | None:
    """The journal folder to which the agent inside a process writes; None: there is no agent in it.

    Its run's folder stands in the environment that the process was started with, or, if it was entered later, among
    those of this user.
    """
    for folder in dict.fromkeys([*_started_from(pid), *_all_runs()]):
        with suppress(OSError, ValueError):
            journal = config.read(folder)["journal"]
            if isinstance(journal, str) and is_there(journal):
                writer = f"agent-{pid}-{start_ticks}-"
                if any(name.startswith(writer) for name in os.listdir(journal)):
                    return journal
    return None


def run_of(journal_path: str) -> str | None:
    """The folder of the run that writes to a journal; None: no agent was staged for it."""
    for folder in _all_runs():
        with suppress(OSError, ValueError):
            if config.read(folder)["journal"] == journal_path:
                return folder
    return None


def _started_from(pid: int) -> Iterator[str]:
    for variable in (proc.read(f"/proc/{pid}/environ") or b"").split(b"\0"):
        name, _, value = os.fsdecode(variable).partition("=")
        if name == "PYTHONPATH":
            yield from (os.path.dirname(part) for part in value.split(os.pathsep) if f"/{_RUN}" in part)


def _all_runs() -> Iterator[str]:
    for base in private.bases():
        with suppress(OSError):
            yield from (os.path.join(base, name) for name in os.listdir(base) if name.startswith(_RUN))


def _staged(base: str, journal_path: str, agent_config: Mapping[str, Any], reasons: list[str]) -> Staged | None:
    """None where it cannot be: one more of ``reasons``."""
    try:
        if make_private(base):
            return _stage(base, journal_path, agent_config)
        reasons.append(f"{base} can be changed by others")
    except OSError as error:
        reasons.append(f"{base}: {error.strerror}")
    return None


def _stage(base: str, journal_path: str, agent_config: Mapping[str, Any]) -> Staged:
    """The run's folder leads to the kept copy, so that what is written and removed anew each time is next to nothing.

    ``boot`` holds nothing but sitecustomize, so that nothing else there can be imported.
    """
    kept = _kept(base, os.path.join(_PACKAGE, "agent"))
    folder = os.path.join(base, _RUN + os.urandom(16).hex())
    make_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor)
        with os.fdopen(create(os.path.join(folder, _OWNER)), "w") as stream:
            owner = {"host": os.uname().nodename, "folder": os.path.dirname(journal_path)}
            json.dump({**owner, "journal": _number(journal_path)}, stream)
        for name in os.listdir(kept):
            if not name.startswith(_BOOT):
                os.symlink(os.path.join(kept, name), os.path.join(folder, name))
        boot = _BOOT if _may_run(os.path.join(kept, "agent", _ENTRY)) else _PLAIN_BOOT
        os.symlink(os.path.join(kept, boot), os.path.join(folder, _BOOT))
        config.write(folder, {**agent_config, "journal": journal_path})
    except BaseException:
        os.close(descriptor)
        remove_folder(folder)
        raise
    return Staged(folder, descriptor)


def _kept(base: str, agent: str) -> str:
    """A copy of the agent that all runs share, made by the first: writing and removing it took 30 ms of each.

    It stays as long as somebody runs leakscope now and then. Pythons of other versions keep there what they compiled.
    """
    listing = _listing(agent)
    kind = f"{MAGIC_NUMBER.hex()} {EXTENSION_SUFFIXES[0]} {sorted(listing.items())}"
    kept = os.path.join(base, f"{_AGENT}{crc32(kind.encode()):08x}")
    if os.path.isdir(kept):
        if _listing(os.path.join(kept, "agent")) == {file: of for file, of in listing.items() if file != _SITE}:
            os.utime(kept)
            return kept
        os.rename(kept, kept + os.urandom(8).hex())  # somebody cleaned up in it
    part = os.path.join(base, f"{_AGENT}{os.urandom(16).hex()}")
    try:
        _copy_agent(agent, sorted(listing), part)
        os.rename(part, kept)
    except OSError:
        remove_folder(part)
        if not os.path.isdir(kept):  # nor did another recorder make it meanwhile
            raise
    return kept


def _listing(agent: str) -> dict[str, tuple[int, int]]:
    """{file: (bytes, when it was written)} of what belongs to the agent, below its folder."""
    found, folders = {}, [""]
    for folder in folders:
        with os.scandir(os.path.join(agent, folder)) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".so")):
                    status = entry.stat()
                    found[folder + entry.name] = status.st_size, status.st_mtime_ns
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
    return found


def _copy_agent(agent: str, files: Sequence[str], target: str) -> None:
    for folder in ("", "agent", _BOOT, _PLAIN_BOOT):
        make_folder(os.path.join(target, folder))
    for file in files:
        if file == _SITE:
            for boot in (_BOOT, _PLAIN_BOOT):
                _copy(os.path.join(agent, file), os.path.join(target, boot, file))
            continue
        above = os.path.join(target, "agent", os.path.dirname(file))
        if not os.path.isdir(above):
            make_folder(above)
        _copy(os.path.join(agent, file), os.path.join(target, "agent", file))
    stage_entries(agent, os.path.join(target, _BOOT))
    write_code(agent, [file for file in files if file.endswith(".py") and file != _SITE], target)


def stage_entries(agent: str, boot: str) -> None:
    """Put the entry of C beside sitecustomize.py, by the name that each Python of this kind of machine looks for first.

    The name has machine and libc in it: no other can take it for its own.
    """
    entry = os.path.join(agent, _ENTRY)
    platform = re.fullmatch(r"\.cpython-3\d+[a-z]*-(.+)\.so", EXTENSION_SUFFIXES[0])
    if platform is None or not os.path.isfile(entry):
        return
    for minor in _MINOR_VERSIONS:
        _copy(entry, os.path.join(boot, f"sitecustomize.cpython-3{minor}-{platform[1]}.so"))


def write_code(agent: str, sources: Sequence[str], folder: str) -> None:
    """All code of the agent in one file, for interpreters of our own version: 60 ms less of each process.

    ``sources``: paths of its files from ``agent``. Others compile it, and keep that beside each source. What stands
    where is told first, by distances from the end: no process makes a copy of each.
    """
    index, bodies, from_end = {}, [], 0
    for file in sources:
        parts = file[: -len(".py")].split(os.sep)
        is_package = parts[-1] == "__init__"
        name = ".".join(["_leakscope_agent", *(parts[:-1] if is_package else parts)])
        compiled = SourceFileLoader(name, os.path.join(agent, file)).get_code(name)  # as it was compiled before
        bodies.append(marshal.dumps(compiled))
        from_end += len(bodies[-1])
        index[name] = file.replace(os.sep, "/"), is_package, from_end, len(bodies[-1])
    with os.fdopen(create(os.path.join(folder, f"code-{MAGIC_NUMBER.hex()}")), "wb") as stream:
        stream.write(marshal.dumps(index) + b"".join(reversed(bodies)))


def _may_run(file: str) -> bool:
    """Whether code in this file can be run: not where it is mounted noexec. Python would not fall back on another."""
    try:
        with open(file, "rb") as stream:
            mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE).close()
    except OSError:
        return False
    return True


def _copy(source: str, target: str) -> None:
    """With its modification time, by which a Python that has compiled it knows that it is still the same."""
    with open(source, "rb") as reader, os.fdopen(create(target), "wb") as writer:
        writer.write(reader.read())
        times = os.fstat(reader.fileno())
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _remove_if_left(folder: str) -> None:
    """**Errors** OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # its recorder lives, or unclear
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not (_is_used(folder) or _is_awaited(folder)):
                remove_folder(folder)
    finally:
        os.close(descriptor)


def _remove_unused(base: str) -> None:
    """Copies of the agent that nobody has used for long, and to which no run's folder leads. **Errors** OSError."""
    names = os.listdir(base)
    for name in names:
        kept = os.path.join(base, name)
        if name.startswith(_AGENT) and time.time() - os.lstat(kept).st_mtime > _UNUSED_S:
            agents = [os.path.join(base, run, "agent") for run in names if run.startswith(_RUN)]
            if not any(os.path.realpath(agent) == os.path.join(kept, "agent") for agent in agents):
                remove_folder(kept)


def _is_used(folder: str) -> bool:
    """Whether a job that outlived its recorder may start Pythons from here: its journal is still there, by any name."""
    try:
        with os.fdopen(open_regular(os.path.join(folder, _OWNER)), "rb") as stream:
            owner = json.loads(stream.read())
    except (OSError, ValueError):
        return time.time() - os.lstat(folder).st_mtime < _ABANDONED_S
    if owner["host"] != os.uname().nodename:
        return True  # a cache that several computers share
    with suppress(OSError), os.scandir(owner["folder"]) as entries:
        return any(_number(entry.path) == owner["journal"] for entry in entries if entry.name.endswith(".journal"))
    return False


def _is_awaited(folder: str) -> bool:
    """Whether a process that lives was asked to enter and has not: it would complain on its stderr."""
    for name in os.listdir(folder):
        parts = name.split(".")[0].split("-")
        if parts[0] == "enter" and len(parts) == 3:
            status = proc.stat(int(parts[1]))
            if status is not None and not status.is_dead and str(status.start_ticks) == parts[2]:
                return True
    return False


def _number(path: str) -> list[int]:
    """Which folder a name stands for."""
    status = os.lstat(path)
    return [status.st_dev, status.st_ino]
