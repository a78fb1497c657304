"""The Agent Skill: it has the form that agents read, is short, and each command in it does what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.cli import cli, main
from leakscope.mcp_server._tools import TOOLS
from leakscope.skills import skill_text

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "start"
SKILL = Path(__file__).parents[1] / "leakscope" / "skills" / "leakscope" / "SKILL.md"
KILL = "[  100.0] Out of memory: Killed process 4242 (python) total-vm:9000kB, anon-rss:8000kB, file-rss:0kB\n"


def commands() -> list[str]:
    """In their order: those of its blocks, and those in its sentences."""
    blocks = r"^```bash\n(.*?)^```$"
    found = re.findall(rf"{blocks}|`(leakscope [^`]+)`", skill_text(), re.DOTALL | re.MULTILINE)
    return [line for block, inline in found for line in (block or inline).splitlines()]


def test_the_program_prints_it_as_it_is_installed(capsys):
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == SKILL.read_text("utf-8") == skill_text()
    if sys.version_info >= (3, 11):
        import tomllib

        settings = tomllib.loads((SKILL.parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
        assert "skills/*/SKILL.md" in settings["tool"]["setuptools"]["package-data"]["leakscope"]


def test_it_has_the_front_matter_that_agents_read_and_is_short():
    found = re.match(r"---\nname: ([a-z0-9-]{1,64})\ndescription: ([^\n:<>]{1,1024})\n---\n\n# ", skill_text())
    assert found and found[1] == SKILL.parent.name
    assert "Use it when" in found[2]
    assert len(skill_text().splitlines()) < 100 and len(skill_text()) < 4000


def test_it_names_commands_options_and_tools_that_there_are():
    assert {shlex.split(line)[1] for line in commands()} <= cli.commands.keys()
    named = re.search(r"tools that only read: (.*?)\. Recording", skill_text(), re.DOTALL)[1]
    assert re.split(r",\s+", named) == [tool.name for tool in TOOLS]


@pytest.mark.slow
def test_each_of_its_commands_works_and_together_they_prove_a_fix(tmp_path):
    shutil.copy(TUTORIAL / "train.py", tmp_path / "train.py")
    (tmp_path / "kernel.log").write_text(KILL)
    said = dict(ran(tmp_path))
    assert "train.py:16" in said["leakscope report before.parquet -f brief"]
    assert "counts.seen" in said["leakscope heap before.parquet --path seen"]
    assert json.loads(said["leakscope report before.parquet -f json"])["verdict"]["leaking"] is True
    assert "4242" in said["leakscope oom kernel.log"]
    proof = said["leakscope compare before.parquet after.parquet"]
    assert proof.startswith("Better") and re.search(r"^  gone .*WordCounts\.seen", proof, re.MULTILINE)


def ran(folder: Path) -> Iterator[tuple[str, str]]:
    """Each command with what it printed. The program is mended before it is recorded again."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in commands():
        if "after.parquet -- " in line:
            shutil.copy(TUTORIAL / "mended.py", folder / "train.py")
        with subprocess.Popen(["sleep", "60"]) as running:
            typed = line.replace("PID", str(running.pid)).replace("2min", "2s")
            typed = typed.replace("-o before.parquet", "-o attached.parquet") if "attach" in typed else typed
            done = subprocess.run(
                shlex.split(typed), cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            running.kill()
        assert done.returncode == 0, f"{line}: {done.stderr}"
        yield line, done.stdout
