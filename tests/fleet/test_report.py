"""Planted faults are found, named and told apart from chance; and nothing is made of a healthy fleet."""

from __future__ import annotations

import json

import pytest

from leakscope.fleet import rendering, report
from tests.fleet.fleets import RUNS, indexed, planted, scored
from tests.fleet.synthetic import faults
from tests.fleet.synthetic.plan import attempt


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", faults.FAULTS)
def test_each_kind_of_fault_is_found_and_nothing_else(kind):
    score = scored(11, [kind], nodes=10)
    assert not score.missed
    assert not score.invented


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(21, 41))
def test_seven_faults_at_once_are_all_found(seed):
    score = scored(seed, 7, nodes=24)
    assert not score.missed
    assert not score.invented
    assert len(score.found) >= 7


@pytest.mark.parametrize("seed", range(31, 33))
def test_a_healthy_fleet_has_no_claims(seed):
    fleet, _ = planted(seed, [])
    found = report.report_of(indexed(fleet, seed))
    assert serious(found) == []
    assert found.headline.startswith("No leak in ")


def serious(found):
    """All claims but notes, such as that of a stage of a pipeline."""
    return [claim for claim in found.claims if claim.severity != "note"]


def claims_of(kind, seed=11):
    fleet, (fault, *_) = planted(seed, [kind])
    return report.report_of(indexed(fleet, seed)), fault


def test_it_says_since_which_attempt_and_on_which_driver_not():
    found, fault = claims_of("leak-since-attempt-not-on-driver", seed=13)  # of a job on several drivers
    (claim,) = serious(found)
    ops = {one.attribute: (one.op, [str(value) for value in one.values]) for one in claim.conditions}
    assert ops["job"] == ("in", [fault.where["job"]])
    assert f"since attempt {fault.where['attempt']}" in claim.says
    assert f"not on driver {fault.where['not_driver']}" in claim.says
    assert claim.hit == claim.inside == len(fault.paths)
    assert claim.missed == 0


def test_the_odd_rank_is_named_with_its_siblings():
    found, fault = claims_of("large-rank")
    (claim,) = serious(found)
    assert claim.facts["odd"] == f"rank {fault.where['rank']}"
    assert claim.figures["ratio"] > 1.3
    assert f"rank {fault.where['rank']} of {fault.where['job']}" in claim.says


