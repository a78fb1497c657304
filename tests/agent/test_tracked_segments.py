"""Python's tracker of shared memory is asked what is on its list, while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from .staging import AGENT, rows, run, stage

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


FORKED = """
import os, sys, time
from leakscope.agent.journal import read_blocks
asked = []
def is_told(pid):  # more than the row that it begins with
    name = [name for name in os.listdir(sys.argv[1]) if name.startswith(f"agent-{pid}-")]
    blocks = [block for one in name for block in read_blocks(os.path.join(sys.argv[1], one))]
    return sum(len(rows) for table, rows in blocks if table == "sentinels") > 3
pid = os.fork()
if pid:
    os._exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
sys.addaudithook(lambda event, _: asked.append(event) if event == "sys._current_frames" else None)
give_up = time.monotonic() + 60
while not is_told(os.getpid()) and time.monotonic() < give_up:
    time.sleep(0.05)
os._exit(10 * len(asked) + is_told(os.getpid()))
"""


def test_processes_that_are_no_tracker_are_not_asked_for_their_frames(tmp_path: Path) -> None:
    """Not forked children either, which have no snapshots: whoever holds a frame keeps what is in its variables."""
    journal = stage(tmp_path, sentinel_interval_s=0.2, flush_s=0.2)
    done = run(journal, "-c", FORKED, str(journal), PYTHONPATH=str(AGENT.parents[1]))
    assert (done.returncode, done.stderr) == (1, "")
