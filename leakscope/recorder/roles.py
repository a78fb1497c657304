"""What a process is for, as far as its command line says. Runs in the recorder; the agent and the analyzers know more.

A DataLoader worker is a fork of its parent and looks just like it, unless its torch names its threads (2.6 and later).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "tcsh", "csh", "busybox"))
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "srun"))
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_TRAINER_PARENTS = frozenset(("trainer", "python", "python-fork", "python-spawn", "dataloader-worker"))
_LOGGERS = re.compile(r"(wandb|tensorboard|mlflow|gpu_stats$|aim$)")
# Helpers of multiprocessing, of its copy for dill ("multiprocess", used by datasets.map), and of joblib's loky.
_HELPERS = (
    (
        re.compile(r"(multiprocess(ing)?|loky\.backend)\.(resource|semaphore)_tracker"),
        "resource-tracker",
    ),
    (re.compile(r"multiprocess(ing)?\.forkserver"), "forkserver"),
    (re.compile(r"multiprocess(ing)?\.spawn|loky\.backend\.popen_loky"), "python-spawn"),
    (re.compile(r"multiprocessing\.managers"), "shm-manager"),
)
_COMPILE = re.compile(r"torch[/.]_inductor[/.]compile_worker")


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
    if program == "torch_shm_manager":
        return "shm-manager"
    if _LOGGERS.match(program):
        return "logger"
    if not program.startswith(("python", "pypy")):
        return "other"
    return _python_role(arguments, parent_role, list(arguments) == list(parent_arguments or ()))


def _python_role(arguments: Sequence[str], parent_role: str | None, is_fork: bool) -> str:
    rest = arguments[1:]
    line = " ".join(rest)
    if _COMPILE.search(line):
        return "compile-worker" if is_fork else "compile-sidecar"
    if is_fork and parent_role in ("forkserver", "python-spawn"):
        return "python-fork"
    for pattern, role in _HELPERS:
        if pattern.search(line):
            return role
    started = [os.path.basename(argument) for argument in rest[:3]]
    if any(module in rest for module in _LAUNCHER_MODULES) or any(name in _LAUNCHERS for name in started):
        return "launcher"
    if any(_LOGGERS.match(name) for name in started):
        return "logger"
    if parent_role in _TRAINER_PARENTS or parent_role in ("forkserver", "launcher"):
        if is_fork:
            return "python-fork"
        return "trainer" if parent_role == "launcher" else "python"
    return "trainer"
