"""A recording knows its job, its rank and its machine from what launchers and schedulers leave in the environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leakscope.errors import BadInput
from leakscope.recorder.job_identity import belongs, labels
from leakscope.recorder.naming import one_a_rank, output_path

COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
CONTAINER = "3f" * 32
NOWHERE = "/nowhere"  # a root without /proc: as outside any container

TORCHRUN = {
    "RANK": "17", "LOCAL_RANK": "1", "WORLD_SIZE": "512", "GROUP_RANK": "2", "TORCHELASTIC_RUN_ID": "bert-7",
    "TORCHELASTIC_RESTART_COUNT": "2", "LOCAL_WORLD_SIZE": "8",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "4714", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_NODEID": "1", "SLURMD_NODENAME": "n017",
    "SLURM_RESTART_COUNT": "1", "SLURM_JOB_NAME": "pretrain", "SLURM_JOB_PARTITION": "a100",
}  # fmt: skip
CASES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "torchrun": (TORCHRUN, {
        "job": "bert-7", "rank": 17, "local_rank": 1, "world_size": 512, "node_rank": 2, "restart_count": 2,
        "attempt": 3, "scheduler": "torchrun",
    }),
    "slurm": (SLURM, {
        "job": "4711_3", "rank": 5, "local_rank": 1, "world_size": 8, "node": "n017", "node_rank": 1,
        "restart_count": 1, "attempt": 2, "scheduler": "slurm",
    }),
    # In an allocation torchrun numbers the ranks, and Slurm's job is the one people know.
    "torchrun in slurm": ({**SLURM, **TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "0"}, {
        "job": "4711_3", "rank": 17, "local_rank": 1, "world_size": 512, "node": "n017", "node_rank": 2,
        "restart_count": 0, "attempt": 1, "scheduler": "slurm",
    }),
    "open mpi": (
        {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
         "OMPI_COMM_WORLD_NODE_RANK": "1"},
        {"rank": 3, "local_rank": 1, "world_size": 4, "scheduler": "mpi"},
    ),
    "mpich and intel": (
        {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"},
        {"rank": 3, "local_rank": 1, "world_size": 4, "scheduler": "mpi"},
    ),
    "sagemaker": (
        {"TRAINING_JOB_NAME": "bert-2026-11", "SM_CURRENT_HOST": "algo-10", "SM_HOSTS": '["algo-10", "algo-1"]'},
        {"job": "bert-2026-11", "node": "algo-10", "node_rank": 1, "scheduler": "sagemaker"},
    ),
    "ray": ({"RAY_JOB_ID": "01000000"}, {"job": "01000000", "scheduler": "ray"}),
    "github": (
        {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_SHA": COMMIT},
        {"job": "77", "attempt": 2, "commit": COMMIT, "scheduler": "github-actions"},
    ),
    "nothing": ({}, {}),
    "not a number": ({"RANK": "first", "SLURM_PROCID": "4"}, {"rank": 4}),
    "without a name": ({"TORCHELASTIC_RUN_ID": "none", "RANK": "0"}, {"rank": 0, "scheduler": "torchrun"}),
    "said by the user": ({**SLURM, "LEAKSCOPE_JOB": "mine", "LEAKSCOPE_RANK": "9"}, {
        "job": "mine", "rank": 9, "local_rank": 1, "world_size": 8, "node": "n017", "node_rank": 1,
        "restart_count": 1, "attempt": 2, "scheduler": "slurm",
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_environments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ, expected = CASES[name]
    found = belongs(environ, str(tmp_path), NOWHERE)
    if "node" not in expected:
        assert found.pop("node")  # the machine's own name
    assert found == expected


def system(root: Path, **files: str) -> str:
    for path, text in files.items():
        file = root / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(root)


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-x7f2q"}
NAMESPACE = {"var__run__secrets__kubernetes.io__serviceaccount__namespace": "vision"}


def test_a_pod_by_its_host_name_and_service_account(tmp_path: Path) -> None:
    cgroup = f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{CONTAINER}.scope\n"
    root = system(tmp_path / "root", proc__self__cgroup=cgroup, **NAMESPACE)
    assert belongs(POD, str(tmp_path), root) == {
        "pod": "train-x7f2q", "namespace": "vision", "container": CONTAINER, "scheduler": "kubernetes",
    }  # fmt: skip


def test_a_pod_by_the_downward_api(tmp_path: Path) -> None:
    root = system(tmp_path / "root", **NAMESPACE)
    told = {"POD_NAME": "train-0-abcde", "POD_NAMESPACE": "text", "NODE_NAME": "node-7", "JOB_COMPLETION_INDEX": "0"}
    found = belongs({**POD, **told, "HOSTNAME": "train-0"}, str(tmp_path), root)
    assert found == {
        "job": "train", "node": "node-7", "node_rank": 0, "pod": "train-0-abcde", "namespace": "text",
        "scheduler": "kubernetes",
    }  # fmt: skip


def test_a_container_that_does_not_see_its_cgroup(tmp_path: Path) -> None:
    mounts = (
        "36 35 98:0 / / rw - ext4 /dev/sda rw\n"
        f"37 36 98:0 /var/lib/docker/containers/{CONTAINER}/hostname /etc/hostname rw - ext4 /dev/sda rw\n"
    )
    root = system(tmp_path / "root", proc__self__cgroup="0::/\n", proc__self__mountinfo=mounts)
    assert belongs({}, str(tmp_path), root) == {"container": CONTAINER}


def test_labels_of_the_scheduler_and_of_the_pod(tmp_path: Path) -> None:
    assert labels(SLURM, NOWHERE) == {"slurm-job-name": "pretrain", "slurm-partition": "a100"}
    root = system(tmp_path, etc__podinfo__labels='app="bert"\nteam/owner="a \\"b\\""\nno label\n')
    assert labels(POD, root) == {"app": "bert", "team/owner": 'a "b"'}


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.live
def test_the_commit_that_is_checked_out(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    inside = repository / "src" / "deep"
    inside.mkdir(parents=True)
    assert "commit" not in belongs({}, str(inside), NOWHERE)
    git(repository, "init", "-q", "-b", "feature/x")
    assert "commit" not in belongs({}, str(inside), NOWHERE)  # none yet
    git(repository, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(repository, "rev-parse", "HEAD")
    assert belongs({}, str(inside), NOWHERE)["commit"] == head
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "worktree"))
    assert belongs({}, str(tmp_path / "worktree"), NOWHERE)["commit"] == head
    git(repository, "pack-refs", "--all")
    assert belongs({}, str(inside), NOWHERE)["commit"] == head
    git(repository, "checkout", "-q", "--detach")
    assert belongs({}, str(inside), NOWHERE)["commit"] == head
    assert belongs({"GIT_COMMIT": COMMIT}, str(tmp_path), NOWHERE)["commit"] == COMMIT  # of an image without .git


def test_templates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {**SLURM, "LEAKSCOPE_COMMIT": COMMIT, "LEAKSCOPE_POD": "p/1", "LEAKSCOPE_CONTAINER": CONTAINER}
    template = (
        "{job}-{rank}of{world_size}-{local_rank}-{node}-{node_rank}-{pod}-{container}-{restart}-{attempt}-{commit}"
    )
    expected = f"4711_3-5of8-1-n017-1-p_1-{CONTAINER[:12]}-1-2-{COMMIT[:12]}"
    assert output_path(template, environ, 0.0) == str(tmp_path / expected)
    alone = output_path("{rank}-{local_rank}-{world_size}-{node_rank}-{restart}-{attempt}", {}, 0.0)
    assert alone == str(tmp_path / "0-0-1-0-0-1")
    for field in ("job", "pod", "namespace"):
        with pytest.raises(BadInput, match=f"LEAKSCOPE_{field.upper()}"):
            output_path(f"{{{field}}}", {}, 0.0)


def test_ranks_do_not_share_a_url() -> None:
    shared = "s3://bucket/run.parquet"
    assert one_a_rank(shared, {"rank": 3, "world_size": 8}) == "s3://bucket/run.rank{rank}.parquet"
    assert one_a_rank("s3://bucket/{rank}.parquet", {"world_size": 8}) == "s3://bucket/{rank}.parquet"
    assert one_a_rank(shared, {"rank": 0, "world_size": 1}) == one_a_rank(shared, {}) == shared


@pytest.mark.live
def test_it_is_in_the_footer(tmp_path: Path) -> None:
    from leakscope import open_recording

    from .runs import record

    result = record(
        tmp_path, "-q", "--label", "slurm-job-name=own", "-o", "{job}.{rank}.parquet", "true", finalize=True, **SLURM
    )
    assert (result.returncode, result.stderr) == (0, "")
    meta = open_recording(tmp_path / "4711_3.5.parquet").meta
    expected = CASES["slurm"][1]
    assert {key: meta["belongs"][key] for key in expected} == expected
    assert meta["labels"] == {"slurm-job-name": "own", "slurm-partition": "a100"}
    assert json.dumps(meta["belongs"])
