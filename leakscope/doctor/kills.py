"""Proofs of a kill that need no log: counters, pressure, the exit status of processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from ..recorder import proc
from ..recorder.exits import Exits
from ..recorder.sources import cgroup_memory
from ._check import Check, limited, missing, ok

TITLE = "That something was killed, without a log"


def checks(root: str) -> Iterator[Check]:
    yield _host_counter(root)
    yield _cgroup_counter()
    yield _pressure(root)
    yield _exit_status()
    yield _panic(root)


def _host_counter(root: str) -> Check:
    name = "kills on the host"
    count = proc.count_of(proc.read(f"{root}/proc/vmstat"), b"oom_kill")
    if count is None:
        return missing(name, "/proc/vmstat has no oom_kill (Linux 4.13 and later have it)")
    return ok(name, f"/proc/vmstat counts them, {count} since the start: unchanged, it proves there was none")


def _cgroup_counter() -> Check:
    name = "kills in the cgroup"
    mount, path = cgroup_memory.find_mount(), proc.cgroup("self")
    if mount is None or path is None:
        return missing(name, "no cgroup counts memory here")
    for cgroup in cgroup_memory.chain(path, mount.top):
        folder = cgroup_memory.folder_of(cgroup, mount)
        for file in ("memory.events", "memory.oom_control"):
            if (count := proc.count_of(proc.read(f"{folder}/{file}"), b"oom_kill")) is not None:
                return ok(name, f"{file} of {cgroup} counts them, {count} so far: a kill among them is certain")
    remedy = "run it in one of its own: systemd-run --user --scope leakscope record ..." if mount.is_v2 else None
    return missing(name, "the cgroup of this shell has no counter", remedy)


def _pressure(root: str) -> Check:
    name = "memory pressure"
    if proc.pressure(f"{root}/proc/pressure/memory")[0] is not None:
        return ok(name, "/proc/pressure/memory says how long processes waited for memory")
    return missing(name, "/proc/pressure/memory is not readable", "a kernel started with psi=1 has it (Linux 4.20+)")


def _exit_status() -> Check:
    """Whether the end of a process is known that is not the recorder's own child: workers die first."""
    name = "ends of workers"
    if _pidfd_tells():
        return ok(name, "the kernel says how any process ended (pidfd): also workers their parent waits for")
    return limited(
        name,
        "only the ends of the command itself and of orphans are known; of workers, that they ended",
        "Linux 6.15 and later say how every process ended",
    )


def _pidfd_tells() -> bool:
    """By a child that has been waited for already."""
    exits = Exits()
    with subprocess.Popen(["/bin/sh", "-c", "exit 7"]) as child:
        exits.watch(child.pid)
    return exits.status(child.pid) == (7, None)


def _panic(root: str) -> Check:
    name = "after an OOM"
    panics = proc.read_text(f"{root}/proc/sys/vm/panic_on_oom")
    if panics is None:
        return limited(name, "vm.panic_on_oom cannot be read here: the machine may stop instead of killing a process")
    if panics == "0":
        return ok(name, "the kernel kills a process and goes on (vm.panic_on_oom is 0)")
    text = "vm.panic_on_oom is set: the machine stops, and what the recorder wrote by then is all there is"
    return limited(name, text, "sudo sysctl vm.panic_on_oom=0")
