"""Remedies tried in real processes: each gives back what it can, in order, and only where it may be tried."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.native.memory import rss_bytes

from .staging import rows, run, stage

MiB = 2**20
BEGIN = """
import gc, json, os, sys
from leakscope.agent.life import experiments
gc.disable()
"""
# Blocks below malloc's limit for mappings of their own, every 50th kept: the rest is free, and resident.
FRAGMENTED = """
blocks = [bytearray(100_000) for _ in range(2000)]
kept = blocks[::50]
del blocks
"""
GARBAGE = """
for _ in range(50):
    cycle = [bytearray(1_000_000)]
    cycle.append(cycle)
del cycle
"""
END = "print(json.dumps(list(experiments.run({arguments}))))"


def tried(program: str, arguments: str = "asked=True") -> list[dict[str, Any]]:
    source = BEGIN + program + END.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


pytestmark = [pytest.mark.live, pytest.mark.skipif(rss_bytes() is None, reason="reads /proc")]


def test_a_trim_gives_back_what_lay_free_inside_malloc() -> None:
    trim, collection = tried(FRAGMENTED)
    assert (trim["experiment"], collection["experiment"]) == ("malloc_trim", "gc.collect")
    assert trim["returned_bytes"] > 150 * MiB
    assert trim["experiment_s"] < 5
    assert abs(collection["returned_bytes"]) < 10 * MiB


def test_a_collection_is_credited_with_what_it_freed() -> None:
    trim, collection = tried(GARBAGE)
    assert trim["returned_bytes"] < 10 * MiB
    assert collection["returned_bytes"] > 40 * MiB
    assert collection["freed_count"] >= 50


def test_arrow_is_asked_for_what_its_pool_keeps_where_it_is_loaded() -> None:
    names = [row["experiment"] for row in tried("import pyarrow\n")]
    assert names == ["malloc_trim", "arrow.release_unused", "gc.collect"]


def test_a_remedy_says_that_it_gave_back_nothing() -> None:
    amounts = [row["returned_bytes"] for row in tried("held = [bytearray(100_000) for _ in range(500)]\n")]
    assert max(amounts) < 10 * MiB


LIVING_CHILD = """
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.close(write_end)
    os.read(read_end, 1)  # until the parent has ended
    os._exit(0)
"""
LARGE = "held = bytearray(220_000_000)\n"


def test_a_large_process_is_tried_without_being_asked() -> None:
    assert [row["experiment"] for row in tried(LARGE + "gc.enable()\n", "")] == ["malloc_trim", "gc.collect"]


def test_a_program_that_switched_collecting_off_is_left_to_end_without() -> None:
    assert [row["experiment"] for row in tried(LARGE, "")] == ["malloc_trim"]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("", ""),
        (LARGE + "sys.last_traceback = None\n", "asked=True"),
        (LARGE + "if os.fork(): os.wait(); os._exit(0)\n", "asked=True"),
    ],
    ids=["small", "after-an-exception", "forked-child"],
)
def test_where_nothing_is_tried(program: str, arguments: str) -> None:
    assert tried(program, arguments) == []


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (LARGE + LIVING_CHILD, ""),
        (LARGE, "budget_s=0.001"),
        (LARGE + "gc.callbacks.append(print)\n", ""),
        (LARGE + "gc.set_debug(gc.DEBUG_SAVEALL)\n", ""),
    ],
    ids=["living-child", "no-time", "callbacks", "debugged"],
)
def test_no_collection_where_it_would_cost_memory_or_time_or_be_noticed(program: str, arguments: str) -> None:
    assert [row["experiment"] for row in tried(program, arguments)] == ["malloc_trim"]


def test_caches_of_a_device_are_emptied_only_when_asked() -> None:
    """A stand-in for torch: the CUDA part was never run on a GPU."""
    stand_in = """
import types
cuda, binding = types.ModuleType("torch.cuda"), types.ModuleType("torch._C")
cuda._initialized = True
held = [12_000, 3_000]
binding._cuda_isCurrentStreamCapturing = lambda: False
binding._cuda_getDeviceCount = lambda: 1
binding._cuda_memoryStats = lambda device: {"reserved_bytes": {"all": {"current": held[0]}}}
binding._cuda_emptyCache = lambda: held.reverse()
sys.modules.update({"torch.cuda": cuda, "torch._C": binding})
"""
    found = {row["experiment"]: row for row in tried(stand_in)}
    assert found["torch.cuda.empty_cache"]["text"] == "reserved on the devices: 12000 bytes before, 3000 after"
    assert "torch.cuda.empty_cache" not in {row["experiment"] for row in tried(stand_in + LARGE, "")}


def test_the_agent_tries_them_as_the_process_ends(tmp_path: Path) -> None:
    journal = stage(tmp_path, probe=True)
    done = run(journal, "-c", "import atexit; atexit.register(print, 'at exit'); print('done')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\nat exit\n", "")
    assert [row["experiment"] for row in rows(journal)["experiments"]] == ["malloc_trim", "gc.collect"]
