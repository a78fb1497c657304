"""Reading, importing and viewing work where there is no Linux; recording says in one line where it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "tutorials" / "start"
IMPORTS = ROOT / "fixtures" / "imports"
pytestmark = pytest.mark.live


def elsewhere(system: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.pythons.elsewhere", system, *words]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.cases(4)
@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", f"{START}/before.parquet"], "WordCounts.seen"),
        (["page", f"{START}/before.parquet"], ""),
        (["import", f"{IMPORTS}/mprof-leaky.dat", "-o", "run.parquet"], ""),
        (["report", f"{START}/before.parquet", "-o", "report.html"], ""),
        (["heap", f"{START}/before.parquet"], "counts.seen"),
        (["compare", f"{START}/before.parquet", f"{START}/after.parquet"], "Better"),
        (["watch", f"{START}/before.parquet", "--plain"], "main() counts.seen"),
        (["check", f"{START}/after.parquet"], "ok"),
        (["export", f"{START}/before.parquet", "-o", "run.trace.json.gz"], ""),
        (["fleet", "index", str(START)], ""),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_what_reads_recordings_needs_no_linux(system: str, words: list[str], said: str, tmp_path: Path) -> None:
    done = elsewhere(system, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize(
    ("words", "status"),
    [(["record", "--", "true"], 125), (["doctor"], 2), (["demo", "here"], 2), (["ps"], 2)],
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_what_records_says_where_it_runs(system: str, words: list[str], status: int, tmp_path: Path) -> None:
    done = elsewhere(system, tmp_path, *words)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"leakscope: {words[0]} ") and "Linux" in line and system in line
