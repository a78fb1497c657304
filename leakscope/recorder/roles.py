"""What a process is for, as far as its command line says. Runs in the recorder; the agent and the analyzers know more.

A DataLoader worker is a fork of its parent and looks just like it, unless its torch names its threads (2.6 and later).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "tcsh", "csh", "busybox"))
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "srun"))
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_TRAINER_PARENTS = frozenset(("trainer", "python", "python-fork", "python-spawn", "dataloader-worker"))


def role_of(
    comm: str, arguments: Sequence[str], parent_role: str | None, parent_arguments: Sequence[str] | None
) -> str:
    """One word for a process. ``trainer`` is a Python program that no other Python program of the tree started."""
    if comm == "pt_data_worker":
        return "dataloader-worker"
    program = os.path.basename(arguments[0]).lstrip("-") if arguments else comm
    if program in _SHELLS:
        return "shell"
    if program in _LAUNCHERS:
        return "launcher"
    if not program.startswith(("python", "pypy")):
        return "other"
    rest = arguments[1:]
    line = " ".join(rest)
    if "torch/_inductor/compile_worker" in line or "torch._inductor.compile_worker" in line:
        return "compile-worker"
    if "multiprocessing.resource_tracker" in line or "multiprocessing.semaphore_tracker" in line:
        return "resource-tracker"
    if "multiprocessing.forkserver" in line:
        return "forkserver"
    if "multiprocessing.spawn" in line:
        return "python-spawn"
    if any(module in rest for module in _LAUNCHER_MODULES) or any(os.path.basename(a) in _LAUNCHERS for a in rest[:3]):
        return "launcher"
    if parent_role in _TRAINER_PARENTS or parent_role in ("forkserver", "launcher"):
        if list(arguments) == list(parent_arguments or ()):
            return "python-fork"
        return "trainer" if parent_role == "launcher" else "python"
    return "trainer"
