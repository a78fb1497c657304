"""What a release is made by: workflows that run what somebody has looked at, and a version that says what changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted([*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "action.yml"])
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_their_hash(path: Path) -> None:
    used = re.findall(r"\buses: (.+)$", path.read_text("utf-8"), re.MULTILINE)
    assert not [one for one in used if not one.startswith("OWNER/") and not PINNED.fullmatch(one)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_tools_that_are_installed_have_their_version(path: Path) -> None:
    found = re.findall(r"pipx run (?:--spec )?(\S+)|pip install (build\S*)", path.read_text("utf-8"))
    assert not [name for pair in found for name in pair if name and "==" not in name]


@pytest.mark.parametrize("path", [path for path in WORKFLOWS if path.name != "action.yml"], ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_more(path: Path) -> None:
    assert "\npermissions:\n  contents: read\n" in path.read_text("utf-8")


def test_what_stays_the_same_names_every_contract() -> None:
    text = (ROOT / "docs" / "stability.md").read_text("utf-8")
    for contract in (
        "The file",
        "JSON",
        "Commands and options",
        "Exit codes",
        "Kinds of findings, fingerprints",
        "Python",
    ):
        assert f"**{contract}**" in text, contract
