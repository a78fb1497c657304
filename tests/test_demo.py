"""`leakscope demo`: what it records is a leak, and its page says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_demo_finds_the_line_that_leaks(tmp_path: Path) -> None:
    environ = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    }
    command = [sys.executable, "-m", "leakscope", "demo", "here"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "here" / "service.py").read_text().splitlines()
    leaks = next(number for number, line in enumerate(lines, 1) if "self.history[client] =" in line)
    assert "LEAKING: Sessions.history (dict)" in done.stderr
    assert f"service.py:{leaks}  " in done.stderr
    assert "here/report.html" in done.stdout
    page = (tmp_path / "here" / "report.html").read_text()
    assert "Sessions.history" in page
