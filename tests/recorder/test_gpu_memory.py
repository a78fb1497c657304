"""GPUs by NVML: the library is a stand-in compiled here, so that the calls really go through ctypes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.recorder import console, proc
from leakscope.recorder.output import Output
from leakscope.recorder.sampler import Sampler
from leakscope.recorder.sources import gpu_memory
from leakscope.recorder.tree import Process, Tree
from leakscope.schema import TABLES

pytestmark = pytest.mark.live

GIB = 1 << 30
OURS = os.getpid()
OTHERS = 1

# Two GPUs; the second is divided into two instances. Signatures and codes as in nvml.h.
SOURCE = r"""
#include <stdio.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;
static int devices[4];  /* GPU 0, GPU 1, its two instances */
static int lost = -1, started = 0;
static unsigned pids[2];
void fake_reset(unsigned ours, unsigned others, int lost_device) {
    pids[0] = ours; pids[1] = others; lost = lost_device; started = 0;
}
int fake_started(void) { return started; }
int nvmlInit_v2(void) { started++; return NO_DRIVER ? 9 : 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = &devices[i]; return i > 1 ? 2 : 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = 7; return device == &devices[1] ? 0 : 3; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **part) {
    if (i > 1) return 6;
    *part = &devices[2 + i];
    return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) { strncpy(name, "NVIDIA X100", size); return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    int i = (int *)device - devices;
    snprintf(uuid, size, "%s-%d", i < 2 ? "GPU" : "MIG", i);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    if ((int *)device - devices == lost) return 15;
    memory->total = 80ull << 30; memory->used = 70ull << 30; memory->free = 10ull << 30;
    return 0;
}
static int list(void *device, unsigned *count, process_t *processes) {
    if (device != &devices[0]) { *count = 0; return 0; }
    if (*count < 2) { *count = 2; return 7; }
    processes[0].pid = pids[0]; processes[0].used = 40ull << 30;
    processes[1].pid = pids[1]; processes[1].used = ~0ull;  /* not available */
    *count = 2;
    return 0;
}
#if OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, unsigned *c, process_t *p) { return list(d, c, p); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *c, process_t *p) { return list(d, c, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *c, process_t *p) { return list(d, c, p); }
#endif
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Path of a stand-in library: an up-to-date one, an old driver's, or one without a driver."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(SOURCE)

    def build(old_driver: bool = False, no_driver: bool = False) -> str:
        library = folder / f"libnvidia-ml-{old_driver:d}{no_driver:d}.so.1"
        flags = [f"-DOLD_DRIVER={old_driver:d}", f"-DNO_DRIVER={no_driver:d}", "-w"]
        if not library.exists():
            subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", library, folder / "nvml.c"], check=True)
        return str(library)

    return build


