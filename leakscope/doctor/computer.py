"""Where recordings are written, and by which clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from ..recorder import proc
from ..units import MiB, format_bytes, format_duration
from ._check import Check, limited, missing, ok

TITLE = "Here"
_IN_MEMORY = ("tmpfs", "ramfs")
_ASLEEP_S = 1.0  # the two clocks are not read at the same instant


def checks(root: str) -> Iterator[Check]:
    yield _folder(root, os.getcwd())
    yield _clock()


def _folder(root: str, folder: str, *, least_bytes: int = 500 * MiB) -> Check:
    """``least_bytes``: a week of 20 processes at one sample a second."""
    name = "recordings"
    if not os.access(folder, os.W_OK):
        return missing(name, f"{folder} cannot be written", "record -o /a/folder/run.parquet")
    figures = os.statvfs(folder)
    free = figures.f_bavail * figures.f_frsize
    kind = _file_system(root, folder)
    text = f"{folder} has {format_bytes(free)} free"
    if kind in _IN_MEMORY:
        return limited(name, f"{text}, but is in memory ({kind}): it counts as used", "record -o on a disk")
    if free < least_bytes:
        return limited(name, f"{text}: recording stops for as long as it is full", "record -o where there is more")
    return ok(name, f"{text} ({kind or 'unknown file system'}); a day of 20 processes takes some 60 MiB")


def _file_system(root: str, folder: str) -> str | None:
    """Type of the mount a folder is in: the longest mount point above it, the last of several on one."""
    best, kind = "", None
    for line in (proc.read_text(f"{root}/proc/mounts") or "").splitlines():
        fields = line.split()
        point = fields[1].encode().decode("unicode_escape").rstrip("/")  # a space is written as \040
        if (folder + "/").startswith(point + "/") and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _clock() -> Check:
    asleep_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    if asleep_s < _ASLEEP_S:
        return ok("clock", "not suspended since the start: times in the kernel's log are exact")
    text = f"suspended for {format_duration(asleep_s)} since the start: times that dmesg -T prints are wrong by that"
    return limited("clock", text, "none needed: recordings keep the kernel's own clock")
