"""Python's tracker of shared memory is asked what is on its list, while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = pytest.mark.live

PROGRAM = """
import glob, sys, time
from multiprocessing import shared_memory
from leakscope.agent.journal import read_blocks

made = [shared_memory.SharedMemory(create=True, size=1_000_000) for _ in range(3)]
for segment in made:
    segment.buf[:] = bytes(len(segment.buf))
made.pop(0).unlink()

def is_told():  # of both that are left
    blocks = [block for file in glob.glob(sys.argv[1]) for block in read_blocks(file)]
    return any(row["segment_count"] == 2 for table, rows in blocks if table == "tracked_segments" for row in rows)

give_up = time.monotonic() + 60
while not is_told() and time.monotonic() < give_up:
    time.sleep(0.1)
for segment in made:
    segment.unlink()
"""


def test_segments_that_are_made_and_not_unlinked_are_on_the_list(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(journal, str(program), str(journal / "agent-*.jnl"))
    assert (done.returncode, done.stderr) == (0, "")
    (told, *_) = [row for row in rows(journal)["tracked_segments"] if row["segment_count"] == 2]
    assert told["segment_name"] == "psm_*"
    assert 2_000_000 <= told["segment_bytes"] < 3_000_000
