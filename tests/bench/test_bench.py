"""The benchmarks' own programs lean on inner names of the agent: that they still run, whatever they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import heap, sampling
from .runs import PYTHON, TookTooLong, spent_by

pytestmark = pytest.mark.live


def test_the_bench_of_the_heap_graph_reads_one() -> None:
    nodes, *figures = heap._run(heap._LISTS, 10_000)
    assert nodes > 20_000  # a list and its number, each
    assert all(value > 0 for value in figures)


def test_the_bench_of_sampling_samples() -> None:
    assert all(value > 0 for value in sampling._run("objects", pairs=1)[:3])


def test_the_bench_of_mallocs_takes_samples() -> None:
    skipped: list[str] = []
    figures = {figure.what: figure.value for figure in sampling._mallocs(skipped)}
    assert skipped or figures["a malloc and its free: added where one is taken"] > 0


def test_a_run_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """A child in a session of its own, with the pipes of its parent, was waited for until it ended by itself."""
    child = "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, sys.argv[1]])"
    told = tmp_path / "pid"
    with pytest.raises(TookTooLong):
        spent_by([PYTHON, "-c", parent, str(told)], most_s=10.0)
    stat = Path(f"/proc/{told.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"  # nobody may reap it here
