"""Turns the journal into ``run.parquet``, in a process of its own: pyarrow is never in the recorder.

The helper is a process group of its own, so that ^C ends the waiting for it (here) and not the helper in mid-write.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

from .. import signals
from ..agent.journal import flag
from ..errors import LeakscopeError
from ..isolation import installed, interpreter
from .helpers import Room, goes_first, too_full
from .launch import HANDLED

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# No site (15 ms), and nothing of the user's is on the path. What pyarrow would import if it is there, and is not
# needed: numpy (115 ms and 11 MB), clients of cloud stores (with ssl) and cloudpickle (a fifteenth of the instructions
# that are left). Nothing is taken apart at the end (20 ms): by then the file is on disk, and what is said in the log.
_UNNEEDED = ("numpy", "cloudpickle", "pyarrow._s3fs", "pyarrow._gcsfs", "pyarrow._azurefs", "pyarrow._hdfs")
# It also asks ssl (a tenth of the rest) where certificates are, for stores that no helper here opens.
NO_CERTIFICATES = """
import sys
class ssl:
    cafile = capath = None
    get_default_verify_paths = lambda: ssl
sys.modules["ssl"] = ssl
"""
_PATH = "import gc, os, sys; gc.disable(); sys.path += sys.argv.pop(1).split(os.pathsep)\n"
_CODE = (
    f"{NO_CERTIFICATES}sys.modules.update(dict.fromkeys({_UNNEEDED})); "
    "from leakscope.storage.__main__ import main; gc.freeze(); gc.enable(); os._exit(main(sys.argv[1:]))"
)
# Parts of pyarrow take memory from its default pool, whichever is set later: mimalloc's keeps 10 MB more.
ENVIRON = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
_NICE = 19
# Of its own memory, seen: 19 MiB for a minute, 60 MiB for a day of 20 processes.
_ROOM_BYTES, _ROOM_IF_SHORT_BYTES, _SHORT_BYTES = 80 << 20, 32 << 20, 1 << 20
_FEW_BYTES = 32 << 10  # of journal: of more pyarrow makes a much smaller file
_NEW = os.O_CREAT | os.O_EXCL | flag("O_NOFOLLOW")


def is_possible() -> bool:
    """Whether this interpreter has what it takes."""
    return has("pyarrow")


def has(module: str) -> bool:
    """Whether this interpreter could import it: nothing is imported. ``module`` may be one of a package's."""
    from importlib import util  # 3 ms that the start of the job need not wait for
    from importlib.machinery import PathFinder

    name, *below = module.split(".")
    try:
        spec = util.find_spec(name)
        for part in below:
            if spec is None or spec.submodule_search_locations is None:
                return False
            name = f"{name}.{part}"
            spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return False
    return spec is not None


def ask(code: str, text: str) -> str:
    """What a helper says of ``text``, which it reads: it may be a secret. Empty: nothing. **Errors** OSError."""
    said = os.memfd_create("leakscope-asked", os.MFD_CLOEXEC)
    theirs, ours = os.pipe()
    try:
        pid = spawn(
            command(code),
            [
                (os.POSIX_SPAWN_DUP2, theirs, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, said, 2),
            ],
        )
        with suppress(BrokenPipeError):
            os.write(ours, text.encode())
        os.close(ours)
        ours = -1
        os.waitpid(pid, 0)
        return os.pread(said, 1 << 16, 0).decode("utf-8", "replace").strip()
    finally:
        for descriptor in (said, theirs, ours):
            if descriptor >= 0:
                os.close(descriptor)


def can_answer() -> bool:
    """Whether this installation can also read a recording: leakscope-record cannot."""
    return is_possible() and os.path.isdir(os.path.join(_ROOT, "leakscope", "answering"))


def full_limit(journal_bytes: int) -> Room | None:
    """The limit under which memory has no room for it, if there is one."""
    return too_full(_ROOM_BYTES if journal_bytes > _SHORT_BYTES else _ROOM_IF_SHORT_BYTES)


def at_once(output: str, journal_bytes: int, keep_journal: bool) -> bool:
    """Finish a short recording here, sooner than a helper has loaded pyarrow; False: that takes one."""
    if journal_bytes > _FEW_BYTES:
        return False
    from ..storage.finalize import finalize

    try:
        finalize(output, keep_journal, few_rows=True)
    except LeakscopeError:
        return False  # a helper does what it can, and says what is the matter
    return True


def start(output: str, *options: str, log: str = os.devnull) -> int:
    """Begin ``leakscope finalize``; returns the pid. ``log`` gets what it says. **Errors** OSError."""
    pid = spawn(
        command(_CODE, *options, "--", output),
        [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | (_NEW if log != os.devnull else 0), 0o600),
        ],
    )
    if "--checkpoint" in options:  # at the end somebody waits for it
        yields(pid)
    goes_first(pid)
    return pid


def command(code: str, *arguments: str) -> list[str]:
    """An interpreter of ours that runs ``code``, which finds what is installed here."""
    return [*interpreter("-S"), "-c", _PATH + code, os.pathsep.join(installed()), *arguments]


def spawn(words: list[str], file_actions: list[tuple[Any, ...]]) -> int:
    """A helper in a process group of its own; returns the pid. **Errors** OSError."""
    return os.posix_spawn(
        words[0],
        words,
        {**os.environ, **ENVIRON},
        file_actions=file_actions,
        setpgroup=0,
        setsigmask=(),
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def hurries(pid: int, behind: int = 0) -> None:
    """Somebody waits for it now, or soon: then ``behind`` us. Only root may take back that it yields."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, min(_NICE, os.getpriority(os.PRIO_PROCESS, 0) + behind))


def yields(pid: int) -> None:
    """The job goes first: it gets what is left."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)


def wait(pid: int) -> int | None:
    """Wait status of the helper; None if a signal ended the waiting: the helper is stopped then, the journal stays."""
    while True:
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:  # orphans of the job may end meanwhile
                if reaped[0] == pid:
                    return reaped[1]
        if not _is_alive(pid):
            return None
        info = signal.sigwaitinfo(HANDLED)
        if info.si_signo in signals.ENDING:
            stop(pid)
            return None


def stop(pid: int) -> None:
    """End the helper; what it had written is discarded by the next one."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
