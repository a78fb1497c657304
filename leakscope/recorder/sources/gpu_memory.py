"""Memory of the GPUs the job uses and of the processes on them, by NVML. Runs in the recorder.

Written from the source of nvidia-ml-py. On an H100 starting NVML took 0.4 ms, the memory of a device 6 us, its
processes 62 us; asked in a loop by another process it did not slow launches of kernels, and ``cudaMalloc`` took twice
as long.

NVML makes no CUDA context. It still wakes GPUs that sleep, so it is not started before a process of the job holds one
open: a recording of a job without GPU has no rows. In a container NVML may speak in pids of the host; they are written
down only where they are the recorder's own. Rows of a device have ``gpu_total_bytes``, rows of a process on it do not.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from .. import proc
from ..tree import Row, Tree

TABLE = "gpu_samples"
PERIOD_S = 2.0  # a call takes locks of the driver
LIBRARY = "libnvidia-ml.so.1"
DEVICE_FILES = ("/dev/nvidia", "/dev/dxg")  # the second in WSL
MOST_FDS = 1000  # looked through for a device: whoever has more opened it long before
HOST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, the same on every kernel

# From nvml.h.
_SUCCESS, _FUNCTION_NOT_FOUND = 0, 13
_TEXT_BYTES = 96
_NOT_AVAILABLE = ctypes.c_ulonglong(-1).value
_MOST_PROCESSES = 1024
_PROCESS_LISTS = ("Compute", "Graphics", "MPSCompute")  # one process may be in several


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Device(NamedTuple):
    """A GPU, or an instance of one that is divided (MIG), which then stands for its part."""

    handle: Any
    number: int
    uuid: str | None
    name: str | None


def rows(tree: Tree) -> Iterator[Row]:
    """One row a device and one a process on it. **Cost** 20 us a device and the driver's own time."""
    nvml = _started(tree)
    if nvml is None:
        return
    for device in nvml.devices:
        memory = nvml.memory(device)
        if memory is None:  # fallen off the bus, or being reset
            continue
        known = {"gpu_uuid": device.uuid, "gpu_index": device.number}
        yield {**known, "gpu_name": device.name, "gpu_total_bytes": memory.total, "gpu_used_bytes": memory.used}
        used_by_pid = nvml.processes(device)
        pids_are_ours = _pids_are_ours(tree, used_by_pid)
        for pid, used_bytes in used_by_pid.items():
            yield {**known, **_who(tree, pid, pids_are_ours), "gpu_used_bytes": used_bytes}


def _who(tree: Tree, pid: int, pids_are_ours: bool) -> Row:
    if not pids_are_ours:
        return {"pid": None, "start_ticks": None, "comm": None, "is_ours": None}
    process = tree.living.get(pid)
    stat = process.stat if process is not None else proc.stat(pid)
    known = {"start_ticks": stat.start_ticks, "comm": stat.comm} if stat is not None else {}
    return {"pid": pid, **known, "is_ours": process is not None}


def _pids_are_ours(tree: Tree, pids: dict[int, int | None]) -> bool:
    """NVML's pids are those the recorder sees: always so on the host; in a container, where one of ours is among them.

    A pid of the host may by chance be that of one of ours too: it has to hold a GPU open.
    """
    return _namespace() == HOST_PID_NAMESPACE or any(pid in tree.living and _holds_gpu(pid) for pid in pids)


def _namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _started(tree: Tree) -> Nvml | None:
    """NVML, once a process of the job uses a GPU. None before, and for good where there is no library or no driver."""
    library = _library()
    if library is None:
        return None
    if not library.is_started and any(_holds_gpu(process.pid) for process in tree):
        library.start()
    return library


def _holds_gpu(pid: int) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        with os.scandir(folder) as entries:
            return any(_link(entry.path).startswith(DEVICE_FILES) for entry in islice(entries, MOST_FDS))
    except OSError:  # it ended, or belongs to somebody else
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


@lru_cache(maxsize=1)
def _library() -> Nvml | None:
    try:
        return Nvml(ctypes.CDLL(LIBRARY))
    except OSError:
        return None


class Nvml:
    """What is asked of the library. A call it lacks or that fails gives None or nothing: drivers differ."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.devices: list[Device] = []
        self.is_started = False
        self._library = library

    def start(self) -> None:
        """Find the devices. Without a driver there are none; it is not tried again."""
        self.is_started = True
        if self._call("nvmlInit_v2") == _SUCCESS:
            self.devices = list(self._find())

    def memory(self, device: Device) -> _Memory | None:
        memory = _Memory()
        done = self._call("nvmlDeviceGetMemoryInfo", device.handle, ctypes.byref(memory)) == _SUCCESS
        return memory if done else None

    def processes(self, device: Device) -> dict[int, int | None]:
        """Bytes of each process by pid; None where the driver does not tell (unprivileged, MIG, WSL)."""
        used_by_pid: dict[int, int | None] = {}
        for kind in _PROCESS_LISTS:
            for info in self._list(f"nvmlDeviceGet{kind}RunningProcesses", device):
                used_bytes = None if info.used == _NOT_AVAILABLE else int(info.used)
                used_by_pid[info.pid] = used_by_pid.get(info.pid) or used_bytes
        return used_by_pid

    def _list(self, name: str, device: Device) -> list[_ProcessInfo]:
        infos = (_ProcessInfo * _MOST_PROCESSES)()
        for version in ("v3", "v2"):
            count = ctypes.c_uint(_MOST_PROCESSES)
            if self._call(f"{name}_{version}", device.handle, ctypes.byref(count), infos) == _SUCCESS:
                return infos[: count.value]
        return []

    def _find(self) -> Iterator[Device]:
        for number in range(self._count("nvmlDeviceGetCount_v2")):
            handle = ctypes.c_void_p()
            if self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle)) == _SUCCESS:
                name = self._text("nvmlDeviceGetName", handle)
                for part in list(self._instances(handle)) or [handle]:
                    yield Device(part, number, self._text("nvmlDeviceGetUUID", part), name)

    def _instances(self, handle: Any) -> Iterator[Any]:
        """The parts of a divided GPU."""
        for number in range(self._count("nvmlDeviceGetMaxMigDeviceCount", handle)):
            part = ctypes.c_void_p()
            asked = handle, ctypes.c_uint(number), ctypes.byref(part)
            if self._call("nvmlDeviceGetMigDeviceHandleByIndex", *asked) == _SUCCESS:
                yield part

    def _count(self, name: str, *arguments: Any) -> int:
        count = ctypes.c_uint()
        return count.value if self._call(name, *arguments, ctypes.byref(count)) == _SUCCESS else 0

    def _text(self, name: str, handle: Any) -> str | None:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        done = self._call(name, handle, buffer, ctypes.c_uint(_TEXT_BYTES)) == _SUCCESS
        return buffer.value.decode("utf-8", "replace") if done else None

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._library, name, None)
        return _FUNCTION_NOT_FOUND if function is None else int(function(*arguments))
