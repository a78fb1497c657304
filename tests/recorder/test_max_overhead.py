"""``--max-overhead``: few inventories of a million objects where they may cost little, and the report says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from leakscope import analyze, open_recording
from leakscope.renderers import render

from .runs import PYTHON, environment, record_command

pytestmark = [pytest.mark.live, pytest.mark.slow]

SECONDS = 4.0
MILLION = f"""
import time
kept = [[i] for i in range(1_000_000)]
ends = time.monotonic() + {SECONDS}
while time.monotonic() < ends:
    pass
"""


def options(share: str) -> tuple[str, ...]:
    return "-q", "-o", f"{share}.parquet", "--max-overhead", share, "--max-pause", "10s"


def test_a_small_share_makes_fewer_inventories(tmp_path: Path) -> None:
    shares = ("0.1%", "40%")
    runs = [
        subprocess.Popen(
            record_command(*options(share), "--", PYTHON, "-c", MILLION, finalize=True),
            cwd=tmp_path,
            env=environment(),
        )
        for share in shares
    ]
    assert [run.wait(60) for run in runs] == [0, 0]
    reports = [analyze(open_recording(tmp_path / f"{share}.parquet")) for share in shares]
    takes = [len(open_recording(tmp_path / f"{share}.parquet").tables.takes) for share in shares]
    assert takes[0] <= 1 < takes[1]
    allowed = [report.recording.overhead["max_overhead_fraction"] for report in reports]
    assert allowed == [0.001, 0.4]
    put_off = [report.recording.overhead["held_back_takes"] for report in reports]
    assert put_off[0] and not put_off[1]
    said = [" ".join(render(report, "terminal", color=False, width=200, verbose=True).split()) for report in reports]
    assert "to stay within --max-overhead 0.1%" in said[0]
    assert "to stay within" not in said[1]
