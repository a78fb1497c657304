"""The agent beside CUDA: what it reads, when it keeps its hands off, and what it says when memory runs out.

There is no GPU here: torch is a stand-in with the functions of torch._C as its sources have them.
"""

from __future__ import annotations

import _thread
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.torch import cuda
from leakscope.schema import TABLES

GIB = 1 << 30
nobody_runs: Callable[[], dict[int, Any]] = dict


# C has no frames; one of this name counts for as little.
as_from_c: dict[str, Any] = {}
exec(compile("def fail(error): raise error", "<frozen torch._C>", "exec"), as_from_c)


def stat(current: int, peak: int = 0) -> dict[str, dict[str, int]]:
    figures = {"current": current, "peak": peak or current, "allocated": 2 * current, "freed": current}
    return {"all": figures, "small_pool": figures, "large_pool": figures}


class FakeCuda:
    """torch.cuda and torch._C of a process with two devices, of which it uses the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, initialized: bool = True) -> None:
        self.calls: list[str] = []
        self.capturing = False
        self.error: Exception | None = None
        self.observers: list[Callable[..., Any]] = []
        self.binding = types.ModuleType("torch._C")
        self.backend = "native"
        own = "memoryStats", "hostMemoryStats", "getDeviceCount", "isCurrentStreamCapturing", "getAllocatorBackend"
        for name in own:
            setattr(self.binding, f"_cuda_{name}", self._counted(name))
        self.binding._cuda_attach_out_of_memory_observer = self._counted("attach")  # type: ignore[attr-defined]
        module = types.ModuleType("torch.cuda")
        module._initialized = initialized  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch.cuda", module)
        monkeypatch.setitem(sys.modules, "torch._C", self.binding)

    def _counted(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if self.error is not None:
                as_from_c["fail"](self.error)
            return getattr(self, name)(*arguments)

        return call

    def getDeviceCount(self) -> int:
        return 2

    def getAllocatorBackend(self) -> str:
        return self.backend

    def isCurrentStreamCapturing(self) -> bool:
        return self.capturing

    def memoryStats(self, device: int) -> dict[str, Any]:
        used = GIB if device == 0 else 0
        names = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")
        stats: dict[str, Any] = {name: stat(i * used) for i, name in enumerate(names, 2)}
        return {**stats, "num_alloc_retries": 3, "num_ooms": 1}

    def hostMemoryStats(self) -> dict[str, Any]:
        return {"allocated_bytes": stat(5 * GIB)["all"], "num_host_alloc": 4}

    def attach(self, observer: Callable[..., Any]) -> None:
        self.observers.append(observer)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was read or attached before, and CUDA is that of this process."""
    monkeypatch.setattr(cuda, "_next_s", 0.0)
    monkeypatch.setattr(cuda, "_attach_tried", False)
    monkeypatch.setattr(cuda, "_PID", os.getpid())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def torch_error(name: str = "AcceleratorError") -> Exception:
    """As torch makes them: a subclass of RuntimeError of its own."""
    error: Exception = type(name, (RuntimeError,), {"__module__": "torch"})("device-side assert\nmore lines")
    return error


def test_the_devices_in_use_are_read(fake: FakeCuda) -> None:
    (row,) = cuda.rows(7)
    assert row == {
        "device": "cuda:0",
        "allocated_bytes": 2 * GIB,
        "reserved_bytes": 3 * GIB,
        "active_bytes": 4 * GIB,
        "inactive_split_bytes": 5 * GIB,
        "peak_allocated_bytes": 2 * GIB,
        "alloc_retry_count": 3,
        "device_oom_count": 1,
        "pinned_bytes": 5 * GIB,
        "step": 7,
    }
    assert set(row) <= {column.name for column in TABLES["allocator"].columns}


def test_a_torch_without_figures_of_pinned_memory(fake: FakeCuda) -> None:
    del fake.binding._cuda_hostMemoryStats
    (row,) = cuda.rows(None)
    assert row["pinned_bytes"] is None


