"""Programs that run out of memory in all the ways there are: who killed them, at what limit, and what had filled it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cgroups import Cgroup
from .kills import DEATHS, Death, run
from .programs import LONGEST_S, report
from .test_oom_real import cgroup

__all__ = ["cgroup"]
pytestmark = [pytest.mark.live, pytest.mark.oom_real, pytest.mark.slow]


def _deaths() -> Iterator[object]:
    """One of each kind; at other limits and rates what says the same of them."""
    kinds = set()
    for death in DEATHS:
        kind = death.name.split("-")[0]
        yield pytest.param(death, id=death.name, marks=[pytest.mark.further] if kind in kinds else [])
        kinds.add(kind)


@pytest.mark.parametrize("death", _deaths())
def test_who_killed_it_at_what_limit_and_what_had_filled_it(death: Death, cgroup: Cgroup, tmp_path: Path) -> None:
    if death.around and (os.geteuid() != 0 or shutil.which("unshare") is None):
        pytest.skip("no /dev/shm of its own can be had here")
    assert run(death, tmp_path, cgroup).wrong == []


def test_a_command_that_moves_into_its_cgroup_later_is_known_there(cgroup: Cgroup, tmp_path: Path) -> None:
    """As a launcher of a scheduler does, after the recorder has looked at it."""
    later = Death("moved", DEATHS[0].program, 40, 300, False, "features", "self.features.append")
    moves = ("sh", "-c", f'sleep 3; echo $$ > {cgroup.folder}/cgroup.procs; exec "$0" "$@"')
    cgroup.limit(300 << 20)
    told = run(later._replace(before=moves, limit_mib=None), tmp_path, None)
    assert "out of memory, cgroup limit 300 MiB" in told.last_words


AT_ONCE = """
import multiprocessing, sys, time

def rows(count):
    return [bytes(1000) for _ in range(count)]

def in_one_piece(table):
    return bytearray(b"".join(table) * 40)

def main():
    table = rows(100_000)
    time.sleep(6)
    in_one_piece(table)

if sys.argv[1] == "worker":
    worker = multiprocessing.get_context("fork").Process(target=main)
    worker.start()
    worker.join()
    sys.exit(bool(worker.exitcode))
main()
"""


@pytest.mark.parametrize("who", ["main", "worker"])
def test_who_asked_for_what_came_within_the_last_second_is_named(who: str, cgroup: Cgroup, tmp_path: Path) -> None:
    """No snapshot can have seen it, and nobody had the time to write anything down."""
    program = tmp_path / "train.py"
    program.write_text(AT_ONCE)
    cgroup.limit(400 << 20)
    inside = ["sh", "-c", f'echo $$ > {cgroup.folder}/cgroup.procs; exec "$0" "$@"', sys.executable, str(program), who]
    output = tmp_path / "run.parquet"
    record = [sys.executable, "-m", "leakscope", "record", "-q", "-o", str(output), "--", *inside]
    subprocess.run(record, cwd=tmp_path, timeout=LONGEST_S)
    first = report(output)["findings"][0]
    assert first["kind"] == "oom-kill"
    line = AT_ONCE.splitlines()[first["subject"]["line"] - 1]
    assert (line.strip(), first["subject"]["function"]) == ('return bytearray(b"".join(table) * 40)', "in_one_piece")
    assert "at once in in_one_piece() (train.py:8), not 3." in first["remedy"][0]
