"""What a process is for, as far as its command line says. Runs in the recorder; the agent and the analyzers know more.

A DataLoader worker is a fork of its parent and looks just like it, unless its torch names its threads (2.6 and later).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from ..outside import is_python

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "tcsh", "csh", "busybox"))
# What only starts the job: for several ranks, in an environment, with a limit.
_LAUNCHERS = frozenset((
    "torchrun", "accelerate", "accelerate-launch", "deepspeed", "fabric", "composer", "mpirun", "mpiexec", "horovodrun",
    "srun", "uv", "conda", "mamba", "micromamba", "pixi", "poetry", "pipenv", "pdm", "hatch", "timeout", "time", "sudo",
    "tini", "dumb-init", "docker-init",
))  # fmt: skip
_LAUNCHER_MODULE = re.compile(
    r"torch\.distributed\.(run|launch)|accelerate\.commands\.(launch|accelerate_cli)|deepspeed\.launcher\.\w+"
    r"|lightning\.fabric\.cli|lightning_fabric\.cli|composer\.cli\.launcher|horovod\.runner(\.\w+)*|conda"
)
_TRAINER_PARENTS = frozenset(("trainer", "python", "python-fork", "python-spawn", "dataloader-worker"))
# In full: a user's script may well be called wandb_sweep.py.
_LOGGER = re.compile(r"wandb(-core|-xpu|-service.*)?|gpu_stats|tensorboard(_data_server)?|mlflow|aim")
# Helpers of multiprocessing, of its copy for dill ("multiprocess", used by datasets.map), and of joblib's loky.
_HELPERS = (
    (re.compile(r"(multiprocess(ing)?|loky\.backend)\.(resource|semaphore)_tracker"), "resource-tracker"),
    (re.compile(r"multiprocess(ing)?\.forkserver"), "forkserver"),
    (re.compile(r"multiprocess(ing)?\.spawn|loky\.backend\.popen_loky"), "python-spawn"),
)
_COMPILE = re.compile(r"torch[/.]_inductor[/.]compile_worker")
# The interpreter's options that have a value, alone or at the end of a cluster such as -um.
_WITH_VALUE = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*([mcWX])(.*)", re.DOTALL)


def role_of(
    comm: str,
    arguments: Sequence[str],
    parent_role: str | None,
    parent_arguments: Sequence[str] | None,
    exe: str | None = None,  # its file, where that may be read
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
    if _LOGGER.fullmatch(program) or parent_role == "logger":
        return "logger"
    if not is_python(program):
        if not is_python(exe or ""):
            return "other"
        return "python" if parent_role in _TRAINER_PARENTS else "trainer"  # it gave itself a title
    return _python_role(arguments, parent_role, list(arguments) == list(parent_arguments or ()))


def _python_role(arguments: Sequence[str], parent_role: str | None, is_fork: bool) -> str:
    how, what = _what_it_runs(arguments)
    if _COMPILE.search(what):
        return "compile-worker" if is_fork else "compile-sidecar"
    if is_fork and parent_role in ("forkserver", "python-spawn"):
        return "python-fork"
    for pattern, role in _HELPERS if how in ("m", "c") else ():
        if pattern.search(what):
            return role
    name = os.path.basename(what)
    if name in _LAUNCHERS if how == "script" else how == "m" and _LAUNCHER_MODULE.fullmatch(what):
        return "launcher"
    if _LOGGER.fullmatch(name if how == "script" else what.partition(".")[0]):
        return "logger"
    if parent_role in _TRAINER_PARENTS or parent_role in ("forkserver", "launcher"):
        if is_fork:
            return "python-fork"
        return "trainer" if parent_role == "launcher" else "python"
    return "trainer"


def _what_it_runs(arguments: Sequence[str]) -> tuple[str, str]:
    """("m", module), ("c", text) or ("script", path) of an interpreter; what follows is the program's own."""
    words: Iterator[str] = iter(arguments[1:])
    for word in words:
        option = _WITH_VALUE.fullmatch(word)
        if option:
            value = option[2] or next(words, "")
            if option[1] in "mc":
                return option[1], value
        elif word == "--check-hash-based-pycs":
            next(words, None)
        elif not word.startswith("-") or word == "-":
            return "script", word
    return "script", ""
