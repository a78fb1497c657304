"""``record --gpu-history``: when torch's own history is turned on, and when it is written down.

There is no GPU here: torch is a stand-in with the functions of torch.cuda as its sources have them.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.torch.gpu_history import MOST_EVENTS, GpuHistory

from .staging import run, stage

GIB = 1 << 30


class FakeTorch:
    """torch.cuda before the job has used it, with what its functions were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cuda: str | None = "12.4") -> None:
        self.asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.waiting: list[Callable[[], Any]] = []
        self.enabled = self.is_old = False
        self.error: Exception | None = None
        self.free = 40 * GIB
        self.cuda = types.ModuleType("torch.cuda")
        self.cuda._lazy_call = self.waiting.append  # type: ignore[attr-defined]
        memory = types.ModuleType("torch.cuda.memory")
        memory._record_memory_history = self.record  # type: ignore[attr-defined]
        memory._dump_snapshot = self.dump  # type: ignore[attr-defined]
        memory.mem_get_info = lambda _device: (self.free, 80 * GIB)  # type: ignore[attr-defined]
        binding = types.ModuleType("torch._C")
        binding._cuda_isHistoryEnabled = lambda: self.enabled  # type: ignore[attr-defined]
        version = types.ModuleType("torch.version")
        version.cuda, version.hip = cuda, None  # type: ignore[attr-defined]
        named = {"torch": types.ModuleType("torch"), "torch.cuda": self.cuda, "torch.cuda.memory": memory,
                 "torch._C": binding, "torch.version": version}  # fmt: skip
        for name, module in named.items():
            monkeypatch.setitem(sys.modules, name, module)

    def record(self, *arguments: Any, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        if self.is_old and "max_entries" in options:
            raise TypeError("unexpected keyword argument 'max_entries'")
        self.asked.append((arguments, options))
        self.enabled = True

    def dump(self, path: str) -> None:
        if self.error is not None:
            raise self.error
        with open(path, "wb") as stream:
            pickle.dump({"segments": []}, stream)

    def initialise(self) -> None:
        for call in self.waiting:
            call()


class Told:
    """A history in a folder, and the notes it makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[tuple[str, str]] = []
        self.history = GpuHistory(lambda number: str(folder / f"{number}.gpu.pickle"), lambda *n: self.notes.append(n))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    return FakeTorch(monkeypatch)


def begun(torch: FakeTorch, folder: Path) -> Told:
    told = Told(folder)
    told.history.hooks()["torch.cuda"](None, torch.cuda)
    torch.initialise()
    return told


ROW = {"device": "cuda:0", "reserved_bytes": 30 * GIB, "active_bytes": 29 * GIB}


@pytest.mark.live
@pytest.mark.parametrize("is_asked", [True, False])
def test_nothing_of_it_is_loaded_unasked(tmp_path: Path, is_asked: bool) -> None:
    journal = stage(tmp_path, gpu_history=is_asked)
    done = run(journal, "-c", "import sys; print(*vars(sys.modules['_leakscope_agent'].torch))")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("gpu_history" in done.stdout.split()) == is_asked
    assert "cuda" in done.stdout.split()  # or it proves nothing


def test_cuda_is_never_initialised_by_us(torch: FakeTorch, tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.history.hooks()["torch.cuda"](None, torch.cuda)
    assert not torch.asked
    torch.initialise()
    assert torch.asked == [(("all",), {"context": "alloc", "stacks": "python", "max_entries": MOST_EVENTS})]


def test_the_first_torch_that_had_it_is_asked_in_its_own_words(torch: FakeTorch, tmp_path: Path) -> None:
    torch.is_old = True
    assert begun(torch, tmp_path).history.is_on
    assert torch.asked[0][0] == (True,) and torch.asked[0][1]["trace_alloc_max_entries"] == MOST_EVENTS


def test_a_history_of_the_job_is_left_alone_and_read(torch: FakeTorch, tmp_path: Path) -> None:
    torch.enabled = True
    told = begun(torch, tmp_path)
    assert not torch.asked
    told.history.write("out-of-memory")
    assert told.files() == ["1.gpu.pickle"]


def test_what_torch_refuses_does_not_reach_the_job(torch: FakeTorch, tmp_path: Path) -> None:
    torch.error = RuntimeError("cudaMallocAsync does not yet support recordHistory\nsecond line")
    told = begun(torch, tmp_path)
    assert told.notes == [
        ("gpu-history", "not recorded: torch refuses (cudaMallocAsync does not yet support recordHistory)")
    ]
    told.history.write("out-of-memory")
    assert told.files() == []


def test_snapshots_are_few_whatever_fails(torch: FakeTorch, tmp_path: Path) -> None:
    told = begun(torch, tmp_path)
    for _ in range(5):
        told.history.write("out-of-memory")
    told.history.end()
    assert told.files() == ["1.gpu.pickle", "2.gpu.pickle", "3.gpu.pickle"]
    assert [text for kind, text in told.notes if kind == "gpu-snapshot"][-1] == "3: exit"


def test_one_when_a_device_is_almost_full(torch: FakeTorch, tmp_path: Path) -> None:
    told = begun(torch, tmp_path)
    told.history.look([ROW])
    assert told.files() == []
    torch.free = 1 * GIB
    told.history.look([ROW])
    told.history.look([ROW])
    assert told.files() == ["1.gpu.pickle"]


def test_a_full_disk_is_a_note(torch: FakeTorch, tmp_path: Path) -> None:
    told = begun(torch, tmp_path)
    torch.error = OSError(28, "No space left on device")
    told.history.write("exit")
    assert told.files() == [] and "No space left" in told.notes[-1][1]


@pytest.mark.parametrize(("cuda", "why"), [(None, "built without CUDA"), ("12.4", "did not use CUDA")])
def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cuda: str | None, why: str) -> None:
    FakeTorch(monkeypatch, cuda)
    told = Told(tmp_path)
    told.history.end()
    assert len(told.notes) == 1 and why in told.notes[0][1]
