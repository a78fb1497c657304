"""Whether a process has address space and files to spare for the agent. Runs in the job, before anything else of ours.

The agent's thread takes 80 MiB of it: 64 that glibc reserves for what a new thread allocates, 8 of stack, our code. Of
memory that is next to nothing; but where RLIMIT_AS is near, it is what the job then lacks. So it is with open files:
ours have numbers from 200 on (journal.py), and where there are none such, those that the job would get.
"""

from __future__ import annotations

# What is below 50 times what it costs is near. The analyzer _inside has the same figures.
LEAST_BYTES = {b"Max address space": 4 << 30, b"Max data size": 1 << 30}
_LEAST = dict(LEAST_BYTES)
_LEAST[b"Max open files"] = 256


def is_scarce() -> bool:
    """True where a soft limit is near. **Cost** 20 us."""
    try:
        with open("/proc/self/limits", "rb") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return False
    for line in lines:
        for title, least in _LEAST.items():
            soft = line[len(title) :].split()[:1] if line.startswith(title) else []
            if soft and soft[0].isdigit() and int(soft[0]) < least:
                return True
    return False
