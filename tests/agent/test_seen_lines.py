"""Which lines of the user's were seen to run, as each snapshot has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = pytest.mark.live
PROGRAM = """
import time

def prepare():
    return [n for n in range(1000)]

def work(table):
    end = time.monotonic() + 7
    while time.monotonic() < end:
        time.sleep(0.01)  # here

work(prepare())
"""


def test_the_loop_that_goes_on_is_seen_and_the_stage_that_is_over_is_not(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    journal = stage(tmp_path)
    done = run(journal, str(script))
    assert (done.returncode, done.stderr) == (0, "")
    seen = "\n".join(take["seen_lines"] or "" for take in rows(journal)["takes"])
    here = 1 + next(number for number, line in enumerate(PROGRAM.splitlines()) if "# here" in line)
    assert f"{script}:{here} work" in seen
    assert "prepare" not in seen
