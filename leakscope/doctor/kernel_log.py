"""Whether this user may read what the kernel wrote about a kill: who died, by which limit, who held what."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator

from ..recorder import proc
from ._check import Check, answer_of, limited, missing, ok

TITLE = "What the kernel says about a kill"
_JOURNALS = ("/var/log/journal", "/run/log/journal")
_JOURNALCTL = ("journalctl", "--dmesg", "--lines=20", "--output=json", "--no-pager")


def checks(root: str) -> Iterator[Check]:
    kmsg = _kmsg(root)
    journal = _journal(root)
    readable = [check.name for check in (kmsg, journal) if check.state == "ok"]
    yield kmsg
    # Either is enough: a gap that the other fills needs no remedy.
    yield journal._replace(remedy=None) if readable and journal.state != "ok" else journal
    yield _table(root)


def _kmsg(root: str) -> Check:
    name, path = "/dev/kmsg", f"{root}/dev/kmsg"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _unreadable_kmsg(root, name, error)
    try:
        os.read(descriptor, 8192)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EPIPE):  # empty; the record was overwritten while it was read
            return _unreadable_kmsg(root, name, error)
    finally:
        os.close(descriptor)
    return ok(name, "the kernel's log is readable: a kill is proven, with its victim, its limit and who held what")


def _unreadable_kmsg(root: str, name: str, error: OSError) -> Check:
    if isinstance(error, FileNotFoundError):
        remedy = "on the host, or in a container with --device /dev/kmsg and CAP_SYSLOG, it can be read"
        return missing(name, "there is none, as in most containers", remedy)
    why = f"not readable: {error.strerror}"
    if proc.read_text(f"{root}/proc/sys/kernel/dmesg_restrict") == "1":
        why += " (kernel.dmesg_restrict is 1: for root and CAP_SYSLOG only)"
    return missing(name, why, "record as root, or after a kill: sudo dmesg > FILE, then leakscope oom FILE")


def _journal(root: str) -> Check:
    """By what it shows: without permission journalctl ends with 0 and a hint, or with nothing."""
    name = "journalctl -k"
    answer = answer_of(_JOURNALCTL)
    if answer is None:
        return missing(name, "there is no systemd journal here")
    lines, complaint = answer
    if any(_is_kernels(line) for line in lines.splitlines()):
        return ok(name, "the journal shows kernel messages, also of past boots where it is kept on disk")
    if not any(_is_kept(root + folder) for folder in _JOURNALS):
        return missing(name, "journalctl is here, but no journal is kept")
    said = next(iter(complaint.strip().splitlines()), "no entries")
    remedy = "join the group systemd-journal or adm: sudo usermod -aG systemd-journal $USER, then log in again"
    return missing(name, f"it runs but shows no kernel message: {said}", remedy if os.geteuid() else None)


def _is_kept(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except PermissionError:
        return True
    except OSError:
        return False


def _is_kernels(line: str) -> bool:
    try:
        return bool(json.loads(line).get("_TRANSPORT") == "kernel")
    except (ValueError, AttributeError):
        return False


def _table(root: str) -> Check:
    """Whether a report lists the processes there were: without it nobody knows who really was the hog."""
    name = "table of processes"
    asked = proc.read_text(f"{root}/proc/sys/vm/oom_dump_tasks")
    if asked is None:
        return limited(name, "vm.oom_dump_tasks cannot be read here: a report may lack the table")
    if asked == "0":
        return limited(name, "vm.oom_dump_tasks is 0: reports name the victim only", "sudo sysctl vm.oom_dump_tasks=1")
    return ok(name, "reports list every process and what it held (vm.oom_dump_tasks)")
