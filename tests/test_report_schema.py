"""The published JSON Schema and the reports: each describes the other wholly, also reports of real recordings."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from leakscope import analyze, confidence, findings
from leakscope.cli import main
from leakscope.renderers import render
from leakscope.storage import open_recording
from tests.analyzers.leaks import sentinels, trainer
from tests.builders import RecordingBuilder
from tests.renderers.reports import EMPTY, FULL

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "leakscope" / "report-schema.json").read_text(encoding="utf-8"))
DEFINITIONS = {
    "recording": findings.RecordingFacts,
    "verdict": findings.Verdict,
    "ledger_row": findings.LedgerRow,
    "finding": findings.Finding,
    "ground": confidence.Ground,
    "subject": findings.Subject,
    "evidence": findings.Evidence,
    "series": findings.Series,
    "ruled_out": findings.RuledOut,
    "skipped": findings.Skipped,
    "budget_row": findings.BudgetRow,
    "gpu_line": findings.GpuLine,
    "process_row": findings.ProcessRow,
    "timeline": findings.Timeline,
    "outlook": findings.Outlook,
    "band": findings.Band,
    "moment": findings.Moment,
    "laps": findings.Laps,
    "lap": findings.Lap,
    "device_memory": findings.DeviceMemory,
    "heap_view": findings.HeapView,
    "heap_take": findings.HeapTake,
    "heap_holder": findings.HeapHolder,
    "excerpt": findings.Excerpt,
    "ignored": findings.Ignored,
    "peak": findings.Peak,
}
MAXIMAL = dataclasses.replace(
    FULL, processes=[findings.ProcessRow("train.py", "trainer", 3, 2, 20.0, 0.9, 1, 1, 2, 8, 40, 0.0, 20.0)]
)


def strict() -> dict:
    """The schema, with every field that it does not name forbidden: the published one allows later ones."""
    schema = copy.deepcopy(SCHEMA)
    for part in (schema, *schema["$defs"].values()):
        part["additionalProperties"] = False
    return schema


# A golden recording for each of some kinds of finding.
GOLDEN = [
    ROOT / "tests" / "golden" / "recordings" / f"{name}-leaky.parquet"
    for name in ("fd_pileup", "retained_graph", "dataset_copies", "process_pileup")
]
OF_NOTEBOOKS = sorted((ROOT / "notebooks" / "recordings").glob("*.parquet"))


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_part_of_a_report_is_described_with_all_its_fields():
    assert set(SCHEMA["$defs"]) == set(DEFINITIONS)
    for part, kind in [(SCHEMA, findings.Report), *((SCHEMA["$defs"][n], k) for n, k in DEFINITIONS.items())]:
        fields = [field.name for field in dataclasses.fields(kind) if field.metadata.get("json", True)]
        assert list(part["properties"]) == (["schema", *fields] if part is SCHEMA else fields), kind
        assert part["required"] == list(part["properties"]), kind


def test_every_field_says_what_it_means_and_in_which_unit():
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in part["properties"].items():
            assert field.get("description"), name
            words = field["description"].lower()
            assert "byte" in words or not re.search(r"(^|_)bytes(_|$)", name), name
            assert re.search(r"second|\b_s\b", words) or not name.endswith("_s"), name


@pytest.mark.parametrize("report", [MAXIMAL, EMPTY], ids=["maximal", "empty"])
def test_reports_keep_to_it(report):
    for with_timeline in (False, True):
        jsonschema.validate(json.loads(render(report, "json", with_timeline=with_timeline)), strict())


def keeps_to_it(recording) -> None:
    jsonschema.validate(json.loads(render(analyze(recording), "json", with_timeline=True)), strict())


@pytest.mark.golden
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_reports_of_real_recordings_keep_to_it(path):
    keeps_to_it(open_recording(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", OF_NOTEBOOKS, ids=lambda path: path.stem)
def test_reports_of_the_notebooks_keep_to_it(path):
    keeps_to_it(open_recording(path))


@pytest.mark.golden
def test_reports_of_recordings_that_were_built_keep_to_it(tmp_path):
    folders = [tmp_path / name for name in ("leaks", "flat", "short")]
    for folder in folders:
        folder.mkdir()
    leaking = sentinels(trainer(folders[0]), step=[s * 50 for s in range(20)]).ends(20.0).open()
    flat = sentinels(trainer(folders[1], leak=0), in_use=0).ends(20.0).open()
    short = RecordingBuilder(folders[2]).process(1).samples(1, [1, 2]).open()
    for recording in (leaking, flat, short):
        keeps_to_it(recording)


def test_who_reads_it_as_it_was_before_parts_could_be_left_out_still_can():
    before = copy.deepcopy(SCHEMA)
    before["required"].remove("left_out")
    del before["properties"]["left_out"]
    for with_timeline in (False, True):
        jsonschema.validate(json.loads(render(MAXIMAL, "json", with_timeline=with_timeline)), before)


def test_later_fields_are_allowed_and_missing_ones_are_not():
    report = json.loads(render(MAXIMAL, "json"))
    jsonschema.validate({**report, "later": 1, "verdict": {**report["verdict"], "later": 1}}, SCHEMA)
    del report["verdict"]["leaking"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA)


def test_the_program_prints_it(capsys):
    assert main(["schema", "report"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_it_is_installed_with_the_package():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "report-schema.json" in settings["tool"]["setuptools"]["package-data"]["leakscope"]
