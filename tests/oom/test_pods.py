"""What kubectl says of a pod, alone and beside the kernel's log of its node."""

from __future__ import annotations

import json
from typing import Any

from leakscope import oom

ID = "5f3c0e2b7c0a4d2e9b8f6a1d3c5e7f90123456789abcdef0123456789abcdef0"
UID = "8a1f2c3d-1111-2222-3333-444455556666"
POD = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
CGROUP = f"/kubepods.slice/kubepods-burstable.slice/{POD}/cri-containerd-{ID}.scope"
OOM_KILL = (
    f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-{ID}.scope,mems_allowed=0,"
    f"oom_memcg={CGROUP},task_memcg={CGROUP},task=python,pid=4711,uid=0"
)
KILLED = (
    "Memory cgroup out of memory: Killed process 4711 (python) total-vm:20000000kB, anon-rss:16700000kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:40000kB oom_score_adj:976"
)
KERNEL = f"""
[101.000000] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=976
[101.000001] memory: usage 16777216kB, limit 16777216kB, failcnt 90
[101.000002] {OOM_KILL}
[101.000003] {KILLED}
"""


def described(*, restarted: bool) -> str:
    killed = "Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
    states = (
        f"    State:          Running\n    Last State:     {killed}" if restarted else f"    State:          {killed}"
    )
    return f"""Name:             train-0-x7f2q
Namespace:        vision
Node:             node-7/10.0.0.7
Labels:           app=train
Containers:
  helper:
    Container ID:  containerd://{"0" * 64}
    State:          Running
    Limits:
      memory:  1Gi
  train:
    Container ID:  containerd://{ID}
    Image:         registry.example/train:1.4
    Image ID:      registry.example/train@sha256:00
    Port:          <none>
    Host Port:     <none>
    Command:
      /opt/leakscope/bin/leakscope
      record
{states}    Ready:          True
    Restart Count:  {int(restarted)}
    Limits:
      cpu:     4
      memory:  16Gi
    Requests:
      memory:     8Gi
Events:
  Type     Reason     Age   From     Message
  Warning  BackOff    3m    kubelet  Back-off restarting failed container train in pod train-0-x7f2q_vision
"""


def pod(killed_in: str) -> dict[str, Any]:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": f"containerd://{ID}"}}
    status = {"name": "train", "containerID": f"containerd://{'1' * 64}", "restartCount": 2, killed_in: ended}
    return {
        "kind": "Pod",
        "metadata": {"name": "train-0-x7f2q", "namespace": "vision", "uid": UID},
        "spec": {"nodeName": "node-7", "containers": [{"name": "train", "resources": {"limits": {"memory": "16Gi"}}}]},
        "status": {"containerStatuses": [status]},
    }


def facts(event: oom.OomEvent) -> tuple[object, ...]:
    return event.pod, event.container, event.node, event.limit_kb


TRAIN = ("vision/train-0-x7f2q", "train", "node-7", 16 << 20)


def test_described_alone() -> None:
    (event,) = oom.read(described(restarted=True)).events
    assert facts(event) == TRAIN
    assert event.container_id is None  # what it shows is the container that was started since
    assert event.restart_count == 1
    said = " ".join(oom.describe(event))
    assert "container train of pod vision/train-0-x7f2q on node node-7, whose memory limit is 16.0 GiB" in said
    assert "restarted 1 time" in said


def test_described_beside_the_kernels_log() -> None:
    (event,) = oom.read(described(restarted=False) + KERNEL).events
    assert event.is_kernel and event.pid == 4711
    assert facts(event) == TRAIN
    assert "That is container train of pod vision/train-0-x7f2q" in " ".join(oom.describe(event))


def test_after_a_restart_nothing_proves_that_it_is_the_same() -> None:
    status, kernel = oom.read(described(restarted=True) + KERNEL).events
    assert facts(status) == TRAIN
    assert kernel.pod is None


def test_as_json() -> None:
    for document in (pod("state"), {"kind": "List", "items": [pod("lastState")]}):
        (event,) = oom.read(json.dumps(document, indent=1)).events
        assert facts(event) == TRAIN
        assert event.container_id == ID
        assert event.restart_count == 2
