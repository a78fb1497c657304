"""For which machine a library was made: what the loader keeps to itself. Runs in the job."""

from __future__ import annotations

from ..interpreter import files

_NAMES = {
    3: "i386",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
_MACHINE = slice(18, 20)  # e_machine of an ELF header
_BEGIN = b"\x7fELF"


def other_machine(path: str) -> str | None:
    """Why the loader finds no library where there is one: it is of another machine; None: that is not why.

    glibc says of such a file that it does not exist. **Cost** 50 us.
    """
    theirs, ours = _machine_of(path), _machine_of("/proc/self/exe")
    if theirs is None or ours is None or theirs == ours:
        return None
    return f"leakscope was installed for {_named(theirs)}, and this Python is of {_named(ours)}"


def _machine_of(path: str) -> int | None:
    """None: it cannot be read, or is no ELF file."""
    try:
        with open(path, "rb", opener=files.open_high) as stream:
            head = stream.read(_MACHINE.stop)
    except OSError:
        return None
    if len(head) < _MACHINE.stop or not head.startswith(_BEGIN):
        return None
    return int.from_bytes(head[_MACHINE], "little")


def _named(machine: int) -> str:
    return _NAMES.get(machine, f"machine {machine}")
