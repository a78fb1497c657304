"""Where a recording belongs: its job, its rank among others, the machine, pod and container, and which commit it ran.

Read from the environments of launchers and schedulers, and from files that are there anyhow; nothing is started, and
nobody is asked over a network. What none of them says is left out. Runs in the recorder, before the job starts.

Whoever knows better says so by ``LEAKSCOPE_JOB``, ``LEAKSCOPE_RANK``, ... : one variable for each field.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_NUMBERS = ("rank", "local_rank", "world_size", "node_rank", "restart_count", "attempt")
# The first that is set counts. A launcher that stands nearer to the program comes before the one that started it:
# within an allocation of Slurm, mpirun and torchrun number the ranks.
_VARIABLES: dict[str, tuple[str, ...]] = {
    "job": (
        "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "AWS_BATCH_JOB_ID", "TRAINING_JOB_NAME", "RAY_JOB_ID",
        "TORCHELASTIC_RUN_ID", "GITHUB_RUN_ID", "JOB_ID",
    ),
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"),
    "local_rank": (
        "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
    ),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    # Not OMPI_COMM_WORLD_NODE_RANK, which is a process's number on its node.
    "node_rank": ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID", "AWS_BATCH_JOB_NODE_INDEX", "JOB_COMPLETION_INDEX"),
    "node": ("SLURMD_NODENAME", "NODE_NAME", "MY_NODE_NAME", "K8S_NODE_NAME", "SM_CURRENT_HOST"),
    "pod": ("POD_NAME", "MY_POD_NAME", "K8S_POD_NAME"),
    "namespace": ("POD_NAMESPACE", "MY_POD_NAMESPACE", "K8S_NAMESPACE"),
    "container": (),
    "restart_count": ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"),
    "attempt": ("GITHUB_RUN_ATTEMPT", "AWS_BATCH_JOB_ATTEMPT"),
    "commit": ("GITHUB_SHA", "CI_COMMIT_SHA"),
}  # fmt: skip
_NO_VALUE = {"TORCHELASTIC_RUN_ID": "none"}  # what torchrun says of a job without a name
_LABELS = {
    "SLURM_JOB_NAME": "slurm-job-name",
    "SLURM_JOB_PARTITION": "slurm-partition",
    "GITHUB_REPOSITORY": "github-repository",
    "GITHUB_WORKFLOW": "github-workflow",
    "GITHUB_JOB": "github-job",
    "GITHUB_REF_NAME": "github-ref",
    "RAY_CLUSTER_NAME": "ray-cluster",
}
# Who numbers and starts the job: the first of which one variable is there.
_SCHEDULERS = (
    ("slurm", ("SLURM_JOB_ID",)),
    ("sagemaker", ("TRAINING_JOB_NAME", "SM_CURRENT_HOST")),
    ("ray", ("RAY_JOB_ID", "RAY_CLUSTER_NAME")),
    ("torchrun", ("TORCHELASTIC_RUN_ID",)),
    ("mpi", ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")),
    ("kubernetes", ("KUBERNETES_SERVICE_HOST",)),
    ("github-actions", ("GITHUB_ACTIONS",)),
)
_NAMESPACE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
_POD_LABELS = "etc/podinfo/labels"  # where the documentation of the downward API mounts them
_CONTAINER = re.compile(rb"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
# Files that Docker and Podman mount into a container from a folder of its own name. containerd has the pod's there.
_MOUNTED = re.compile(
    rb"/(?:containers|overlay-containers)/([0-9a-f]{64})/(?:userdata/)?(?:hostname|hosts|resolv\.conf)"
)
_LABEL = re.compile(r'([\w./-]{1,300})=("[^"\\]*(?:\\.[^"\\]*)*")')
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 4 << 20  # packed-refs of a repository with 40,000 tags
_MOST_CHARACTERS = 500
_MOST_LABELS = 64


def belongs(environ: Mapping[str, str], cwd: str, root: str = "/") -> dict[str, Any]:
    """What is known of job, rank, node, pod, container, restarts and commit: the fields of the footer's ``belongs``.

    ``root``: the folder under which files of the system are looked for. **Cost** 0.6 ms.
    """
    found = {field: value for field in _VARIABLES if (value := _of_environment(field, environ)) is not None}
    in_pod = "KUBERNETES_SERVICE_HOST" in environ
    if in_pod:
        _add_pod(found, environ, root)
    container = found.get("container") or _container(root)
    if container is not None:
        found["container"] = container
    if "node" not in found and container is None and not in_pod:
        found["node"] = os.uname().nodename  # in a container that is the container's name
    if "node_rank" not in found and (node_rank := _sagemaker_rank(environ)) is not None:
        found["node_rank"] = node_rank
    if "commit" not in found and (commit := _commit(cwd) or environ.get("GIT_COMMIT")):
        found["commit"] = commit[:_MOST_CHARACTERS]
    if "attempt" not in found and isinstance(restarts := found.get("restart_count"), int):
        found["attempt"] = restarts + 1
    if scheduler := _scheduler(environ):
        found["scheduler"] = scheduler
    return {field: found[field] for field in (*_VARIABLES, "scheduler") if field in found}


def labels(environ: Mapping[str, str], root: str = "/") -> dict[str, str]:
    """What a scheduler calls the job, and the labels of the pod where the downward API mounts them."""
    found = {name: environ[variable][:_MOST_CHARACTERS] for variable, name in _LABELS.items() if environ.get(variable)}
    if "KUBERNETES_SERVICE_HOST" in environ:
        for line in _text(os.path.join(root, _POD_LABELS)).splitlines()[:_MOST_LABELS]:
            if match := _LABEL.fullmatch(line.strip()):
                with suppress(ValueError):
                    found[match[1]] = json.loads(match[2])[:_MOST_CHARACTERS]
    return found


def variables_of(field: str) -> tuple[str, ...]:
    """The variables that say it, for a person to set one."""
    return f"LEAKSCOPE_{field.upper()}", *_VARIABLES[field]


def _of_environment(field: str, environ: Mapping[str, str]) -> str | int | None:
    for name in variables_of(field):
        value = environ.get(name, "").strip()
        if not value or value == _NO_VALUE.get(name) or not _counts(name, environ):
            continue
        if field not in _NUMBERS:
            return _of_array(environ) if name == "SLURM_JOB_ID" else value[:_MOST_CHARACTERS]
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return None


def _counts(name: str, environ: Mapping[str, str]) -> bool:
    """Names that anybody may use for something else count only where their owner is."""
    needs = {"NODE_NAME": "KUBERNETES_SERVICE_HOST", "GITHUB_SHA": "GITHUB_ACTIONS", "GITHUB_RUN_ID": "GITHUB_ACTIONS"}
    return name not in needs or needs[name] in environ


def _of_array(environ: Mapping[str, str]) -> str:
    """The number of a Slurm job; of one in an array as ``squeue`` shows it, ``4711_3``."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environ["SLURM_JOB_ID"]