def test_a_node_is_odd_also_in_those_of_its_ranks_that_are_a_stage_of_a_pipeline():
    fleet, _ = planted(51, [])
    job = fleet.training[0]
    runs, names = fleet.of(job), sorted({run.node.name for run in fleet.of(job)})
    stage = len({run.rank for run in runs}) // 8 + 4  # half of a node's ranks are in it
    for run in runs:
        rank, node = run.rank, names[(run.rank // 8 + attempt(run)) % len(names)]
        run.belongs["node"] = node
        run.gpu_peak_bytes = int(50e9 * (1.2 if rank < stage else 1.0) * (0.7 if node == names[1] else 1.0))
    found = report.report_of(indexed(fleet, 51))
    (claim,) = serious(found)
    assert claim.facts["odd"] == f"node {names[1]}"
    assert len(claim.rows) == sum(run.belongs["node"] == names[1] and run.fate != "torn" for run in runs)
    (note,) = (one for one in found.claims if one.kind == "stage" and one.facts["job"] == job)
    assert note.says.startswith(
        f"ranks 0-{stage - 1} of {job} have 55.9 GiB on their GPUs at most, the others 46.6 GiB"
    )
    assert names[1] not in note.says, "its ranks ran everywhere"


def test_a_rank_that_is_odd_in_its_stage_is_named_though_another_stage_holds_as_much():
    fleet, _ = planted(52, [])
    job = fleet.training[0]
    runs = fleet.of(job)
    size = len({run.rank for run in runs})
    for run in runs:
        stage = run.rank * 4 // size
        run.level_bytes = (20, 12, 12, 15)[stage] * (1 + 0.01 * (run.rank % 3)) * 1e9
        run.gpu_peak_bytes = int((60, 48, 48, 66)[stage] * (1 + 0.01 * (run.rank % 3)) * 1e9)
    assert serious(report.report_of(indexed(fleet, 52))) == [], "stages are no fault"
    odd = size // 4 + 5
    for run in runs:
        run.level_bytes *= 1.6 if run.rank == odd else 1.0
    (claim,) = serious(report.report_of(indexed(fleet, 52)))
    assert (claim.facts["odd"], claim.facts["job"]) == (f"rank {odd}", job)


def test_kills_are_told_by_limit_and_node():
    found, fault = claims_of("kills-by-limit")
    assert found.counts["killed"] == len(fault.paths)
    assert {row["node"] for row in found.kills} == set(fault.where["node"])
    (claim,) = (claim for claim in found.claims if claim.kind == "kills")
    assert f"filled by Trainer.batches (list) in {len(fault.paths)}" in claim.says
    assert (claim.finding["file"], claim.finding["line"]) == ("/srv/train/train.py", 88)


def test_a_kill_that_nothing_separates_from_the_others_is_told_all_the_same():
    fleet, _ = planted(41, [])
    run = next(run for run in fleet.runs if run.rank == 3 and run.fate == "final")
    faults._kill(run)
    found = report.report_of(indexed(fleet, 41))
    (claim,) = serious(found)
    assert claim.kind == "kills"
    assert "1 of " in claim.says
    assert run.job in claim.says
    assert run.node.name in claim.says


def test_recordings_without_a_verdict_are_counted_and_not_called_healthy():
    fleet, _ = planted(42, [])
    for run in fleet.runs:
        run.judged = False
    found = report.report_of(indexed(fleet, 42))
    assert found.counts["leaking"] == found.counts["not_leaking"] == 0
    assert found.headline.startswith("Nobody judged")
    assert any("without a verdict" in line for line in found.caveats)


def test_ranks_without_a_recording_are_named():
    fleet, _ = planted(42, [])
    job = fleet.training[0]
    fleet.runs = [run for run in fleet.of(job) if not (attempt(run) == 2 and run.rank in (4, 5, 9))]
    for run in fleet.runs:
        run.fate = "final"
    found = report.report_of(indexed(fleet, 42))
    size = fleet.runs[0].belongs["world_size"]
    assert f"{job}, attempt 2: 3 of {size} ranks have no recording (4-5, 9)" in found.caveats
    assert sum("no recording" in line for line in found.caveats) == 1


def test_what_came_since_the_last_index_is_new():
    fleet, (fault,) = planted(11, ["leak-since-attempt-not-on-driver"])
    runs = [*RUNS, {**RUNS[0], "number": 2, "at": "2026-11-26T10:00:00+00:00"}]
    found = indexed(fleet, 11, runs=runs)
    urls, frame = {f"/runs/{path}" for path in fault.paths}, found.table.to_pydict()
    frame["first_index"] = [2 if url in urls else 1 for url in frame["url"]]
    found.table = type(found.table).from_pydict(frame, schema=found.table.schema)
    told = report.report_of(found)
    assert told.claims[0].is_new
    assert told.news["recordings"] == len(urls)
    assert told.news["claims"] == [told.claims[0].says]
    assert not report.report_of(indexed(fleet, 11)).claims[0].is_new, "an index that was made once has no news"


def test_a_part_of_the_fleet_by_itself():
    fleet, _ = planted(11, ["leak-on-one-rank", "peak-since-commit"])
    found = indexed(fleet, 11)
    only = report.report_of(found, keep=lambda frame: (frame["job"] == fleet.nightly).to_numpy(dtype=bool))
    assert [claim.kind for claim in only.claims] == ["commit"]
    assert only.counts["recordings"] == len(fleet.of(fleet.nightly))


@pytest.mark.cases(2)
@pytest.mark.parametrize("format_name", ["html", "json", "terminal"])
def test_every_format_tells_the_claims_and_is_the_same_each_time(format_name):
    fleet, (fault,) = planted(11, ["large-rank"])
    found = report.report_of(indexed(fleet, 11))
    text = rendering.render(found, format_name)
    assert f"rank {fault.where['rank']} of" in " ".join(text.lower().split())
    assert text == rendering.render(found, format_name)
    if format_name == "json":
        told = json.loads(text)
        assert told["schema"] == "leakscope.fleet/1"
        assert told["claims"][0]["figures"]["figure"] == "level"


@pytest.mark.further
def test_a_page_of_a_large_fleet_stays_below_a_megabyte_and_escapes_names():
    fleet, _ = planted(12, ["leak-everywhere", "leak-since-attempt-not-on-driver"], nodes=40)
    for run in fleet.runs[:500]:
        run.belongs["node"] = f"<script>{run.node.name}"
    page = rendering.render(report.report_of(indexed(fleet, 12)), "html")
    assert len(page.encode()) < 1_000_000
    assert "<script>gpu" not in page
    assert page.count("data-heat=") >= 2


def test_an_empty_index_is_no_error():
    fleet, _ = planted(11, [])
    fleet.runs = []
    found = report.report_of(indexed(fleet, 11))
    assert found.headline == "No recordings"
    assert "No recordings" in rendering.render(found, "terminal")
    assert "No recordings" in rendering.render(found, "html")


def test_what_is_wasted_once_is_no_cause_of_a_leak():
    fleet, _ = planted(11, ["leak-on-one-rank"])
    for run in fleet.runs[:5]:
        run.findings = [
            *run.findings,
            {
                "kind": "duplicate-model",
                "severity": "warning",
                "fingerprint": "5ca1ab1e",
                "title": "a copy",
                "bytes": 9,
            },
        ]
    assert "leak, by 1 cause" in report.report_of(indexed(fleet, 11)).headline