def test_a_curve_has_a_point_a_second_at_most(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(cuda, "monotonic", lambda: now[0])
    read = []
    for now[0] in (100.0, 100.4, 100.9, 101.1, 102.0, 102.2):
        read += [now[0] for _ in cuda.rows_if_due(1)]
    assert read == [100.0, 101.1, 102.2]


def test_from_aside_only_counters_are_read_and_no_driver_is_asked(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service has no steps after which to look; another thread may be capturing a graph, or use another device."""
    fake.capturing = True
    assert [row["device"] for row in cuda.rows_from_aside(7)] == ["cuda:0"]
    assert "isCurrentStreamCapturing" not in fake.calls
    assert cuda.rows_from_aside(7) == [], "a second has not passed"
    monkeypatch.setattr(cuda, "_next_s", 0.0)
    fake.backend = "cudaMallocAsync"
    del fake.calls[:]
    assert cuda.rows_from_aside(7) == []
    assert fake.calls == ["getAllocatorBackend"]
    fake.error = torch_error()
    assert cuda.rows_from_aside(7) == []


def test_nothing_is_called_before_the_job_initialised_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch, initialized=False)
    assert cuda.rows(1) == []
    assert cuda.device_row(0, 1) is None
    assert cuda.attach_oom_observer(print, nobody_runs) is None
    assert fake.calls == []
    sys.modules["torch.cuda"]._initialized = True  # type: ignore[attr-defined]
    assert cuda.attach_oom_observer(print, nobody_runs) is None
    assert len(fake.observers) == 1


def test_nothing_is_called_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.cuda", "torch._C"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    assert cuda.rows(1) == []
    assert cuda.attach_oom_observer(print, nobody_runs) is None


def test_nothing_is_called_in_a_forked_child(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_PID", os.getpid() - 1)
    assert cuda.rows(1) == []
    assert cuda.device_row(0, 1) is None
    assert cuda.attach_oom_observer(print, nobody_runs) is None
    assert fake.calls == []


def test_a_graph_capture_is_not_disturbed(fake: FakeCuda) -> None:
    fake.capturing = True
    assert cuda.rows(1) == []
    assert cuda.attach_oom_observer(print, nobody_runs) is None
    assert set(fake.calls) == {"isCurrentStreamCapturing"}
    fake.capturing = False
    assert len(cuda.rows(1)) == 1
    cuda.attach_oom_observer(print, nobody_runs)
    assert len(fake.observers) == 1


def test_a_broken_device_is_the_jobs_to_hear_of(fake: FakeCuda) -> None:
    fake.error = torch_error()
    assert cuda.rows(1) == []
    assert cuda.device_row(0, 1) is None
    assert cuda.attach_oom_observer(print, nobody_runs) is None


def test_what_a_signal_handler_of_the_job_raised_goes_on_its_way(fake: FakeCuda) -> None:
    fake.getDeviceCount = lambda: signal.raise_signal(signal.SIGUSR1)  # type: ignore[method-assign]
    before = signal.signal(signal.SIGUSR1, _raises)
    try:
        with pytest.raises(KeyError):
            cuda.rows(1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def _raises(number: int, frame: object) -> None:
    raise KeyError("of the job")


def test_a_refusal_is_said_once(fake: FakeCuda) -> None:
    nobody: list[Any] = []
    fake.binding._cuda_attach_out_of_memory_observer = nobody.remove  # type: ignore[attr-defined]
    note = cuda.attach_oom_observer(print, nobody_runs)
    assert note == "CUDA out-of-memory errors are not observed: list.remove(x): x not in list"
    assert cuda.attach_oom_observer(print, nobody_runs) is None


def test_running_out_is_told_with_the_lines_of_the_user(fake: FakeCuda) -> None:
    told: list[tuple[Any, ...]] = []
    cuda.attach_oom_observer(lambda *figures: told.append(figures), nobody_runs)
    fake.observers[0](0, 2 * GIB, 80 * GIB, GIB)
    (figures,) = told
    assert figures[:4] == (0, 2 * GIB, 80 * GIB, GIB)
    assert figures[4].startswith(f"{__file__}:")
    assert "test_running_out_is_told_with_the_lines_of_the_user" in figures[4].split(" < ")[0]
    text = cuda.oom_text(*figures)
    assert text.startswith(f"cuda:0: {2 * GIB} bytes asked for, {GIB} free of {80 * GIB}, at {__file__}:")


@pytest.mark.parametrize("is_readable", [True, False])
def test_running_out_in_backward_is_told_with_who_waits_for_it(fake: FakeCuda, is_readable: bool) -> None:
    """The engine's threads have no Python frames; the one that called backward() waits in torch/autograd.

    Where C code cannot read what that runs, nothing is said of it: its frames are not ours to hold.
    """
    told: list[tuple[Any, ...]] = []
    graph = HeapGraph()
    if is_readable and graph.refusal is not None:
        pytest.skip(f"no heap graph: {graph.refusal}")
    cuda.attach_oom_observer(lambda *figures: told.append(figures), graph.running if is_readable else nobody_runs)
    engine: dict[str, Any] = {}
    exec(compile("def run_backward(done): done.acquire()", "/site-packages/torch/autograd/graph.py", "exec"), engine)
    done = threading.Lock()
    done.acquire()

    def training_step() -> None:
        engine["run_backward"](done)

    trainer = threading.Thread(target=training_step)
    trainer.start()
    while sys._current_frames()[trainer.ident or 0].f_code.co_name != "run_backward":
        pass
    _thread.start_new_thread(fake.observers[0], (0, 1, 2, 1))
    while not told:
        pass
    done.release()
    trainer.join()
    assert told[0][4].endswith(" training_step (in backward)" if is_readable else "")
    assert bool(told[0][4]) == is_readable


def test_what_fails_while_telling_does_not_replace_the_jobs_error(fake: FakeCuda) -> None:
    def fails(*figures: Any) -> None:
        raise ValueError("disk full")

    cuda.attach_oom_observer(fails, nobody_runs)
    assert fake.observers[0](0, 1, 2, 1) is None


def test_a_job_that_runs_out_again_and_again_is_told_of_a_few_times(fake: FakeCuda) -> None:
    told: list[Any] = []
    cuda.attach_oom_observer(lambda *figures: told.append(figures), nobody_runs)
    for _ in range(100):
        fake.observers[0](0, 1, 2, 1)
    assert len(told) == cuda.MOST_REPORTS


@pytest.mark.parametrize("is_user", [True, False], ids=["user's frames", "looked for in other threads"])
def test_telling_keeps_no_frame_alive(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch, is_user: bool) -> None:
    monkeypatch.setattr(cuda.names, "is_user_file", lambda file: is_user)
    graph = HeapGraph()
    cuda.attach_oom_observer(lambda *figures: None, nobody_runs if graph.refusal else graph.running)
    held: list[weakref.ref[Any]] = []

    def step() -> None:
        batch = FakeBatch()
        held.append(weakref.ref(batch))
        fake.observers[0](0, 1, 2, 1)

    gc.disable()  # a cycle through a frame would be collected sooner or later
    try:
        step()
        assert held[0]() is None
    finally:
        gc.enable()


class FakeBatch:
    """Something large in the frame that ran out."""


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.torch
def test_beside_the_real_torch_cuda_stays_untouched() -> None:
    pytest.importorskip("torch")
    script = """
        import torch, sys
        from leakscope.agent.torch import cuda
        assert cuda.rows(1) == [] and cuda.rows_if_due(1) == [] and cuda.device_row(0, 1) is None
        assert cuda.attach_oom_observer(print, dict) is None
        assert not torch.cuda.is_initialized()
        assert type(torch.cuda.__dict__["_initialized"]) is bool  # what we read is still there
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)
