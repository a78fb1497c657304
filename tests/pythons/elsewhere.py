"""Runs a command of leakscope as on a macOS: without /proc, and without the calls that only Linux has.

What asks for the platform itself (the standard library, numpy, pyarrow) has been loaded before.
"""

from __future__ import annotations

import concurrent.futures  # noqa: F401
import ctypes.util  # noqa: F401
import http.server  # noqa: F401
import multiprocessing
import os
import signal
import sys
import webbrowser  # noqa: F401
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


def forbid(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if path.startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)


if __name__ == "__main__":
    assert multiprocessing.get_start_method()
    for module, names in LINUX_ALONE.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = "darwin"
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
