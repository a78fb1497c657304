"""Folders that only their user can look into or write to, and that nobody else can put another in the place of.

What Python is told to import from lies in them, so each folder above is looked at too. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

_NAME = "leakscope"
_PRIVATE = 0o700


def bases() -> Iterator[str]:
    """Folders to try: the user's cache, which all computers of a cluster see, before what ends with a session."""
    environ, of_user = os.environ.get, f"{_NAME}-{os.geteuid()}"
    cache = environ("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    own = ((cache, _NAME), (environ("XDG_RUNTIME_DIR"), _NAME))
    for above, name in (*own, (environ("TMPDIR"), of_user), ("/tmp", of_user), ("/var/tmp", of_user)):
        # A colon could not stand in PYTHONPATH.
        if above and os.path.isabs(above) and os.pathsep not in (above := os.path.realpath(above)):
            yield os.path.join(above, name)


def make_private(base: str) -> bool:
    """Have this folder, as it must be. False if it cannot be trusted. **Errors** OSError."""
    above = os.path.dirname(base)
    if not os.path.lexists(above) and _stays_ours(os.path.dirname(above)):
        make_folder(above)
    if not _stays_ours(above):
        return False
    with suppress(FileExistsError):
        make_folder(base)
    return is_private(base)


def is_private(base: str) -> bool:
    """Whether only its user and root can look into it, write to it, or put another in its place."""
    status = os.lstat(base)
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return is_own and _stays_ours(os.path.dirname(base))


def make_folder(path: str) -> None:
    """For its user alone, whatever the umask."""
    os.mkdir(path, _PRIVATE)
    os.chmod(path, _PRIVATE)


def remove_folder(path: str) -> None:
    """Remove a folder if it is there."""
    if os.path.lexists(path):
        with suppress(OSError):
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            return os.rmdir(path)
        import shutil  # 3 ms and its compression modules: not for one that has no folders in it

        shutil.rmtree(path, ignore_errors=True)


def _stays_ours(folder: str) -> bool:
    """Whether nobody but the user and root can put something else in the place of what is theirs in it."""
    trusted = {0, os.geteuid(), os.stat("/").st_uid}  # in a user namespace, root outside has another number
    status = os.lstat(folder)
    is_open = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    if is_open or status.st_uid not in trusted or not stat.S_ISDIR(status.st_mode):
        return False
    return folder == "/" or _stays_ours(os.path.dirname(folder))
