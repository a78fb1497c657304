"""``leakscope demo``: a small program that leaks is recorded, and its verdict and page are shown. Needs no data."""

from __future__ import annotations

import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

from ..errors import LeakscopeError, needs_linux
from ..renderers import render
from ..reporting import analyze
from ..storage import open_recording
from ..viewing import has_screen
from ..words import in_a_line

SECONDS = 15
_PROGRAM = "service.py"


def demo(folder: Path, *, browser: bool) -> int:
    """Record ``service.py`` for 15 s into ``folder``, and write its page there. **Errors** LeakscopeError."""
    needs_linux("demo")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(__file__).with_name(_PROGRAM), folder / _PROGRAM)
    command = ["record", "-o", str(folder / "run.parquet"), str(folder / _PROGRAM), str(SECONDS)]
    print(f"{folder / _PROGRAM} is a small service that leaks. This runs it for {SECONDS} s:\n")
    print(f"$ leakscope {' '.join(command)}", flush=True)
    command.insert(1, "--force")  # a second demo takes the place of the first
    status = subprocess.run([sys.executable, "-m", "leakscope", *command], check=False).returncode
    if status != 0:
        raise LeakscopeError(f"the recording of {folder / _PROGRAM} ended with status {status}")
    page = folder / "report.html"
    recording = open_recording(folder / "run.parquet")
    report = analyze(recording)
    page.write_text(render(report, "html"), encoding="utf-8")
    if not recording.meta.get("verdict"):  # the machine was too busy for `record` to wait for it
        print(f"\n{in_a_line(report.verdict)}")
    is_open = browser and has_screen() and webbrowser.open(page.resolve().as_uri())
    print(f"\nThe report as a page, with charts: {page}" + (" (opened in the browser)" if is_open else ""))
    print(f"In the terminal:                   leakscope report {folder / 'run.parquet'}")
    print("Your own program:                  leakscope record -- python train.py")
    return 0
