"""Faults to plant: each changes some runs of a fleet, and says which, and what a report should say of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakscope.fleet.demo import Run
from leakscope.units import GiB

from .plan import Fleet, attempt, finding

_HOLDERS = (
    ("retained-objects", "Trainer.losses (list)", "train.py", 88),
    ("retained-objects", "PrefixCache.entries (dict)", "cache.py", 41),
    ("retained-graph", "Meter.total (tensor)", "meters.py", 17),
    ("native-growth", "libtokenizers (native)", "tokens.py", 63),
    ("dataloader-workers", "Dataset.index (list)", "data.py", 120),
    ("retained-objects", "RewardModel.history (deque)", "reward.py", 54),
    ("refcount-drift", "None", "fused_adam.py", 9),
    ("shared-memory", "/dev/shm/torch_* (segments)", "loader.py", 77),
)


@dataclass(frozen=True)
class Fault:
    """``claim``: leak, odd, kills, lost or commit. ``paths``: the recordings it is in; ``where``: what these share."""

    kind: str
    claim: str
    says: str
    paths: Sequence[str]
    where: dict[str, Any]
    fingerprint: str | None = None


class Planter:
    """Plants faults so that no two change the same job in the same way: each can be told from the others."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.rng = np.random.default_rng([seed, 2])
        self._holders = [_HOLDERS[i] for i in self.rng.permutation(len(_HOLDERS))]
        self._ranks: dict[str, set[int]] = {}
        self._nodes: dict[str, set[str]] = {}
        self._jobs = [fleet.training[i] for i in self.rng.permutation(len(fleet.training))]
        self._turn = self._planted = 0

    def job(self) -> str:
        """The next training job, in turns."""
        self._turn += 1
        return str(self._jobs[self._turn % len(self._jobs)])

    def one(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def rank(self, job: str) -> int:
        taken = self._ranks.setdefault(job, {0})
        free = sorted({run.rank for run in self.fleet.of(job) if run.rank is not None} - taken)
        found = int(self.one(_room(free, 1)))
        taken.add(found)
        return found

    def nodes(self, job: str, count: int) -> list[str]:
        taken = self._nodes.setdefault(job, set())
        free = _room(sorted({run.node.name for run in self.fleet.of(job)} - taken), count)
        found = [free[i] for i in self.rng.permutation(len(free))[:count]]
        taken.update(found)
        return sorted(found)

    def leaks(self, runs: Sequence[Run], speed: float | None = None) -> str:
        """Make them leak; the fingerprint of what they leak."""
        number = self._planted
        self._planted += 1
        kind, holder, file, line = self._holders[number % len(self._holders)]
        line += 100 * (number // len(self._holders))
        file = file if number < len(self._holders) else f"more/{file}"
        # So fast that it can be seen, and so slow that nothing fills its limit by itself.
        longest = max(run.duration_s for run in runs) / 3600
        room = min(0.5 * (run.limit_bytes or 64 * GiB) for run in runs) / longest
        per_hour = speed or float(self.rng.uniform(0.15, 0.6)) * room
        found: dict[str, Any] = {}
        for run in runs:
            own = per_hour * float(self.rng.normal(1, 0.04))
            gained = own * run.duration_s / 3600
            found = finding(kind, "", holder, "critical", 0.9 * gained, own, file, line)
            run.growth_bytes_per_hour += own
            run.findings.insert(0, found)
            run.cannot_tell = False
            run.judged = True
        return str(found["fingerprint"])


def _room(free: list[Any], count: int) -> list[Any]:
    if len(free) < count:
        raise ValueError("a fleet of so few nodes has no room for so many faults: more nodes, or fewer faults")
    return free


def _leak(planter: Planter, kind: str, runs: Sequence[Run], says: str, where: dict[str, Any]) -> Fault:
    fingerprint = planter.leaks(runs)
    return Fault(kind, "leak", says, [run.path for run in runs], where, fingerprint)


def leak_since_attempt_not_on_driver(planter: Planter) -> Fault:
    job = planter.job()
    runs = planter.fleet.of(job)
    since = int(planter.rng.integers(2, max(map(attempt, runs)) + 1))
    drivers = sorted({run.node.driver for run in runs})
    spared = planter.one(drivers) if len(drivers) > 1 else None
    hit = [run for run in runs if attempt(run) >= since and run.node.driver != spared]
    where = {"job": job, "attempt": since, **({"not_driver": spared} if spared else {})}
    return _leak(
        planter,
        "leak-since-attempt-not-on-driver",
        hit,
        f"{job}: since attempt {since}" + (f", not on {spared}" if spared else ""),
        where,
    )


def leak_on_one_rank(planter: Planter) -> Fault:
    job = planter.job()
    rank = planter.rank(job)
    hit = [run for run in planter.fleet.of(job) if run.rank == rank]
    return _leak(planter, "leak-on-one-rank", hit, f"{job}: rank {rank} leaks", {"job": job, "rank": rank})


def leak_on_one_node(planter: Planter) -> Fault:
    job = planter.job()
    (node,) = planter.nodes(job, 1)
    hit = [run for run in planter.fleet.of(job) if run.node.name == node]
    return _leak(planter, "leak-on-one-node", hit, f"{job}: all ranks on {node} leak", {"job": job, "node": node})


def leak_everywhere(planter: Planter) -> Fault:
    job = planter.job()
    hit = planter.fleet.of(job)
    return _leak(planter, "leak-everywhere", hit, f"{job}: all ranks leak alike", {"job": job})


def leak_of_local_rank(planter: Planter) -> Fault:
    job = planter.job()
    hit = [run for run in planter.fleet.of(job) if run.belongs["local_rank"] == 0]
    return _leak(planter, "leak-of-local-rank", hit, f"{job}: local rank 0 leaks", {"job": job, "local_rank": 0})


def leak_since_commit(planter: Planter) -> Fault:
    job = planter.fleet.nightly
    runs = planter.fleet.of(job)
    commits = list(dict.fromkeys(run.belongs["commit"] for run in runs))
    since = int(planter.rng.integers(6, len(commits) - 3))
    hit = [run for run in runs if commits.index(run.belongs["commit"]) >= since]
    return _leak(
        planter, "leak-since-commit", hit, f"{job}: since {commits[since]}", {"job": job, "commit": commits[since]}
    )


def leak_of_image(planter: Planter) -> Fault:
    job = planter.fleet.service
    runs = planter.fleet.of(job)
    image = planter.one(sorted({run.labels["image"] for run in runs}))
    hit = [run for run in runs if run.labels["image"] == image]
    return _leak(planter, "leak-of-image", hit, f"{job}: with image {image}", {"job": job, "image": image})


def leak_on_gpu_model(planter: Planter) -> Fault:
    job = planter.job()
    runs = planter.fleet.of(job)
    model = planter.one(sorted({run.node.gpu_name for run in runs}))
    hit = [run for run in runs if run.node.gpu_name == model]
    return _leak(planter, "leak-on-gpu-model", hit, f"{job}: on {model}", {"job": job, "gpu_name": model})


def leak_on_some_nodes(planter: Planter) -> Fault:
    job = planter.job()
    names = planter.nodes(job, 3)
    hit = [run for run in planter.fleet.of(job) if run.node.name in names]
    return _leak(planter, "leak-on-some-nodes", hit, f"{job}: on {', '.join(names)}", {"job": job, "node": names})


def leak_on_driver(planter: Planter) -> Fault:
    """In every training job: a library that has to do with the driver."""
    runs = [run for run in planter.fleet.runs if run.job in planter.fleet.training]
    driver = planter.one(sorted({run.node.driver for run in runs}))
    hit = [run for run in runs if run.node.driver == driver]
    return _leak(planter, "leak-on-driver", hit, f"everywhere on driver {driver}", {"driver": driver})


def leak_of_namespace(planter: Planter) -> Fault:
    job = planter.fleet.service
    runs = planter.fleet.of(job)
    name = planter.one(sorted({run.belongs["namespace"] for run in runs}))
    hit = [run for run in runs if run.belongs["namespace"] == name]
    return _leak(planter, "leak-of-namespace", hit, f"{job}: in {name}", {"job": job, "namespace": name})


def small_gpu_node(planter: Planter) -> Fault:
    job = planter.job()
    (node,), factor = planter.nodes(job, 1), float(planter.rng.uniform(0.5, 0.75))
    hit = [run for run in planter.fleet.of(job) if run.node.name == node]
    for run in hit:
        run.gpu_peak_bytes = int((run.gpu_peak_bytes or 0) * factor)
    where = {"job": job, "node": node, "figure": "gpu_peak_bytes"}
    return Fault("small-gpu-node", "odd", f"{job}: less on the GPUs of {node}", [run.path for run in hit], where)


def fast_leaker(planter: Planter) -> list[Fault]:
    """All leak, one of them many times as fast."""
    job = planter.job()
    rank = planter.rank(job)
    runs = planter.fleet.of(job)
    fingerprint = planter.leaks(runs, speed=0.05 * 64 * GiB / max(run.duration_s / 3600 for run in runs))
    every = Fault(
        "leak-everywhere", "leak", f"{job}: all ranks leak", [r.path for r in runs], {"job": job}, fingerprint
    )
    hit = [run for run in runs if run.rank == rank]
    for run in hit:
        factor = 8.0
        run.findings[0] = {**run.findings[0], "bytes_per_hour": run.findings[0]["bytes_per_hour"] * factor}
        run.growth_bytes_per_hour *= factor
    where = {"job": job, "rank": rank, "figure": "growth_bytes_per_hour"}
    return [
        every,
        Fault("fast-leaker", "odd", f"{job}: rank {rank} leaks 8 times as fast", [r.path for r in hit], where),
    ]


def large_rank(planter: Planter) -> Fault:
    job = planter.job()
    rank, factor = planter.rank(job), float(planter.rng.uniform(1.4, 2.5))
    hit = [run for run in planter.fleet.of(job) if run.rank == rank]
    return _level(hit, factor, "large-rank", f"{job}: rank {rank} holds {factor:.1f} times as much", job, rank=rank)


def small_rank(planter: Planter) -> Fault:
    job = planter.job()
    rank, factor = planter.rank(job), float(planter.rng.uniform(0.3, 0.6))
    hit = [run for run in planter.fleet.of(job) if run.rank == rank]
    return _level(hit, factor, "small-rank", f"{job}: rank {rank} holds {factor:.1f} times as much", job, rank=rank)


def large_node(planter: Planter) -> Fault:
    job = planter.job()
    (node,), factor = planter.nodes(job, 1), float(planter.rng.uniform(1.25, 1.8))
    hit = [run for run in planter.fleet.of(job) if run.node.name == node]
    return _level(hit, factor, "large-node", f"{job}: ranks on {node} hold {factor:.1f} times as much", job, node=node)


def _level(hit: Sequence[Run], factor: float, kind: str, says: str, job: str, **where: Any) -> Fault:
    for run in hit:
        run.level_bytes *= factor
    return Fault(kind, "odd", says, [run.path for run in hit], {"job": job, "figure": "level", **where})


def large_gpu_rank(planter: Planter) -> Fault:
    job = planter.job()
    rank, factor = planter.rank(job), float(planter.rng.uniform(1.25, 1.45))
    hit = [run for run in planter.fleet.of(job) if run.rank == rank]
    for run in hit:
        run.gpu_peak_bytes = int((run.gpu_peak_bytes or 0) * factor)
    where = {"job": job, "rank": rank, "figure": "gpu_peak_bytes"}
    return Fault("large-gpu-rank", "odd", f"{job}: rank {rank} has more on its GPU", [run.path for run in hit], where)


def kills_by_limit(planter: Planter) -> Fault:
    """Some nodes have a limit that is too low: ranks there are killed."""
    job = planter.job()
    names = planter.nodes(job, max(1, min(4, len({run.node.name for run in planter.fleet.of(job)}) // 4)))
    hit = [run for run in planter.fleet.of(job) if run.node.name in names]
    limit = max(1, int(min(run.level_bytes for run in hit) / GiB)) * GiB
    for run in hit:
        run.limit_bytes = limit
        _kill(run)
    return Fault(
        "kills-by-limit",
        "kills",
        f"{job}: killed on {', '.join(names)}",
        [r.path for r in hit],
        {"job": job, "node": names},
    )


def kills_of_rank(planter: Planter) -> Fault:
    job = planter.job()
    rank = planter.rank(job)
    hit = [run for run in planter.fleet.of(job) if run.rank == rank]
    for run in hit:
        _kill(run)
    return Fault(
        "kills-of-rank", "kills", f"{job}: rank {rank} is killed", [r.path for r in hit], {"job": job, "rank": rank}
    )


def kills_of_pod(planter: Planter) -> Fault:
    job = planter.fleet.service
    runs = planter.fleet.of(job)
    often = [pod for pod in sorted({r.belongs["pod"] for r in runs}) if sum(r.belongs["pod"] == pod for r in runs) > 2]
    pod = planter.one(often)
    hit = [run for run in runs if run.belongs["pod"] == pod]
    for run in hit:
        _kill(run)
    return Fault(
        "kills-of-pod", "kills", f"{job}: {pod} is killed each time", [r.path for r in hit], {"job": job, "pod": pod}
    )


def _kill(run: Run) -> None:
    run.killed, run.cannot_tell, run.judged, run.fate = True, False, True, "final"
    kill = finding("oom-kill", run.job, "Trainer.batches (list)", "critical", 0, 0.0, "train.py", 88)
    run.findings.insert(0, kill)


def lost_on_node(planter: Planter) -> Fault:
    """The recordings of one node never came to an end."""
    job = planter.job()
    (node,) = planter.nodes(job, 1)
    hit = [run for run in planter.fleet.of(job) if run.node.name == node]
    for run in hit:
        run.fate = str(planter.one(["unfinished", "lost"]))
    return Fault("lost-on-node", "lost", f"{job}: lost on {node}", [r.path for r in hit], {"job": job, "node": node})


def peak_since_commit(planter: Planter) -> Fault:
    """A commit after which the same run needs more, without a leak."""
    job, factor = planter.fleet.nightly, float(planter.rng.uniform(1.18, 1.6))
    runs = planter.fleet.of(job)
    commits = list(dict.fromkeys(run.belongs["commit"] for run in runs))
    since = int(planter.rng.integers(6, len(commits) - 3))
    hit = [run for run in runs if commits.index(run.belongs["commit"]) >= since]
    for run in hit:
        run.level_bytes *= factor
    says = f"{job}: {factor - 1:.0%} more since {commits[since]}"
    return Fault("peak-since-commit", "commit", says, [r.path for r in hit], {"job": job, "commit": commits[since]})


FAULTS: dict[str, Callable[[Planter], Fault | list[Fault]]] = {
    "leak-since-attempt-not-on-driver": leak_since_attempt_not_on_driver,
    "leak-on-one-rank": leak_on_one_rank,
    "leak-on-one-node": leak_on_one_node,
    "leak-everywhere": leak_everywhere,
    "leak-of-local-rank": leak_of_local_rank,
    "leak-since-commit": leak_since_commit,
    "leak-of-image": leak_of_image,
    "leak-on-gpu-model": leak_on_gpu_model,
    "leak-on-some-nodes": leak_on_some_nodes,
    "leak-on-driver": leak_on_driver,
    "leak-of-namespace": leak_of_namespace,
    "fast-leaker": fast_leaker,
    "large-rank": large_rank,
    "small-rank": small_rank,
    "large-node": large_node,
    "large-gpu-rank": large_gpu_rank,
    "small-gpu-node": small_gpu_node,
    "kills-by-limit": kills_by_limit,
    "kills-of-rank": kills_of_rank,
    "kills-of-pod": kills_of_pod,
    "lost-on-node": lost_on_node,
    "peak-since-commit": peak_since_commit,
}
STANDARD = (
    "leak-since-attempt-not-on-driver", "leak-on-one-rank", "large-rank", "large-node", "kills-by-limit",
    "leak-since-commit", "lost-on-node",
)  # fmt: skip


def planted(fleet: Fleet, seed: int, kinds: Sequence[str] | int) -> list[Fault]:
    """Plant these kinds, or so many drawn by the seed; of each, the recordings in which a footer can tell it."""
    planter = Planter(fleet, seed)
    if isinstance(kinds, int):
        names = list(FAULTS)
        kinds = [names[i] for i in planter.rng.permutation(len(names))[:kinds]]
    found: list[Fault] = []
    for kind in kinds:
        fault = FAULTS[kind](planter)
        found += fault if isinstance(fault, list) else [fault]
    runs = {run.path: run for run in fleet.runs}
    return [replace(fault, paths=[p for p in fault.paths if _can_be_told(runs[p], fault)]) for fault in found]


def _can_be_told(run: Run, fault: Fault) -> bool:
    if fault.claim == "lost":
        return run.fate in ("unfinished", "lost")
    if (
        fault.where.get("figure") == "level" and run.killed and run.level_bytes > 0.8 * (run.limit_bytes or 0)
    ):  # its limit says it
        return False
    return run.fate in ("final", "lost") and (run.judged or fault.claim != "leak")
