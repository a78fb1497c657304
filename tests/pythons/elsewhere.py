"""Runs a command of leakscope as on macOS or Windows: without /proc, and without the calls that are not there.

What asks for the platform itself (the standard library, numpy, pyarrow) has been loaded before.
"""

from __future__ import annotations

import concurrent.futures.process  # noqa: F401
import ctypes.util  # noqa: F401
import http.server  # noqa: F401
import multiprocessing.connection
import os
import signal
import sys
import webbrowser  # noqa: F401
from importlib.machinery import ModuleSpec
from typing import Any

import click  # noqa: F401
import jinja2  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import rich.console  # noqa: F401
import textual.app  # noqa: F401

LINUX_ALONE = {
    os: (
        "pidfd_open", "memfd_create", "sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate",
        "getxattr", "setxattr", "eventfd", "splice", "copy_file_range", "pipe2",
    ),
    signal: ("sigwaitinfo", "sigtimedwait", "pidfd_send_signal", "SIGRTMIN", "SIGRTMAX", "SIGPWR"),
}  # fmt: skip
# Not what the standard library itself asks for by another name there.
WINDOWS_LACKS = {
    os: (
        "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_PATH", "O_SYNC", "geteuid", "getuid",
        "getgid", "getegid", "getpgid", "killpg", "fork", "fchmod", "fchown", "chown", "sysconf", "openpty", "statvfs",
        "fstatvfs", "mkfifo", "uname", "wait", "wait4", "waitid", "WNOHANG", "getloadavg", "pread", "pwrite", "readv",
        "writev", "sendfile", "nice", "getpriority", "setpriority", "fdatasync", "setsid", "posix_spawn", "lockf",
    ),
    signal: (
        "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGSTOP", "SIGQUIT",
        "SIGPIPE", "SIGBUS", "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGSYS", "SIGTRAP", "SIGPROF", "SIGVTALRM",
        "pthread_sigmask", "pthread_kill", "setitimer", "alarm", "sigpending", "sigwait", "siginterrupt",
    ),
}  # fmt: skip
WINDOWS_LACKS_MODULES = ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "syslog")


class NotThere:
    """Finds no module that Windows has not."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in WINDOWS_LACKS_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def forbid(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if path.startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)


if __name__ == "__main__":
    assert multiprocessing.get_start_method()
    sys.platform = sys.argv.pop(1)
    is_windows = sys.platform == "win32"
    for lacking in (LINUX_ALONE, WINDOWS_LACKS) if is_windows else (LINUX_ALONE,):
        for module, names in lacking.items():
            for name in names:
                if hasattr(module, name):
                    delattr(module, name)
    if is_windows:
        sys.meta_path.insert(0, NotThere())  # type: ignore[arg-type]
        for name in WINDOWS_LACKS_MODULES:
            sys.modules.pop(name, None)
    sys.addaudithook(forbid)
    if sys.argv[1] == "record":
        from leakscope.recorder import main as record

        sys.exit(record(sys.argv[2:]))
    if sys.argv[1] == "page":  # what `view` serves
        from pathlib import Path

        from leakscope.ignoring import Ignores
        from leakscope.viewing import Site

        site = Site(Path(sys.argv[2]), Ignores())
        site._making.join()
        sys.exit(0 if b"WordCounts.seen" in site.page()[1] else "no page")
    from leakscope.cli import main

    sys.exit(main(sys.argv[1:]))
