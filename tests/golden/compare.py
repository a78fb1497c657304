"""Whole reports of the golden recordings, made by the code of two revisions: what a move of code must leave alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from tests.end_to_end.programs import Program

from . import recording_of

ROOT = Path(__file__).parents[2]
LINES_SHOWN = 12  # of a recording's differences
# One process judges many recordings: importing pandas takes longer than a report.
_JUDGE = """
import json, sys
from leakscope import analyze, storage
from leakscope.renderers.json import as_dict
from leakscope.renderers import render
for path in sys.argv[1:]:
    report = analyze(storage.open_recording(path))
    print(json.dumps({**as_dict(report), "text": render(report, "terminal").splitlines()}))
"""


def compare(revision: str, programs: Sequence[Program]) -> int:
    """Print what differs; returns 1 if anything does. **Errors** SystemExit if it cannot judge."""
    recordings = [recording_of(program) for program in programs if recording_of(program).exists()]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", before, revision], cwd=ROOT, check=True)
        try:
            with ThreadPoolExecutor(2) as pool:
                old, new = pool.map(lambda tree: _reports(tree, recordings), (before, ROOT))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    count = 0
    for recording, then, now in zip(recordings, old, new):
        lines = list(differences(then, now))
        count += bool(lines)
        if lines:
            print("\n  ".join([recording.stem, *islice(lines, LINES_SHOWN)]))
            if len(lines) > LINES_SHOWN:
                print(f"  and {len(lines) - LINES_SHOWN} more")
    print(f"{count} of {len(recordings)} reports differ from those of {revision}")
    return 1 if count else 0


def _reports(tree: Path, recordings: Sequence[Path]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, *map(str, recordings)],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the code in {tree} cannot judge them: {done.stderr.strip().splitlines()[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(then: Any, now: Any, where: str = "") -> Iterator[str]:
    """``findings[0].line: 12, now 13``, for each value that differs."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in [*then, *(name for name in now if name not in then)]:
            yield from differences(then.get(name), now.get(name), f"{where}.{name}" if where else name)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, pair in enumerate(zip(then, now)):
            yield from differences(*pair, f"{where}[{index}]")
    elif then != now:
        yield f"{where}: {_short(then)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."
