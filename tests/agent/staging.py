"""Run a program with the agent inside, without a recorder, and read what it wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from leakscope import schema
from leakscope.agent import config
from leakscope.agent.journal import read_blocks
from leakscope.facts.heap.graph import laid_over
from leakscope.facts.heap.history import History
from leakscope.recorder.staging import stage_entries, write_code
from leakscope.storage import rows_of_table

AGENT = Path(__file__).parents[2] / "leakscope" / "agent"


def stage(folder: Path, **options: Any) -> Path:
    """A journal folder with the agent in it, as the recorder lays it out."""
    journal = folder / "run.parquet.journal"
    shutil.copytree(AGENT, journal / "agent", ignore=shutil.ignore_patterns("__pycache__", "sitecustomize.py"))
    (journal / "boot").mkdir()
    shutil.copy(AGENT / "sitecustomize.py", journal / "boot")
    stage_entries(str(AGENT), str(journal / "boot"))
    sources = [str(file.relative_to(AGENT)) for file in AGENT.rglob("*.py") if file.name != "sitecustomize.py"]
    write_code(str(AGENT), sources, str(journal))
    config.write(str(journal), options)
    return journal


def run(
    journal: Path, *arguments: str, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with the staged agent; the output is captured, the environment is ours plus ``environment``."""
    env = environment_of(journal, environment)
    return subprocess.run([python, *arguments], env=env, capture_output=True, text=True, timeout=600)


def start(journal: Path, *arguments: str) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    return subprocess.Popen([sys.executable, *arguments], env=environment_of(journal, {}), text=True)


def environment_of(journal: Path, environment: dict[str, str]) -> dict[str, str]:
    paths = [str(journal / "boot"), *filter(None, [environment.pop("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}


def rows(journal: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of all agents, by table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(journal.glob("agent-*.jnl")):
        for table, block in read_blocks(str(file)):
            found.setdefault(table, []).extend(block)
    return found


def holders(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Who held what in each snapshot, as the nodes tell."""
    tables = {name: rows_of_table(name, found.get(name, [])) for name in schema.TABLES}
    told = []
    for pid in {row["pid"] for row in found.get("heap_nodes", [])}:
        takes = sorted({row["take"] for row in found["heap_graphs"] if row["pid"] == pid})
        for place in laid_over(History(tables, pid), takes):
            for at, take in enumerate(takes):
                if place.count[at] > 0:
                    length = int(place.length[at]) if place.has_length else None
                    told.append(
                        vars(place.reference)
                        | {"pid": pid, "take": take, "path": place.path, "type_name": place.type_name, "length": length,
                           "deep_bytes": int(place.deep_bytes[at]), "object_count": int(place.count[at]),
                           "member_type": place.member_type, "root_kind": place.root_kind,
                           "array_deep_bytes": int(place.array_bytes[at])}
                    )  # fmt: skip
    return sorted(told, key=lambda row: row["take"])