@pytest.fixture
def use(compiled: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Has the source load a stand-in, with this process as a job that holds a GPU open unless told otherwise."""

    def load(*, holds_gpu: bool = True, on_host: bool = True, lost: int = -1, **kind: bool) -> Any:
        monkeypatch.setattr(gpu_memory, "LIBRARY", compiled(**kind))
        monkeypatch.setattr(gpu_memory, "_holds_gpu", lambda pid: holds_gpu and pid == OURS)
        namespace = gpu_memory.HOST_PID_NAMESPACE if on_host else "pid:[4026532500]"
        monkeypatch.setattr(gpu_memory, "_namespace", lambda: namespace)
        gpu_memory._library.cache_clear()
        library = gpu_memory._library()
        assert library is not None
        library._library.fake_reset(OURS, OTHERS, lost)
        return library._library

    yield load
    gpu_memory._library.cache_clear()


def tree() -> Tree:
    """A tree of one process, this one."""
    found = Tree(OURS, 1)
    stat = proc.stat(OURS)
    assert stat is not None
    found.living[OURS] = Process(OURS, stat, 0.0, 0, True)
    return found


def test_a_gpu_and_the_processes_on_it(use: Callable[..., Any]) -> None:
    use()
    rows = list(gpu_memory.rows(tree()))
    assert rows[0] == {
        "gpu_uuid": "GPU-0",
        "gpu_index": 0,
        "gpu_name": "NVIDIA X100",
        "gpu_total_bytes": 80 * GIB,
        "gpu_used_bytes": 70 * GIB,
    }
    ours, others = rows[1:3]
    assert (ours["pid"], ours["is_ours"], ours["gpu_used_bytes"]) == (OURS, True, 40 * GIB)
    assert ours["start_ticks"] == tree().living[OURS].stat.start_ticks
    assert (others["pid"], others["is_ours"], others["gpu_used_bytes"]) == (OTHERS, False, None)
    assert all(set(row) <= {column.name for column in TABLES["gpu_samples"].columns} for row in rows)


def test_a_divided_gpu_is_seen_by_its_instances(use: Callable[..., Any]) -> None:
    use()
    devices = [row for row in gpu_memory.rows(tree()) if "gpu_total_bytes" in row]
    assert [(row["gpu_uuid"], row["gpu_index"]) for row in devices] == [("GPU-0", 0), ("MIG-2", 1), ("MIG-3", 1)]


def test_an_older_driver(use: Callable[..., Any]) -> None:
    use(old_driver=True)
    assert [row["pid"] for row in gpu_memory.rows(tree()) if "pid" in row] == [OURS, OTHERS]


def test_nothing_is_woken_before_the_job_uses_a_gpu(use: Callable[..., Any]) -> None:
    library = use(holds_gpu=False)
    assert list(gpu_memory.rows(tree())) == []
    assert library.fake_started() == 0


def test_without_a_driver_it_is_tried_once(use: Callable[..., Any]) -> None:
    library = use(no_driver=True)
    assert list(gpu_memory.rows(tree())) == list(gpu_memory.rows(tree())) == []
    assert library.fake_started() == 1


def test_without_the_library_there_are_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "LIBRARY", "libnvidia-ml-is-not-here.so.1")
    gpu_memory._library.cache_clear()
    assert list(gpu_memory.rows(tree())) == []
    gpu_memory._library.cache_clear()


def test_a_gpu_that_fell_off_the_bus_costs_only_its_own_rows(use: Callable[..., Any]) -> None:
    use(lost=0)
    assert [row["gpu_uuid"] for row in gpu_memory.rows(tree())] == ["MIG-2", "MIG-3"]


def test_pids_of_the_host_are_not_taken_for_ours_in_a_container(use: Callable[..., Any]) -> None:
    library = use(on_host=False)
    library.fake_reset(777_777, OTHERS, -1)
    processes = [row for row in gpu_memory.rows(tree()) if "gpu_total_bytes" not in row]
    assert [(row["pid"], row["is_ours"]) for row in processes] == [(None, None), (None, None)]


def test_a_driver_that_knows_containers_is_believed(use: Callable[..., Any]) -> None:
    use(on_host=False)
    processes = [row for row in gpu_memory.rows(tree()) if "gpu_total_bytes" not in row]
    assert [(row["pid"], row["is_ours"]) for row in processes] == [(OURS, True), (OTHERS, False)]


def test_a_process_that_holds_a_device_open_is_known_by_its_files(tmp_path: Path, monkeypatch: Any) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(gpu_memory, "DEVICE_FILES", (str(device),))
    assert not gpu_memory._holds_gpu(OURS)
    with device.open():
        assert gpu_memory._holds_gpu(OURS)
    assert not gpu_memory._holds_gpu(2**22)


def test_a_round_costs_little(use: Callable[..., Any]) -> None:
    use()
    job = tree()
    list(gpu_memory.rows(job))
    began_s = time.perf_counter()
    for _ in range(20):
        list(gpu_memory.rows(job))
    assert (time.perf_counter() - began_s) / 20 < 0.02  # of every 2 s: 1 %


def test_the_driver_is_asked_in_its_own_time(use: Callable[..., Any], tmp_path: Path) -> None:
    use()
    now_s = [0.0]
    output = Output.claim(str(tmp_path / "run.parquet"), force=False, meta={"command": ["x"]}, agent_config=None)
    sampler = Sampler(
        output, tree(), interval_s=0.25, flush_s=60.0, fsync_s=None, asks_agents=False,
        status=console.Status(False), clock=lambda: now_s[0],
    )  # fmt: skip
    asked = []
    for now_s[0] in (0.0, 0.5, 1.0, 1.9, 2.1, 3.0, 4.2):
        asked += [now_s[0] for _ in sampler._ask(gpu_memory, now_s[0])[:1]]
    assert asked == [0.0, 2.1, 4.2]
