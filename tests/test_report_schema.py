"""The published JSON Schemas and what they describe: each describes the other wholly, also of real recordings.

That of a report; those of a job and of a fleet are in this file's last third, as far as they differ.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from leakscope import analyze, confidence, findings, jobs
from leakscope.cli import main
from leakscope.fleet import claims, commits, explaining, report
from leakscope.renderers import render
from leakscope.storage import open_recording
from tests.analyzers.leaks import sentinels, trainer
from tests.builders import RecordingBuilder
from tests.comparing.runs import MiB, run
from tests.fleet.fleets import RUNS, indexed, planted
from tests.jobs.test_render import job as drawn_job
from tests.renderers.reports import EMPTY, FULL

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "leakscope" / "report-schema.json").read_text(encoding="utf-8"))
DEFINITIONS = {
    "recording": findings.RecordingFacts,
    "verdict": findings.Verdict,
    "ledger_row": findings.LedgerRow,
    "finding": findings.Finding,
    "edit": findings.Edit,
    "ground": confidence.Ground,
    "subject": findings.Subject,
    "evidence": findings.Evidence,
    "series": findings.Series,
    "ruled_out": findings.RuledOut,
    "skipped": findings.Skipped,
    "bill": findings.Bill,
    "bill_row": findings.BillRow,
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


JOB = json.loads((ROOT / "leakscope" / "job-schema.json").read_text(encoding="utf-8"))
FLEET = json.loads((ROOT / "leakscope" / "fleet-schema.json").read_text(encoding="utf-8"))
OF_A_JOB = {
    "verdict": jobs.JobVerdict,
    "rank": jobs.RankRow,
    "node": jobs.NodeRow,
    "account": jobs.Account,
    "cluster": jobs.Cluster,
    **{name: DEFINITIONS[name] for name in ("finding", "subject", "evidence", "series", "edit", "ground", "excerpt")},
}
OF_A_FLEET = {"claim": claims.Claim, "condition": explaining.Condition, "heat": report.Heat, "trend": commits.Trend}
ALL = pytest.mark.parametrize("schema", [SCHEMA, JOB, FLEET], ids=["report", "job", "fleet"])


def strict(schema: dict = SCHEMA) -> dict:
    """The schema, with every field that it does not name forbidden: the published one allows later ones."""
    schema = copy.deepcopy(schema)
    for part in (schema, *schema["$defs"].values()):
        part["additionalProperties"] = False
    return schema


# A golden recording for each of some kinds of finding.
GOLDEN = [
    ROOT / "tests" / "golden" / "recordings" / f"{name}-leaky.parquet"
    for name in ("fd_pileup", "retained_graph", "dataset_copies", "process_pileup")
]
OF_NOTEBOOKS = sorted((ROOT / "notebooks" / "recordings").glob("*.parquet"))


@ALL
def test_it_is_a_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "whole", "definitions"),
    [(SCHEMA, findings.Report, DEFINITIONS), (JOB, jobs.JobReport, OF_A_JOB), (FLEET, report.FleetReport, OF_A_FLEET)],
    ids=["report", "job", "fleet"],
)
def test_every_part_is_described_with_all_its_fields(schema, whole, definitions):
    if schema is FLEET:  # the other parts are rows, which strict() knows wholly
        assert set(definitions) < set(schema["$defs"])
    else:
        assert set(definitions) == set(schema["$defs"])
    for part, kind in [(schema, whole), *((schema["$defs"][n], k) for n, k in definitions.items())]:
        fields = [field.name for field in dataclasses.fields(kind) if field.metadata.get("json", True)]
        assert list(part["properties"]) == (["schema", *fields] if part is schema else fields), kind
    for part in (schema, *schema["$defs"].values()):
        assert part["required"] == list(part["properties"])


@ALL
def test_every_field_says_what_it_means_and_in_which_unit(schema):
    for part in (schema, *schema["$defs"].values()):
        for name, field in part["properties"].items():
            assert field.get("description"), name
            words = field["description"].lower()
            assert "byte" in words or not re.search(r"(^|_)bytes(_|$)", name), name
            assert re.search(r"second|\b_s\b", words) or not name.endswith("_s"), name


@pytest.mark.parametrize("told", [MAXIMAL, EMPTY], ids=["maximal", "empty"])
def test_reports_keep_to_it(told):
    for with_timeline in (False, True):
        jsonschema.validate(json.loads(render(told, "json", with_timeline=with_timeline)), strict())


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
    told = json.loads(render(MAXIMAL, "json"))
    jsonschema.validate({**told, "later": 1, "verdict": {**told["verdict"], "later": 1}}, SCHEMA)
    del told["verdict"]["leaking"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, SCHEMA)


@pytest.mark.parametrize(("what", "schema"), [("report", SCHEMA), ("job", JOB), ("fleet", FLEET)])
def test_the_program_prints_it(what, schema, capsys):
    assert main(["schema", what]) == 0
    assert json.loads(capsys.readouterr().out) == schema


def test_they_are_installed_with_the_package():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "*-schema.json" in settings["tool"]["setuptools"]["package-data"]["leakscope"]


def test_a_finding_of_a_job_is_one_of_a_report():
    for name in ("finding", "subject", "evidence", "series", "edit", "ground", "excerpt"):
        assert JOB["$defs"][name] == SCHEMA["$defs"][name]


@pytest.mark.judging
def test_jobs_keep_to_it(tmp_path):
    jsonschema.validate(json.loads(jobs.render(drawn_job(4, 1), "json")), strict(JOB))
    run(tmp_path, "run.rank0.parquet", belongs={"job": "j", "rank": 0, "world_size": 3}).write()
    run(
        tmp_path, "run.rank1.parquet", leak_per_step=0.5 * MiB, belongs={"job": "j", "rank": 1, "world_size": 3}
    ).write()
    (tmp_path / "run.rank2.parquet").write_bytes(b"PAR1")
    jsonschema.validate(json.loads(jobs.render(jobs.report_job([tmp_path], workers=1), "json")), strict(JOB))


@pytest.mark.judging
def test_fleets_keep_to_it():
    kinds = ["leak-since-attempt-not-on-driver", "large-rank", "kills-by-limit", "lost-on-node", "peak-since-commit"]
    fleet, _ = planted(11, kinds)
    for runs in (RUNS, [*RUNS, {**RUNS[0], "number": 2}]):
        jsonschema.validate(report.as_json(report.report_of(indexed(fleet, 11, runs=runs))), strict(FLEET))
    fleet.runs = []
    jsonschema.validate(report.as_json(report.report_of(indexed(fleet, 11))), strict(FLEET))
