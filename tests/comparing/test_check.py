"""The gate: each rule is kept, broken, or not to be told, and the three have three exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.checking import check, check_case, read_rules
from leakscope.cli import main
from leakscope.errors import BadInput
from leakscope.facts.case import Case
from leakscope.storage import Recording, open_recording
from tests.builders import RecordingBuilder
from tests.comparing.runs import PID, MiB, run
from tests.sentences import says


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A leaking and a clean recording."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "leaky": run(folder / "a", leak_per_step=0.5 * MiB, workers=3).write(),
        "clean": run(folder / "b").write(),
    }


@pytest.fixture(scope="module")
def recordings(runs) -> dict[str, Recording]:
    return {name: open_recording(path) for name, path in runs.items()}


@pytest.fixture(scope="module")
def cases(recordings) -> dict[str, Case]:
    """Each is judged once, however many rules it is held to."""
    return {name: Case(recording) for name, recording in recordings.items()}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No pyproject.toml but what a test writes."""
    monkeypatch.chdir(tmp_path)


def test_a_service_is_told_by_its_requests(tmp_path):
    clean = run(tmp_path / "a").note(PID, 1.0, "counts", "requests").open()
    (outcome,) = check(clean, read_rules({"max-growth": "2MB/1000requests"}, tmp_path)).outcomes
    assert "in 1,000 requests; about" in outcome.text and " requests after start-up" in outcome.text
    assert "step" not in outcome.text
    leaky = run(tmp_path / "b", leak_per_step=0.5 * MiB).note(PID, 1.0, "counts", "tasks").open()
    (outcome,) = check(leaky, read_rules({"max-growth": "5MB/1000tasks"}, tmp_path)).outcomes
    assert "in 1,000 tasks" in outcome.text and "step" not in outcome.text


def test_a_limit_is_told_in_the_time_it_is_given_for(cases, tmp_path):
    (outcome,) = check_case(cases["clean"], read_rules({"max-growth": "50MB/min"}, tmp_path)).outcomes
    assert "per min" in outcome.text and "hours" not in outcome.text


def test_what_a_recording_leaves_room_for_is_measured_by_how_memory_moved(cases, tmp_path):
    """Memory that hardly moves for half a minute asks for minutes, and not for hours."""
    (outcome,) = check_case(cases["clean"], read_rules({"max-growth": "50MB/hour"}, tmp_path)).outcomes
    assert re.search(r"; about \d\d\.\d s after start-up would", outcome.text)
    slow = Case(run(tmp_path / "a", leak_per_step=0.01 * MiB).open())  # 360 MiB an hour, too little to be called a leak
    assert slow.growth.leaking is not True
    assert [
        check_case(slow, read_rules({"max-growth": f"{limit}MB/hour"}, tmp_path)).exit_status for limit in (300, 900)
    ] == [4, 0]


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("name", "rules", "status"),
    [
        ("leaky", {}, 1),
        ("clean", {}, 0),
        ("leaky", {"max-growth": "5MB/1000steps"}, 1),
        ("leaky", {"max-growth": "900MB/1000steps"}, 0),
        ("leaky", {"max-growth": "10GB/hour"}, 1),
        ("clean", {"max-growth": "90MB/1000steps"}, 0),
        ("clean", {"max-growth": "5MB/1000steps"}, 0),  # of 300 steps 1.5 MB would have been seen
        ("clean", {"max-growth": "2MB/1000steps"}, 4),  # and 0.6 MB are none: allocators move by as much
        ("clean", {"max-growth": "2MB/1000steps", "inconclusive": "pass"}, 0),
        ("clean", {"max-growth": "2MB/1000steps", "inconclusive": "fail"}, 1),
        ("clean", {"max-rss": "150MB"}, 1),
        ("clean", {"max-rss": "0.5GB"}, 0),
        ("leaky", {"max-workers": "2"}, 1),
        ("leaky", {"max-workers": "3"}, 0),
        ("leaky", {"no-findings": ("retained-objects",)}, 1),
        ("clean", {"no-findings": ("fd-pileup", "thread-pileup")}, 0),
        ("clean", {"no-duplicates": True}, 0),
        ("clean", {"no-duplicates": True, "max-rss": "1"}, 1),
    ],
)
def test_rules_and_exit_status(cases, tmp_path, name, rules, status):
    result = check_case(cases[name], read_rules(rules, tmp_path))
    assert result.exit_status == status, result.outcomes


