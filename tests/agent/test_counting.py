"""Requests of a service as steps: what the agent writes of thousands of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = pytest.mark.live
PROGRAM = """
import os, sys, threading, time
count = sys.modules["_leakscope_agent"].count
threads = [threading.Thread(target=lambda: [count("requests") for _ in range(2_500)]) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
if child == 0:
    for _ in range(5): count("requests")
time.sleep(2.5)
if child: os.waitpid(child, 0)
"""


def test_requests_are_counted_not_written_one_by_one(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    done = run(journal, "-W", "ignore", "-c", PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    written = rows(journal)
    steps = {row["pid"]: row["step"] for row in written["sentinels"] if row["step"] is not None}
    assert sorted(steps.values()) == [10_000, 10_005]
    notes = [(row["pid"], row["text"]) for row in written["agent_notes"] if row["note"] == "counts"]
    assert sorted(notes) == sorted((pid, "requests") for pid in steps)
    assert not written.get("marks")
