"""Each command does on every Python what it does on this one, the lowest that is declared first.

`make test-pythons` makes the environments, and runs all of this. `make test` has the lowest that is there, if any.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pythons import environments

DRIVER = Path(__file__).with_name("every_command.py")
RECORDING = environments.ROOT / "tests" / "golden" / "recordings" / "caption_list_in_workers-leaky.parquet"
HERE = "this"
# What has another status than 0: it found something, cannot tell, or says what is not installed.
STATUS = {
    "report run.parquet --exit-code": {1},
    "compare": {0, 1, 4},
    "check": {0, 1, 4},
    "fix": {0, 4},
    "whatif": {2},  # this recording has too few allocations to replay
    "fleet query": {0, 2},
    "push": {2},
    "mcp": {0, 2},
}


@pytest.mark.live
@pytest.mark.cases(1)
@pytest.mark.parametrize("name", [*environments.ready(), HERE])
def test_every_command(name: str, tmp_path: Path) -> None:
    python = sys.executable if name == HERE else environments.python_of(name)
    environment = {**os.environ, "PYTHONPATH": str(environments.ROOT), "PYTHONWARNINGS": "default"}
    ran = subprocess.run(
        [python, str(DRIVER), str(RECORDING), str(tmp_path)], capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    done = {" ".join(one["argv"]): one for one in told["done"]}
    assert not {one for one in told["commands"] if not any(f"{argv} ".startswith(f"{one} ") for argv in done)}
    wrong = {argv: (one["status"], one["said"]) for argv, one in done.items() if not _is_right(argv, one)}
    assert not wrong
    reports = {argv: one["output"] for argv, one in done.items() if re.match(r"report \S+ -f json", argv)}
    skipped = [one["reason"] for output in reports.values() for one in json.loads(output)["skipped"]]
    assert not [reason for reason in skipped if reason.startswith("failed")]
    assert _gist(json.loads(done["report run.parquet -f json"]["output"])) == _gist(_here())
    live = json.loads(done["report live.parquet -f json --with-timeline"]["output"])
    assert live["recording"]["agent_count"] == 1
    assert "kept" in done["heap live.parquet --path kept"]["output"]


def _is_right(argv: str, one: dict[str, Any]) -> bool:
    expected = next((status for start, status in STATUS.items() if argv.startswith(start)), {0})
    said = one["said"]
    may_be_silent = argv.startswith("mcp") or re.search(r" (-o|--to|--judge)( |$)", argv)
    is_silent = one["status"] == 0 and not one["output"] and not said and not may_be_silent
    return one["status"] in expected and "Traceback" not in said and "Error" not in said and not is_silent


def _here() -> dict[str, Any]:
    from leakscope import analyze, open_recording

    return json.loads(json.dumps(_as_json(analyze(open_recording(RECORDING)))))


def _as_json(report: Any) -> Any:
    from leakscope.renderers import render

    return json.loads(render(report, "json"))


def _gist(report: dict[str, Any]) -> list[Any]:
    findings = [
        (one["kind"], one["subject"]["holder"], one["subject"]["file"], one["subject"]["line"], one["bytes"])
        for one in report["findings"]
    ]
    return [report["verdict"]["leaking"], report["verdict"]["headline"], findings]


def test_what_is_declared_is_told_everywhere() -> None:
    """``requires-python`` decides; whatever else names the lowest Python says the same."""
    lowest = ".".join(map(str, environments.lowest()))
    minor = environments.lowest()[1]
    root = environments.ROOT
    light = (root / "light" / "pyproject.toml").read_text()
    project = (root / "pyproject.toml").read_text()
    workflow = (root / ".github" / "workflows" / "test.yml").read_text()
    assert f'requires-python = ">={lowest}"' in light
    assert f'target-version = "py3{minor}"' in project
    declared = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
    assert declared == [f"3.{number}" for number in range(minor, minor + len(declared))]
    assert json.loads(re.search(r"package:.*?python: (\[.*?\])", workflow, re.DOTALL)[1]) == declared
    for path in ("README.md", "light/README.md", "docs/how-to/where-you-run.md", "light/pyz_main.py"):
        text = (root / path).read_text()
        assert re.search(rf"Python {re.escape(lowest)}\b|Any Python from {re.escape(lowest)}\b", text), path