def test_a_recording_without_samples_cannot_tell(tmp_path):
    empty = RecordingBuilder(tmp_path).process(1).ends(1.0).open()
    for rules in ({"max-growth": "1MB/step"}, {"max-growth": "1MB/hour"}, {"max-rss": "1GB"}, {}):
        assert check(empty, read_rules(rules, tmp_path)).exit_status == 4


def test_a_broken_rule_names_holder_and_place_in_one_line(runs, capsys):
    main(["check", str(runs["leaky"]), "--max-growth", "5MB/1000steps", "--max-rss", "1GB"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("BROKEN: max-growth 5MB/1000steps: memory grows by ")
    assert "Trainer.history (list)" in lines[0]
    assert lines[0].endswith("(/home/me/train.py:12)")
    assert lines[1].startswith("ok: max-rss")


@pytest.mark.further
def test_a_baseline_that_was_better_breaks_the_rule(runs, capsys):
    assert main(["check", str(runs["leaky"]), "--baseline", str(runs["clean"])]) == 1
    assert "leaks now" in capsys.readouterr().out
    assert main(["check", str(runs["clean"]), "--baseline", str(runs["leaky"])]) == 0


def test_json_has_every_rule(runs, capsys):
    main(["check", str(runs["clean"]), "--max-rss", "150MB", "--no-duplicates", "-f", "json"])
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "leakscope.check/1"
    assert [(o["rule"], o["outcome"]) for o in said["outcomes"]] == [
        ("max-rss 143 MiB", "broken"),
        ("no duplicate-model", "kept"),
    ]


def test_rules_come_from_pyproject_and_options_win(runs, tmp_path):
    pytest.importorskip("tomllib")
    (tmp_path / "pyproject.toml").write_text('[tool.leakscope.check]\nmax-rss = "150MB"\nno-duplicates = true\n')
    assert main(["check", str(runs["clean"])]) == 1
    assert main(["check", str(runs["clean"]), "--max-rss", "1GB"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max-growth": "5MB"}, "5MB/1000steps"),
        ({"max-growth": "5MB/epoch"}, "per step or per time"),
        ({"max-growth": "fast/step"}, "'fast' is not a size"),
        ({"max-rss": "4 parsecs"}, "not a size"),
        ({"max-workers": "-1"}, "not a count"),
        ({"no-findings": ("leaks",)}, "there is no kind 'leaks'"),
        ({"inconclusive": "maybe"}, "neither pass nor fail"),
    ],
)
def test_bad_rules_are_named(tmp_path, options, said):
    with pytest.raises(BadInput, match="--") as raised:
        read_rules(options, tmp_path)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text", ["max-rss = [", "[tool.leakscope.check]\nmax-ram = 1\n", "[tool.leakscope]\ncheck = 1\n"]
)
def test_a_bad_pyproject_is_one_line_and_status_2(runs, tmp_path, capsys, text):
    pytest.importorskip("tomllib")
    (tmp_path / "pyproject.toml").write_text(f"# leakscope\n{text}")
    assert main(["check", str(runs["clean"])]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("ended", "said"), [({"exit_code": 1}, "exit status 1"), ({"signal": 11}, "SIGSEGV")])
def test_a_run_that_failed_keeps_no_rule(tmp_path, ended, said, capsys):
    """Nobody knows what it would have come to."""
    path = run(tmp_path / "a", **ended).write()
    assert main(["check", str(path), "--max-rss", "1GB"]) == 4
    out = capsys.readouterr().out
    assert said in out and "ok:" not in out and "BROKEN" not in out
    assert main(["check", str(path), "--max-rss", "1GB", "--inconclusive", "pass"]) == 4
    leaks = run(tmp_path / "b", leak_per_step=0.5 * MiB, **ended).write()
    assert main(["check", str(leaks), "--max-rss", "250MB"]) == 1  # what is broken is broken
    assert main(["check", str(run(tmp_path / "c", signal=15).write()), "--max-rss", "1GB"]) == 0


def test_growth_that_nobody_can_explain_is_no_broken_rule(tmp_path, capsys):
    """A curve alone: it grows, and what was found is likelier to be something else."""
    builder = RecordingBuilder(tmp_path).process(1)
    builder.samples(1, [(50 + 3 * second) * MiB for second in range(90)])
    path = builder.ends(90.0, exit_code=0).write()
    (finding,) = analyze(open_recording(path)).findings
    assert (finding.kind, finding.severity) == ("unexplained-growth", "warning") and finding.confidence < 0.5
    assert main(["check", str(path)]) == 4
    assert says(capsys.readouterr().out, "cannot tell", f"{finding.confidence:.0%} sure")
