"""What is in a fleet before a fault: nodes, training jobs with attempts, a service with restarts, nightly commits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakscope.fleet.demo import Node, Run
from leakscope.units import GiB, MiB

START_UNIX_S = 1_795_255_200  # 2026-11-21T10:00:00Z
_JOBS = ("pretrain-7b", "finetune-moe", "eval-sweep", "distill-1b", "rlhf-ppo")
_DRIVERS = ("550.54.15", "560.35.03", "570.86.10")
_GPUS = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
_NAMESPACES = ("research", "platform")


@dataclass
class Fleet:
    nodes: list[Node]
    runs: list[Run]
    training: list[str]
    service: str
    nightly: str

    def of(self, job: str) -> list[Run]:
        return [run for run in self.runs if run.job == job]


def healthy(nodes: int, gpus: int, seed: int, hours: float) -> Fleet:
    """The fleet without a fault: what differs in it differs as in any cluster, by a few percent."""
    rng = np.random.default_rng([seed, 1])
    machines = [
        Node(
            f"gpu-{number:04d}",
            str(rng.choice(_DRIVERS, p=(0.55, 0.3, 0.15))),
            _GPUS[int(rng.random() < 0.3)],
            96 * GiB,
        )
        for number in range(nodes)
    ]
    fleet = Fleet(machines, [], [], "tokenizer-api", "nightly")
    order = list(rng.permutation(nodes))
    shares = (0.5, 0.3, 0.2) if nodes >= 10 else (0.6, 0.4)
    names = [str(name) for name in rng.permutation(_JOBS)[: len(shares)]]
    start = 0
    for number, (name, share) in enumerate(zip(names, shares)):
        end = nodes if number == len(shares) - 1 else start + max(2, int(nodes * share))
        fleet.training.append(name)
        fleet.runs += _training(name, [machines[i] for i in order[start:end]], gpus, rng, hours)
        start = end
    fleet.runs += _service(fleet.service, machines, rng, hours)
    fleet.runs += _nightly(fleet.nightly, rng)
    _weather(fleet.runs, rng)
    return fleet


def attempt(run: Run) -> int:
    return int(run.belongs.get("attempt") or 0)


def commit_of(*parts: object) -> str:
    return hashlib.sha1(" ".join(map(str, parts)).encode()).hexdigest()[:12]


def _training(name: str, nodes: list[Node], gpus: int, rng: np.random.Generator, hours: float) -> list[Run]:
    attempts = int(rng.integers(3, 6))
    turns = int(rng.integers(2, attempts + 1))  # the attempt at which the commit changes
    cuts = np.sort(rng.uniform(0.15, 0.85, attempts - 1)) * hours * 3600
    edges = [0.0, *cuts, hours * 3600]
    level, gpu = rng.uniform(9, 24) * GiB, rng.uniform(45, 70) * GiB
    shard = rng.normal(0, 0.012, len(nodes) * gpus)  # a rank has its own share of the data
    moves = rng.random() < 0.6
    has_stages = rng.random() < 0.4
    runs = []
    for attempt in range(1, attempts + 1):
        placed = list(nodes)
        if moves:
            placed = [nodes[i] for i in rng.permutation(len(nodes))]
        began, ends = edges[attempt - 1], edges[attempt]
        commit = commit_of(name, 1 if attempt < turns else 2)
        for rank in range(len(nodes) * gpus):
            node = placed[rank // gpus]
            own = level * (1 + shard[rank] + rng.normal(0, 0.006) + (0.03 if rank == 0 else 0.0))
            stage = 1.18 if has_stages and rank < len(nodes) * gpus // 8 else 1.0
            runs.append(
                Run(
                    f"{name}/attempt-{attempt}/rank-{rank:05d}.parquet",
                    ["torchrun", "train.py", "--config", f"{name}.yaml"],
                    node,
                    START_UNIX_S + began + 30 * attempt,
                    max(120.0, ends - began - 45 + rng.uniform(-2, 2)),
                    own,
                    int(gpu * stage * (1 + rng.normal(0, 0.006))),
                    {
                        "job": name, "attempt": attempt, "rank": rank, "local_rank": rank % gpus,
                        "world_size": len(nodes) * gpus, "node": node.name, "node_rank": rank // gpus,
                        "commit": commit, "scheduler": "slurm",
                    },
                    {"team": "research"},
                )
            )  # fmt: skip
    return runs


def _service(name: str, nodes: list[Node], rng: np.random.Generator, hours: float) -> list[Run]:
    pods = int(rng.integers(24, 41))
    level = rng.uniform(1.5, 4) * GiB
    runs = []
    for pod in range(pods):
        node = nodes[int(rng.integers(len(nodes)))]
        image = f"api:{int(rng.integers(4, 7))}"
        runs += [
            Run(
                f"{name}/pod-{pod:03d}/restart-{restart}.parquet",
                ["gunicorn", "api:app"],
                node,
                START_UNIX_S + restart * hours * 1200 + rng.uniform(0, 300),
                hours * 1100 * rng.uniform(0.8, 1.0),
                level * (1 + rng.normal(0, 0.03)),
                None,
                {
                    "job": name, "node": node.name, "pod": f"{name}-{pod:03d}", "namespace": _NAMESPACES[pod % 2],
                    "container": "api", "restart_count": restart, "scheduler": "kubernetes",
                },
                {"image": image},
                limit_bytes=8 * GiB,
            )
            for restart in range(int(rng.integers(2, 5)))
        ]  # fmt: skip
    return runs


def _nightly(name: str, rng: np.random.Generator) -> list[Run]:
    runner = Node("ci-runner", "", "", 16 * GiB)
    level = rng.uniform(2, 5) * GiB
    runs = []
    for number in range(int(rng.integers(24, 37))):
        commit = commit_of(name, rng.integers(1 << 40))
        runs += [
            Run(
                f"{name}/{number:03d}-{commit}/shard-{shard}.parquet",
                ["pytest", "tests/train", f"--shard={shard}"],
                runner,
                START_UNIX_S - (40 - number) * 86400,
                900 * rng.uniform(0.95, 1.05),
                level * (1 + 0.2 * shard) * (1 + rng.normal(0, 0.015)),
                None,
                {"job": name, "commit": commit, "node": runner.name, "scheduler": "github-actions"},
                {"shard": str(shard)},
            )
            for shard in range(3)
        ]
    return runs


def _weather(runs: list[Run], rng: np.random.Generator) -> None:
    """What is no fault: reports that cannot tell, old recordings without a verdict, a note here, a lost end there."""
    for run in runs:
        chance = rng.random()
        run.cannot_tell = chance < 0.03
        run.judged = not 0.03 <= chance < 0.045
        if 0.045 <= chance < 0.047:
            run.fate = str(rng.choice(["unfinished", "torn", "lost"]))
        if rng.random() < 0.08:
            note = finding("held-memory", run.job, "Vocabulary.words (dict)", "note", 200 * MiB, 0.0, "vocab.py", 31)
            run.findings.append(note)


def finding(
    kind: str, owner: str, holder: str, severity: str, size: float, per_hour: float, file: str, line: int
) -> dict[str, Any]:
    """As a footer's verdict has it; the same owner, kind and holder have the same fingerprint."""
    words = {
        "retained-objects": "keeps growing",
        "native-growth": "grows outside Python",
        "held-memory": "is full",
        "refcount-drift": "loses references",
        "shared-memory": "pile up",
        "oom-kill": "filled the memory",
    }
    return {
        "kind": kind,
        "severity": severity,
        "confidence": 0.95,
        "fingerprint": hashlib.sha256(f"{kind}\0{file}\0{holder}\0{owner}".encode()).hexdigest()[:32],
        "title": f"{holder} {words.get(kind, 'is what grows')}",
        "holder": holder,
        "file": f"/srv/train/{file}",
        "line": line,
        "bytes": int(size),
        "bytes_per_hour": per_hour,
    }
