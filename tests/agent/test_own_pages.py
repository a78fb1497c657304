"""What the agent maps for itself is no array of the program's."""

from __future__ import annotations

from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = pytest.mark.live  # it starts a process

PROGRAM = """
import mmap, time
time.sleep(2)  # until the first snapshot, without a page of its own
own = mmap.mmap(-1, 8 << 20)
time.sleep(4)
"""


def test_a_program_without_arrays_has_none_and_its_own_pages_are_its(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    done = run(journal, "-c", PROGRAM, LEAKSCOPE_STRESS="0.5")
    assert (done.returncode, done.stderr) == (0, "")
    sizes = [row["array_bytes"] for row in rows(journal)["heap_graphs"]]
    assert sizes[0] < 1 << 20
    assert 8 << 20 <= max(sizes) < 9 << 20
