"""Which processes can be looked into, and how deep."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from ..recorder import proc
from ..recorder.sources.gpu_memory import HOST_PID_NAMESPACE
from ._check import Check, limited, missing, ok

TITLE = "Processes"
_CAP_SYS_PTRACE = 19
_READINGS = {
    "smaps_rollup": "real and private memory (PSS, USS)",
    "smaps": "what it is made of",
    "environ": "its rank in a distributed job",
}


def checks(root: str) -> Iterator[Check]:
    yield _own_children()
    yield _others(root)
    yield _debuggers(root)
    yield _container(root)


def _own_children() -> Check:
    """By looking at one, once it runs: while the kernel still sets up a new program, nobody may look at its memory."""
    name = "the job's own"
    shell = ["/bin/sh", "-c", "echo; read line"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        if child.stdout is not None:
            child.stdout.readline()
        folder = f"/proc/{child.pid}"
        if not proc.read(f"{folder}/status"):
            return missing(name, "/proc shows no process: there is nothing to record from outside")
        unread = [what for file, what in _READINGS.items() if not proc.read(f"{folder}/{file}")]
        try:
            os.listdir(f"{folder}/fd")
        except OSError:
            unread.append("open files")
        child.communicate()
    if unread:
        return limited(name, f"resident memory only; not readable: {', '.join(unread)}")
    return ok(name, "memory, what it is made of, what it shares, open files")


def _others(root: str) -> Check:
    name = "of other users"
    hidden = _hidepid(root)
    if _may_trace(root):
        return ok(name, "readable in full")
    if hidden:
        remedy = "sudo mount -o remount,hidepid=0 /proc, or record as root"
        return missing(
            name, f"hidden (/proc is mounted with hidepid={hidden}): processes of others cannot be named", remedy
        )
    return limited(name, "resident memory only: PSS and open files need root", "sudo leakscope record --system")


def _hidepid(root: str) -> str | None:
    for line in (proc.read_text(f"{root}/proc/mounts") or "").splitlines():
        fields = line.split()
        if fields[1:3] == ["/proc", "proc"]:
            options = dict(option.partition("=")[::2] for option in fields[3].split(","))
            hidden = options.get("hidepid", "0")
            return None if hidden in ("0", "off") else hidden
    return None


def _may_trace(root: str) -> bool:
    capabilities = proc.text_of(proc.read(f"{root}/proc/self/status") or b"", b"CapEff") or "0"
    return bool(int(capabilities, 16) >> _CAP_SYS_PTRACE & 1)


def _debuggers(root: str) -> Check:
    """Recording needs none; py-spy, gdb and sys.remote_exec do."""
    name = "debuggers"
    scope = proc.read_text(f"{root}/proc/sys/kernel/yama/ptrace_scope") or "0"
    if scope == "0" or (_may_trace(root) and scope != "3"):
        return ok(name, "py-spy, gdb and the like can be attached to a running process")
    text = f"kernel.yama.ptrace_scope is {scope}: none can be attached to a running process; recording needs none"
    return limited(name, text, "sudo sysctl kernel.yama.ptrace_scope=0" if scope != "3" else None)


def _container(root: str) -> Check:
    name = "pid namespace"
    try:
        namespace = os.readlink(f"{root}/proc/self/ns/pid")
    except OSError:
        namespace = ""
    if namespace == HOST_PID_NAMESPACE:
        return ok(name, "the host's own: a pid in the kernel's log or the GPU's driver is the pid seen here")
    text = (
        "a container's: the kernel's log and the GPU's driver name other pids, so processes are matched by cgroup, "
        "name and size"
    )
    return limited(name, text, "record on the host with -p PID, or start the container with --pid=host")
