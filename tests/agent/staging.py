"""Run a program with the agent inside, without a recorder, and read what it wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from leakscope.agent import config
from leakscope.agent.journal import read_blocks

AGENT = Path(__file__).parents[2] / "leakscope" / "agent"


def stage(folder: Path, **options: Any) -> Path:
    """A journal folder with the agent in it, as the recorder lays it out."""
    journal = folder / "run.parquet.journal"
    shutil.copytree(AGENT, journal / "agent", ignore=shutil.ignore_patterns("__pycache__", "sitecustomize.py"))
    (journal / "boot").mkdir()
    shutil.copy(AGENT / "sitecustomize.py", journal / "boot")
    config.write(str(journal), options)
    return journal


def run(
    journal: Path, *arguments: str, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with the staged agent; the output is captured, the environment is ours plus ``environment``."""
    paths = [str(journal / "boot"), *filter(None, [environment.pop("PYTHONPATH", "")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    return subprocess.run([python, *arguments], env=env, capture_output=True, text=True, timeout=120)


def rows(journal: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of all agents, by table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(journal.glob("agent-*.jnl")):
        for table, block in read_blocks(str(file)):
            found.setdefault(table, []).extend(block)
    return found
