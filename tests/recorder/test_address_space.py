"""A job under ``ulimit -v`` has as much address space to itself as without a recorder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .runs import TIMEOUT_S, environment, record_command

pytestmark = pytest.mark.live

# The most it can get after a while; at the start the agent's thread has not asked for anything.
MOST = """
import mmap, time
time.sleep(0.7)
got, step = 0, 1 << 20
kept = []
try:
    while True:
        kept.append(mmap.mmap(-1, step))
        got += step
except (OSError, MemoryError):
    pass
kept = None
print(got)
"""


def most(folder: Path, *before: str) -> int:
    limited = ["/bin/sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", sys.executable, "-c", MOST]
    done = subprocess.run(
        [*before, *limited], cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_the_agent_takes_none_of_it(tmp_path: Path) -> None:
    bare, recorded = most(tmp_path), most(tmp_path, *record_command("-q", "--"))
    assert bare - recorded < 4 << 20
