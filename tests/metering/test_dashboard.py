"""The dashboard and the alert rules that docs/ has: every metric they name exists, with the labels they ask for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leakscope.metering.families import FAMILIES

FOLDER = Path(__file__).parents[2] / "docs" / "how-to" / "metrics"
DASHBOARD, RULES = FOLDER / "dashboard.json", FOLDER / "rules.yml"
KNOWN = {family.sample_name: {*family.labels} for family in FAMILIES}
OF_EVERY_SERIES = {"job", "instance"}  # which Prometheus adds


def expressions() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    annotations = [each["expr"] for each in dashboard["annotations"]["list"]]
    variables = [each["definition"] for each in dashboard["templating"]["list"] if "definition" in each]
    rules = re.findall(r"expr: (?:\|\n)?((?:.|\n)+?)\n\s+(?:for|labels|annotations):", RULES.read_text())
    assert len(rules) == RULES.read_text().count("alert: ")
    return [*queries, *annotations, *variables, *rules]


@pytest.mark.parametrize("file", [DASHBOARD, RULES], ids=lambda path: path.name)
def test_every_metric_that_is_named_exists(file: Path) -> None:
    named = set(re.findall(r"\bleakscope_\w+", file.read_text()))
    assert named and named <= KNOWN.keys()


@pytest.mark.parametrize("expression", expressions())
def test_a_query_asks_for_labels_that_the_metric_has(expression: str) -> None:
    for name, matchers in re.findall(r"\b(leakscope_\w+)\{([^}]*)\}", expression):
        asked = {matcher.group(1) for matcher in re.finditer(r"(\w+)\s*[=!]~?", matchers)}
        assert asked <= KNOWN[name] | OF_EVERY_SERIES


def test_a_legend_names_labels_that_the_metric_has() -> None:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for target in (target for panel in panels for target in panel["targets"]):
        (name, *_) = re.findall(r"leakscope_\w+", target["expr"])
        assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} <= KNOWN[name] | OF_EVERY_SERIES


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        taken |= cells


@pytest.mark.slow
def test_promtool_takes_the_rules() -> None:
    promtool = os.environ.get("LEAKSCOPE_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    checked = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True)
    assert checked.returncode == 0 and "7 rules found" in checked.stdout, checked.stdout + checked.stderr
