"""The harness of foreign tests sees what differs, and calls timing only what bare runs show, too."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import psutil
import pytest

from tests.foreign import outcomes, table
from tests.foreign.compare import ALWAYS, EXIT, SOMETIMES, TIMING, judge
from tests.foreign.examine import examine
from tests.foreign.runs import HUNG, ROOT, Run
from tests.foreign.suites import Suite

UNITTEST = """\
test_one (test.test_a.Case) ... ok
test_two (test.test_a.Case.test_two)
What it is about. ... ok
test_loud (test.test_a.Case.test_loud) ... said by the test
ok
test_sad (test.test_a.Case.test_sad) ... FAIL
test_left (test.test_a.Case.test_left) ... skipped 'no such thing: (really)'
test_fatal (test.test_a.Case.test_fatal) ... Fatal Python error: Segmentation fault
"""


def a_run(status: str = "0", **tests: str) -> Run:
    return Run(status, 1.0, tests, {name: f"why {name}" for name, seen in tests.items() if seen == "failed"}, "the end")


def test_outcomes_are_read_from_what_unittest_prints():
    assert outcomes.from_text(UNITTEST) == {
        "test_one (test.test_a.Case)": "ok",
        "test_two (test.test_a.Case.test_two)": "ok",
        "test_loud (test.test_a.Case.test_loud)": "ok",
        "test_sad (test.test_a.Case.test_sad)": "FAIL",
        "test_left (test.test_a.Case.test_left)": "skipped",
    }


def test_sub_tests_of_one_name_and_addresses_do_not_hide_a_failure(tmp_path):
    report = tmp_path / "report.xml"
    cases = '<testcase name="t(0x7f00)"/><testcase name="t(0x7fff)"><failure>a\nb</failure></testcase>'
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert outcomes.read(report, "") == ({"t(#)": "failed+passed"}, {"t(#)": "a\nb"})


@pytest.mark.parametrize(
    ("bare", "recorded", "verdict"),
    [
        (["passed"] * 4, ["failed"] * 4, ALWAYS),
        (["passed"] * 4, ["failed", "passed", "passed", "passed"], SOMETIMES),
        (["passed", "failed", "passed", "passed"], ["failed", "passed", "failed", "failed"], TIMING),
        (["passed", "failed"], ["error", "failed"], SOMETIMES),
    ],
)
def test_a_difference_is_ours_until_a_bare_run_shows_it_too(bare, recorded, verdict):
    found = judge([a_run(test=seen) for seen in bare], [a_run(test=seen) for seen in recorded])
    assert [(d.test, d.verdict) for d in found] == [("test", verdict)]


def test_a_crash_differs_in_its_status_and_not_in_the_tests_it_never_came_to():
    found = judge([a_run(one="passed", two="passed")] * 2, [a_run("SIGSEGV", one="passed")] * 2)
    assert [(d.test, d.verdict, d.message) for d in found] == [(EXIT, ALWAYS, "the end")]


def test_a_test_that_is_missing_differs():
    assert [d.recorded for d in judge([a_run(one="passed")], [a_run(two="passed")])] == [["absent"], ["passed"]]


SUITE = Suite("own", tests=("test_*.py",), runner="unittest")
HARMED = """\
import os, time, unittest
class Case(unittest.TestCase):
    def test_alone(self):
        time.sleep(0.5)
        self.assertNotIn("leakscope", os.environ.get("PYTHONPATH", ""))
    def test_other(self): pass
    def test_never_ends_recorded(self):
        while {hangs} and "leakscope" in os.environ.get("PYTHONPATH", ""): time.sleep(0.1)
unittest.main()
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    venv.create(tmp_path / "home", symlinks=True)
    return tmp_path / "home" / "bin" / "python"


def test_of_a_large_suite_some_files_are_chosen_and_every_one_can_be_named(tmp_path):
    tests = tmp_path / "lib" / "python3.11" / "site-packages"
    tests.mkdir(parents=True)
    for name in "abc":
        (tests / f"test_{name}.py").touch()
    suite = Suite("large", tests=("test_*.py",), most=2)
    python = tmp_path / "bin" / "python"
    assert suite.files(python) == ["test_a.py", "test_c.py"]
    assert suite.files(python, every=True) == ["test_a.py", "test_b.py", "test_c.py"]


def write(python: Path, text: str) -> None:
    next((python.parents[1] / "lib").glob("python3*/site-packages")).joinpath("test_it.py").write_text(text)


@pytest.mark.live
@pytest.mark.slow
def test_what_a_recording_changes_is_found_and_named(python):
    write(python, HARMED.format(hangs=False))
    row = examine(SUITE, python, SUITE.files(python)[0], limit_s=60.0, again=1)
    assert (row["tests"], row["status"]) == (3, "0")
    assert row["snapshots"], "the suite ran without the agent"
    assert {d["test"].split()[0] for d in row["differences"]} == {"(exit", "test_alone"}
    assert {d["verdict"] for d in row["differences"]} == {ALWAYS}


