"""Programs that run out of memory in all the ways there are: who killed them, at what limit, and what had filled it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cgroups import Cgroup
from .kills import DEATHS, Death, run
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
