"""The holders of a frame where a snapshot is the graph of the heap and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.watching.scene import Scene
from tests.agent.staging import rows, run, stage

pytestmark = pytest.mark.live

PROGRAM = """
import time
def serve():
    kept = []
    for number in range(60):
        kept.append(bytes(100_000))
        time.sleep(0.1)
serve()
"""


def test_who_holds_most_is_told_from_the_graph(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    journal = stage(tmp_path)
    assert run(journal, str(program)).returncode == 0
    scene = Scene()
    written = [(table, row) for table, of_table in rows(journal).items() for row in of_table]
    for moment in sorted({row["time_mono_ns"] for _, row in written}):
        scene.take_in((table, row) for table, row in written if row["time_mono_ns"] == moment)
    largest = scene.holders.largest()[0]
    assert largest.path == "serve() kept"
    assert (largest.growth_bytes or 0) > 1_000_000
    assert abs((largest.length or 0) - round(largest.bytes / 100_000)) <= 2  # it went on while names were asked for