@pytest.mark.live
@pytest.mark.slow
def test_a_recorded_run_that_hangs_is_ended_and_said(python, monkeypatch):
    monkeypatch.setattr("tests.foreign.examine.GRACE_S", 3.0)
    write(python, HARMED.format(hangs=True))
    row = examine(SUITE, python, "test_it.py", limit_s=60.0, again=1)
    assert [(d["test"], d["recorded"][0]) for d in row["differences"]] == [(EXIT, HUNG)]


def test_the_page_tells_differences_with_their_explanations(tmp_path, monkeypatch):
    explained, results = tmp_path / "explained.json", tmp_path / "results.json"
    explained.write_text('[{"suite": "s", "file": "test_a", "test": "counts", "why": "counts all threads"}]')
    monkeypatch.setattr(table, "EXPLAINED", explained)
    monkeypatch.setattr(table, "RESULTS", results)
    seen = [("counts_threads", ALWAYS), ("crash", SOMETIMES), ("slow", TIMING)]
    row = {
        "commit": "c", "date": "2026-01-02", "python": "3.12.1", "suite": "s", "file": "test_a",
        "tests": 1200, "snapshots": 7, "status": "1",
        "differences": [{"test": test, "verdict": verdict} for test, verdict in seen],
    }  # fmt: skip
    table.write([row])
    page = table.page()
    assert "| s | 3.12.1 | 2026-01-02 | 1 | 1,200 | 7 | 1 | 2 |" in page
    assert "| 3.12.1 | `test_a` | `counts_threads` | always | counts all threads |" in page
    assert "| 3.12.1 | `test_a` | `crash` | sometimes | not yet explained: leakscope's |" in page
    assert "slow" not in page


def test_a_part_leaves_what_is_known_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.json")
    one = {
        "date": "2026-01-02",
        "suite": "s",
        "file": "f",
        "tests": 5,
        "snapshots": 1,
        "status": "0",
        "differences": [],
    }
    table.write([{**one, "python": "3.8.18"}, {**one, "python": "3.12.1"}])
    table.write([{**one, "python": "3.12.1", "date": "2026-01-03", "tests": 6}])
    table.write([{**one, "python": "3.8.18", "date": "2026-01-03", "tests": 0, "status": HUNG}])  # its bare run
    sums = json.loads((tmp_path / "results.json").read_text())
    assert {(one["python"], one["date"], one["tests"]) for one in sums} == {
        ("3.12.1", "2026-01-03", 6), ("3.8.18", "2026-01-02", 5)
    }  # fmt: skip


def test_a_part_that_was_run_anew_stands_beside_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.json")
    one = {"python": "3.12.1", "suite": "s", "tests": 5, "snapshots": 1, "status": "0", "differences": []}
    files = [{**one, "file": file, "date": "2026-01-02"} for file in ("f", "g")]
    table.write(files)
    for date in ("2026-01-03", "2026-01-04"):
        table.write([{**one, "file": "f", "date": date}], is_part=True)
    assert "| s | 3.12.1 | 2026-01-02 | 2 |" in table.page()
    assert "| s, a part | 3.12.1 | 2026-01-04 | 1 |" in table.page()
    assert "2026-01-03" not in table.page()
    table.write(files)
    assert "a part" not in table.page()


@pytest.mark.parametrize(("ended", "said"), [("2", ["t"]), ("SIGSEGV", [EXIT, "t"]), (HUNG, [EXIT, "t"])])
def test_only_a_plain_exit_status_is_left_to_the_test_it_follows_from(tmp_path, monkeypatch, ended, said):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.json")
    ends = {"test": EXIT, "recorded": ["0", ended], "verdict": SOMETIMES}
    fails = {"test": "t", "recorded": ["passed", "failed"], "verdict": SOMETIMES}
    row = {
        "date": "2026-01-02", "python": "3.12.1", "suite": "s", "file": "f", "tests": 1, "snapshots": 1, "status": "0",
    }  # fmt: skip
    table.write([{**row, "differences": [ends, fails]}])
    (one,) = json.loads((tmp_path / "results.json").read_text())
    assert [difference["test"] for difference in one["differences"]] == said


@pytest.mark.live
@pytest.mark.slow
def test_one_that_is_asked_to_stop_begins_no_further_run(tmp_path):
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "tests.foreign", "cpython", "--python", sys.executable, "--only", "test_threading"]
    command += ["--folder", str(tmp_path), "--results", str(results)]
    with subprocess.Popen(command, cwd=ROOT) as harness:
        try:
            while harness.poll() is None and not psutil.Process(harness.pid).children():
                pass  # its first run has not begun
            harness.terminate()
            assert harness.wait(timeout=30) in (0, 130)  # 0: this Python came without its test suite
        finally:
            harness.kill()
    assert not results.exists()


@pytest.mark.live
@pytest.mark.slow
def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    command = [sys.executable, "-m", "tests.foreign", "cpython", "--python", sys.executable, "--only", "test_keyword"]
    command += ["--folder", str(tmp_path)]
    said = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    if said[0].startswith("skip"):
        pytest.skip("this Python came without its test suite")
    assert "test_keyword" in said[0]
    assert said[1] == ""
    (row,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert row["file"] == "test_keyword"
