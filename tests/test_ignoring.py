"""Findings that a project accepts: by holder or fingerprint, with a reason, until a day; shown and counted."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from leakscope import checking
from leakscope.checking import check_case, read_rules
from leakscope.cli import main
from leakscope.errors import BadInput
from leakscope.facts.case import Case
from leakscope.findings import Report
from leakscope.ignoring import read_ignores, without_ignored
from leakscope.renderers import render
from leakscope.reporting import analyze, report_of
from leakscope.storage import open_recording
from tests.golden import RECORDINGS

pytestmark = pytest.mark.golden
LEAKY = RECORDINGS / "retained_objects_slots-leaky.parquet"
HOLDER = "Index.tickets"
REASON = "drawn at the end"


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(open_recording(LEAKY))


@pytest.fixture(scope="module")
def report(case: Case) -> Report:
    return case.once(report_of)


def ignoring(folder: Path, entry: str) -> Path:
    (folder / "pyproject.toml").write_text(f"[tool.leakscope]\nignore = [{entry}]\n")
    return folder


def test_by_holder_and_with_wildcards(report: Report, tmp_path: Path) -> None:
    for name in (HOLDER, f"{HOLDER} (dict)", "tickets", "Index.*"):
        ignores = read_ignores(ignoring(tmp_path, f'{{holder = "{name}", reason = "{REASON}"}}'))
        shown = without_ignored(report, ignores)
        assert not shown.findings and len(shown.ignored) == len(report.findings)
        assert {one.reason for one in shown.ignored} == {REASON}
        assert f"{len(report.findings)} finding" in shown.verdict.headline and "ignored" in shown.verdict.headline
        assert shown.verdict.leaking is True  # what was measured stays


def test_by_fingerprint_and_kind(tmp_path: Path) -> None:
    report = analyze(open_recording(RECORDINGS / "retained_objects_two_at_once-leaky.parquet"))
    first, second = report.findings
    assert first.fingerprint != second.fingerprint
    entry = f'{{fingerprint = "{first.fingerprint[:12]}", reason = "{REASON}"}}'
    assert without_ignored(report, read_ignores(ignoring(tmp_path, entry))).findings == [second]
    for kind, left in ((second.kind, [first]), ("fragmentation", [first, second])):
        entry = f'{{holder = "{second.subject.holder}", kind = "{kind}", reason = "{REASON}"}}'
        assert without_ignored(report, read_ignores(ignoring(tmp_path, entry))).findings == left


def test_growth_of_which_nothing_is_known_cannot_be_ignored(tmp_path: Path) -> None:
    """It had one fingerprint for all programs: to ignore one was to ignore the next."""
    report = analyze(open_recording(RECORDINGS / "unexplained_growth_isolated-leaky.parquet"))
    assert report.verdict.leaking and report.findings[0].fingerprint is None
    ignores = read_ignores(ignoring(tmp_path, f'{{fingerprint = "c4b0f21dab91", reason = "{REASON}"}}'))
    with pytest.raises(BadInput, match="all unexplained-growth of which nothing is known"):
        without_ignored(report, ignores)
    other = read_ignores(ignoring(tmp_path, f'{{fingerprint = "05ec860ff288", reason = "{REASON}"}}'))
    assert without_ignored(report, other).findings == report.findings


@pytest.mark.cases(1)
@pytest.mark.parametrize("day", ["2027-01-01", '"2027-01-01"'])
def test_an_entry_ends_on_its_day(day: str, report: Report, tmp_path: Path) -> None:
    folder = ignoring(tmp_path, f'{{holder = "{HOLDER}", reason = "{REASON}", until = {day}}}')
    before = without_ignored(report, read_ignores(folder, datetime.date(2026, 12, 31)))
    assert [one.until for one in before.ignored] == ["2027-01-01"] * len(report.findings)
    after = without_ignored(report, read_ignores(folder, datetime.date(2027, 1, 1)))
    assert after.findings == report.findings and not after.ignored
    (note,) = set(after.recording.notes) - set(report.recording.notes)
    assert HOLDER in note and "2027-01-01" in note


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('"Store"', "is not a table"),
        ('{reason = "x"}', "needs a holder or a fingerprint"),
        ('{holder = "x"}', "has no reason"),
        ('{holder = "x", reason = " "}', "reason of ignore is not a text"),
        ('{holder = "x", reason = "y", till = "z"}', "has no 'till'"),
        ('{holder = "x", reason = "y", until = "soon"}', "not a day: 'soon'"),
        ('{fingerprint = "ab", reason = "y"}', "too short"),
    ],
)
def test_a_wrong_entry_is_told(entry: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=complaint):
        read_ignores(ignoring(tmp_path, entry))


def test_check_keeps_and_counts_what_is_ignored(case: Case, tmp_path: Path) -> None:
    any_rules, no_such = (read_rules(given, tmp_path) for given in ({}, {"no-findings": ("retained-objects",)}))
    before = check_case(case, any_rules)
    assert before.exit_status == 1 and "ignored" not in checking.render(before, "terminal")
    ignores = read_ignores(ignoring(tmp_path, f'{{holder = "{HOLDER}", reason = "{REASON}"}}'))
    for rules in (any_rules, no_such):
        kept = check_case(case, rules, ignores=ignores)
        assert kept.exit_status == 0
        assert len(json.loads(checking.render(kept, "json"))["ignored"]) == 1
        shown = checking.render(kept, "terminal")
        assert "1 finding ignored" in shown and REASON in shown


def test_the_commands_read_what_the_project_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ignoring(tmp_path, f'{{holder = "{HOLDER}", reason = "{REASON}"}}')
    assert main(["check", str(LEAKY)]) == 0
    assert "1 finding ignored" in capsys.readouterr().out
    assert main(["report", str(LEAKY), "--exit-code"]) == 0
    assert "Ignored by pyproject.toml" in capsys.readouterr().out
    assert main(["report", str(LEAKY), "--exit-code", "--all-findings"]) == 1
    assert "Ignored" not in capsys.readouterr().out


@pytest.mark.parametrize("format_name", ["markdown", "html", "sarif", "json"])
def test_each_format_says_what_is_ignored_and_why(format_name: str, report: Report, tmp_path: Path) -> None:
    shown = without_ignored(report, read_ignores(ignoring(tmp_path, f'{{holder = "{HOLDER}", reason = "{REASON}"}}')))
    assert REASON in render(shown, format_name)
