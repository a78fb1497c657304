"""Memory figures and cleanups in a plain loop: no framework, no recording."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakscope.integrations import MemoryCleanup, _discovery
from leakscope.integrations._memory import MemoryFigures, rss_bytes
from leakscope.units import MiB

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(rss_bytes() is None, reason="needs /proc")


@pytest.fixture(autouse=True)
def by_itself() -> None:
    """A collection looks at what the test made, and not at what others left."""
    gc.freeze()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The automatic collector is off, as in a program that was told it would be faster so."""
    gc.disable()
    yield
    gc.enable()


class Node:
    """One half of a reference cycle."""

    def __init__(self) -> None:
        self.payload = bytearray(b"x" * MiB)
        self.me = self


def grows_by_a_mib_a_step() -> dict[str, float]:
    figures = MemoryFigures()
    kept = [bytearray(b"x" * 50 * MiB)]  # a model
    figures.begin(1)
    for step in range(2, 42):
        kept.append(bytearray(b"x" * MiB))
        figures.begin(step)
        if step % 10 == 0:
            logged = figures.at(step)
    return logged


def grows_once() -> dict[str, float]:
    figures = MemoryFigures()
    figures.begin(1)
    kept = bytearray(b"x" * 64 * MiB)
    for step in range(2, 1002):
        logged = figures.at(step)
    del kept
    return logged


def in_a_fresh_process(function: Callable[[], dict[str, float]]) -> dict[str, float]:
    """In that of the tests, memory freed by others is used up first."""
    code = f"import json; from {__name__} import {function.__name__} as f; print(json.dumps(f()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    logged: dict[str, float] = json.loads(done.stdout)
    return logged


@pytest.mark.live
def test_growth_is_counted_from_the_end_of_the_first_step_and_per_step() -> None:
    logged = in_a_fresh_process(grows_by_a_mib_a_step)
    assert logged["memory/growth_bytes"] == pytest.approx(39 * MiB, abs=8 * MiB)
    assert logged["memory/growth_bytes_per_step"] == pytest.approx(MiB, rel=0.2)
    assert logged["memory/rss_bytes"] > logged["memory/growth_bytes"]


@pytest.mark.live
def test_a_warm_up_drops_out_of_the_growth_per_step() -> None:
    logged = in_a_fresh_process(grows_once)
    assert logged["memory/growth_bytes"] > 50 * MiB
    assert abs(logged["memory/growth_bytes_per_step"]) < 16 * 1024


def test_a_cleanup_that_helps_says_what_it_freed_and_nothing_else(
    uncollected: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leakscope")
    cleanup = MemoryCleanup(every_n_steps=10, verdict_after=3)
    done = []
    for _ in range(60):
        Node()
        done.append(cleanup.step())
    cleanups = [c for c in done if c is not None]
    assert [done.index(c) for c in cleanups] == [9, 19, 29, 39, 49, 59]
    freed = sum(c.gain_bytes for c in cleanups[1:])
    assert 0.8 * 50 * MiB < freed < 1.5 * 50 * MiB, "malloc may give back some of its own beside"
    assert cleanup.summary.startswith("5 cleanups after the first freed ")
    assert all(c.object_count >= 10 for c in cleanups)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert caplog.messages[-1].startswith("cleanup freed ")


def test_memory_freed_inside_the_process_counts_although_the_system_does_not_get_it_back(uncollected: None) -> None:
    cleanup = MemoryCleanup(every_n_steps=1, verdict_after=2)
    apart = []
    gain_bytes = 0
    for _ in range(4):
        for number in range(40_000):
            pair: list[object] = [number]
            pair.append(pair)
            if number % 20 == 0:
                apart.append([number])  # keeps the pages of the allocator in use
        done = cleanup.step()
        assert done is not None
        gain_bytes += done.gain_bytes
    assert gain_bytes > 4 * 40_000 * 64


def test_cleanups_that_free_nothing_of_a_leak_are_called_useless_once(caplog: pytest.LogCaptureFixture) -> None:
    cleanup = MemoryCleanup(every_n_steps=5, verdict_after=4)
    start_up = [Node() for _ in range(30)]  # what the first one frees is no merit of the others
    leak = []
    for _ in range(50):
        leak.append(bytearray(MiB * b"x"))
        start_up.clear()
        cleanup.step()
    (warning,) = caplog.messages
    assert warning.startswith("4 cleanups after the first freed ")
    assert "memory grew by " in warning


def test_memory_that_is_handed_back_and_taken_again_is_no_merit(caplog: pytest.LogCaptureFixture) -> None:
    cleanup = MemoryCleanup(every_n_steps=5, verdict_after=4)
    leak = []
    for _ in range(30):
        passing = [bytearray(b"x" * 10_000) for _ in range(1000)]
        leak.append(bytearray(b"x" * MiB))
        del passing
        cleanup.step()
    (warning,) = caplog.messages
    assert "the program took it again, and memory grew by " in warning


def test_cleanups_where_nothing_grows_are_called_useless_too(caplog: pytest.LogCaptureFixture) -> None:
    cleanup = MemoryCleanup(every_n_steps=1, verdict_after=3)
    for _ in range(6):
        cleanup.step()
    (warning,) = caplog.messages
    assert warning.endswith(": this does not help (memory did not grow meanwhile)")


def test_a_recording_gets_a_mark_of_each_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = []
    agent = SimpleNamespace(mark=lambda step, phase, label: marks.append((step, phase, label)))
    monkeypatch.setitem(sys.modules, "_leakscope_agent", agent)
    done = MemoryCleanup().clean()
    assert marks == [(None, None, f"cleanup {done}")]


def test_an_interval_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="every_n_steps is 0: expected 1 or more"):
        MemoryCleanup(every_n_steps=0)


@pytest.mark.torch
def test_tensors_are_counted_by_storage_and_seldom() -> None:
    torch = pytest.importorskip("torch")
    figures = MemoryFigures()
    before = figures.at(1)
    kept = torch.zeros(2 * MiB, dtype=torch.uint8)
    views = [kept[: 1024 * n] for n in range(1, 20)]
    after = MemoryFigures().at(1)
    assert after["memory/tensor_bytes"] - before["memory/tensor_bytes"] == 2 * MiB
    assert after["memory/tensor_count"] - before["memory/tensor_count"] == 1 + len(views)
    assert "memory/tensor_bytes" not in figures.at(2), "looked up again although it is too soon"
    assert "memory/cuda_allocated_bytes" not in after or torch.cuda.is_initialized()


@pytest.mark.parametrize("name", ["transformers", "lightning"])
def test_without_its_framework_an_integration_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("transformers", "transformers.trainer_callback", "lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    monkeypatch.delitem(sys.modules, f"leakscope.integrations.{name}", raising=False)
    with pytest.raises(ImportError) as raised:
        __import__(f"leakscope.integrations.{name}")
    assert str(raised.value).startswith(f"leakscope.integrations.{name} needs ")
    assert raised.value.__cause__ is None and "\n" not in str(raised.value)


def test_discovery_does_nothing_unless_asked_and_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_discovery.VARIABLE, raising=False)
    loaded = set(sys.modules)
    assert _discovery.lightning_callbacks() == []
    _discovery.transformers_imported(None)
    assert set(sys.modules) == loaded
    monkeypatch.setenv(_discovery.VARIABLE, "1")
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    for module in ("lightning", "transformers"):
        monkeypatch.delitem(sys.modules, f"leakscope.integrations.{module}", raising=False)
    assert _discovery.lightning_callbacks() == []
    _discovery.transformers_imported(None)