def _add_pod(found: dict[str, Any], environ: Mapping[str, str], root: str) -> None:
    """Pod and namespace where no variable has them. The host name of an indexed job's pod is JOB-INDEX."""
    host, index = environ.get("HOSTNAME", ""), environ.get("JOB_COMPLETION_INDEX")
    if index is not None and host.endswith(f"-{index}"):
        found.setdefault("job", host[: -len(index) - 1])
    elif host:
        found.setdefault("pod", host)
    namespace = _text(os.path.join(root, _NAMESPACE)).strip()
    if namespace:
        found.setdefault("namespace", namespace)


def _container(root: str) -> str | None:
    """The container's id, by its cgroup's path or, where a namespace hides that, by what is mounted from its folder."""
    cgroup = _CONTAINER.findall(_bytes(os.path.join(root, "proc/self/cgroup")))
    mounted = [] if cgroup else _MOUNTED.findall(_bytes(os.path.join(root, "proc/self/mountinfo")))
    found = cgroup or mounted
    return found[-1].decode() if found else None


def _sagemaker_rank(environ: Mapping[str, str]) -> int | None:
    with suppress(ValueError, TypeError):
        hosts = json.loads(environ.get("SM_HOSTS", "[]"))
        if environ.get("SM_CURRENT_HOST") in hosts:
            return sorted(hosts).index(environ["SM_CURRENT_HOST"])
    return None


def _scheduler(environ: Mapping[str, str]) -> str | None:
    for name, variables in _SCHEDULERS:
        if any(environ.get(variable) for variable in variables):
            return name
    return None


def _commit(cwd: str) -> str | None:
    """The commit that is checked out in the repository of a folder; without git itself."""
    folder = cwd
    while True:
        git = os.path.join(folder, ".git")
        if os.path.lexists(git):
            return _head(git)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _head(git: str) -> str | None:
    if not os.path.isdir(git):  # of a worktree or a submodule: a file that says where
        name, _, path = _text(git).strip().partition(": ")
        if name != "gitdir" or not path:
            return None
        git = os.path.join(os.path.dirname(git), path)
    head = _text(os.path.join(git, "HEAD")).strip()
    if not head.startswith("ref: "):
        return head if _COMMIT.fullmatch(head) else None
    ref = head[5:].strip()
    if ".." in ref or ref.startswith("/"):
        return None
    common = os.path.join(git, _text(os.path.join(git, "commondir")).strip() or ".")
    for folder in (git, common):
        commit = _text(os.path.join(folder, ref)).strip()
        if _COMMIT.fullmatch(commit):
            return commit
    for line in _text(os.path.join(common, "packed-refs")).splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.fullmatch(commit):
            return commit
    return None


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: str) -> bytes:
    """The beginning of a regular file, whoever's it is; a fifo keeps nobody waiting."""
    with suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return stream.read(_MOST_BYTES)
    return b""
