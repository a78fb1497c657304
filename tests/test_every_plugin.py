"""What every diagnosis has to have, and that a new one is one file: nothing else in the package needs to know of it."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from leakbench import all_programs
from leakscope import analyze, analyzers, schema
from leakscope.analyzers import in_turn
from leakscope.checking import check, read_rules
from leakscope.cli import cli, main
from leakscope.facts.case import Case
from leakscope.facts.growth.tree import TreeGrowth
from leakscope.facts.series.trend import FLAT, GROWING, Trend
from leakscope.findings import Finding, Subject
from leakscope.kinds import DANGER, ELSEWHERE, FILLS, GROWTH, HELD, KILL, MEANINGS, PILE, WASTE
from leakscope.reporting.head import Told, headline
from leakscope.storage import open_recording
from tests import docs_pages
from tests.analyzers.leaks import PID, MiB, trainer
from tests.builders import RecordingBuilder

TESTS = Path(__file__).parent / "analyzers"
KINDS = analyzers.names()
TITLE = "Things of this kind were found"

every_kind = pytest.mark.parametrize("kind", KINDS)


def module_of(kind: str) -> ModuleType:
    return importlib.import_module(f"leakscope.analyzers.{kind.replace('-', '_')}")


@every_kind
def test_it_says_what_it_looks_for_why_how_when_it_is_mistaken_and_what_to_do(kind):
    told = analyzers.kinds()[kind]
    for words in (told.summary, told.looks_for, told.why, told.decides_by, told.mistaken_when, told.do):
        assert len(words.split()) > 3, told


@every_kind
def test_it_declares_what_it_needs_tells_and_comes_after(kind):
    module = module_of(kind)
    assert set(module.NEEDS) <= set(schema.TABLES)
    assert module.TELLS and set(module.TELLS) <= set(MEANINGS)
    assert hasattr(module, "HEADLINE") == (ELSEWHERE in module.TELLS), "a leak elsewhere says where"
    takes_findings = "so_far" in inspect.signature(module.findings).parameters
    assert takes_findings == hasattr(module, "AFTER"), "so_far is what those found that it comes after"


def test_every_meaning_is_told_by_some_diagnosis():
    assert {meaning for kind in KINDS for meaning in module_of(kind).TELLS} == set(MEANINGS)


def test_they_come_after_each_other_without_a_circle():
    turns = in_turn({kind: getattr(module_of(kind), "AFTER", ()) for kind in KINDS})
    assert set(turns) == set(KINDS)
    order = list(turns)
    for kind, earlier in turns.items():
        assert all(order.index(other) < order.index(kind) for other in earlier), kind


@every_kind
def test_somebody_shows_that_it_finds_and_that_it_is_silent(kind):
    """A program that has it beside a twin that has not, or a test file of its own with both."""
    programs = {program.path for program in all_programs() if kind in {place.kind for place in program.places}}
    if any(path.with_name("clean.py").exists() for path in programs):
        return
    file = TESTS / f"test_{kind.replace('-', '_')}.py"
    assert file.exists(), f"no program of fixtures/ shows {kind}, with a clean twin, and there is no {file.name}"
    text = file.read_text()
    assert re.search(r"\((finding|found),\)", text), "no test unpacks a finding"
    assert re.search(r"ruled_out|RuledOut|assert not .*findings", text), "no test of an innocent one"


def test_check_knows_them_all(tmp_path):
    rules = read_rules({"no-findings": KINDS}, tmp_path)
    outcomes = check(trainer(tmp_path, leak=0).open(), rules).outcomes
    assert {outcome.rule: outcome.outcome for outcome in outcomes}.keys() == {f"no {kind}" for kind in KINDS}
    assert {outcome.outcome for outcome in outcomes} <= {"kept", "cannot-tell"}


def test_a_switch_of_its_own_is_an_option_of_check(tmp_path):
    switches = {kind.rule: name for name, kind in analyzers.kinds().items() if kind.rule}
    options = {flag.removeprefix("--") for option in cli.commands["check"].params for flag in option.opts}
    assert {"no-duplicates", "no-oom"} == switches.keys() & options == switches.keys()
    for switch, kind in switches.items():
        assert read_rules({switch: True}, tmp_path).no_findings == (kind,)


def growth(leaking: bool) -> TreeGrowth:
    nothing = np.empty(0)
    trend = Trend(GROWING if leaking else FLAT, "it varies", 0.0, 60.0)
    return TreeGrowth(leaking, "it varies", trend, 0.0, 60.0, 10 * MiB, nothing, nothing)


def test_a_leak_in_a_job_that_gave_back_more_does_not_gain_a_negative_amount():
    """Pages of a library's file, which the kernel takes back or another process maps too."""
    finding = Finding("retained-objects", TITLE, "warning", 0.9, 5 * MiB, Subject())
    text = headline(Told(growth(leaking=True), -134 * MiB, [finding]))
    assert "gave back" in text and "134 MiB" in text
    assert "-" not in text.replace(TITLE, "")


def told(finding: Finding, leaking: bool) -> str:
    kill = finding if finding.tells(KILL) else None
    return headline(Told(growth(leaking), 10 * MiB, [finding], kill)).lower()


@every_kind
def test_the_headline_speaks_of_it(kind):
    means = analyzers.kinds()[kind]
    finding = Finding(kind, TITLE, "warning", 0.9, 0, Subject(), wasted=WASTE in means.tells, means=means)
    grows, flat = told(finding, leaking=True), told(finding, leaking=False)
    if finding.tells(WASTE, ELSEWHERE, PILE, FILLS, HELD):
        assert TITLE.lower() in flat
    elif finding.tells(DANGER, KILL):
        assert TITLE.lower() in flat and TITLE.lower() in grows
    else:
        assert TITLE.lower() in grows and TITLE.lower() not in flat


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> dict[str, Case]:
    """Recordings that lack what most diagnoses need: without any sample, and without any view from inside."""
    never, flat, leaking = (tmp_path_factory.mktemp(name) for name in ("never", "flat", "leaking"))
    builders = {
        "never-sampled": RecordingBuilder(never).process(1),
        "flat": trainer(flat, leak=0),
        "leaking": trainer(leaking),
    }
    return {name: Case(builder.open()) for name, builder in builders.items()}


@every_kind
@pytest.mark.parametrize("name", ["never-sampled", "flat", "leaking"])
def test_it_is_silent_without_its_tables(kind, name, bare):
    case = bare[name]
    said = analyzers.diagnose(case, only=[kind])
    assert not [skip for skip in said.skipped if skip.reason.startswith("failed")]
    if name == "never-sampled":
        assert not said.findings
        assert {one.kind for one in (*said.ruled_out, *said.skipped)} == {kind}
    if any(not len(case.rows(table)) for table in module_of(kind).NEEDS):
        assert not said.findings and not said.ruled_out
        assert [skip.kind for skip in said.skipped] == [kind]


def test_turns_are_by_name_and_star_is_all_that_do_not_say_star():
    turns = in_turn({"rest": ("*", "sum"), "sum": ("*",), "b": ("c",), "c": (), "a": ()})
    assert list(turns) == ["a", "c", "b", "sum", "rest"]
    assert turns["b"] == {"c"}
    assert turns["sum"] == {"a", "b", "c"}
    assert turns["rest"] == {"a", "b", "c", "sum"}


def test_a_name_that_does_not_exist_and_a_circle_are_told():
    with pytest.raises(ValueError, match="rest comes AFTER 'retained', and there is no such diagnosis"):
        in_turn({"rest": ("retained",)})
    with pytest.raises(ValueError, match="wait for each other: a, b"):
        in_turn({"a": ("b",), "b": ("a",), "c": ()})
    assert list(in_turn({"rest": ("failed",)}, known=["failed"])) == ["rest"]  # one that could not be imported


def socket_pileup() -> str:
    """The example of CONTRIBUTING.md, under another name: who tries it may keep it."""
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"^   ```python\n(.*?)^   ```", page.partition("## Add a diagnosis")[2], re.MULTILINE | re.DOTALL)
    assert found is not None
    return textwrap.dedent(found[1]).replace("socket-pileup", "socket-pileup-tried")


@pytest.fixture
def one_more(tmp_path, monkeypatch):
    """A new diagnosis, put beside the others as a stranger would: by writing its file and nothing else."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "socket_pileup_tried.py").write_text(socket_pileup())
    monkeypatch.setattr(analyzers, "__path__", [*analyzers.__path__, str(folder)])
    yield
    sys.modules.pop("leakscope.analyzers.socket_pileup_tried", None)
    vars(analyzers).pop("socket_pileup_tried", None)


def with_sockets(folder: Path, each_look: int) -> Path:
    folder.mkdir()
    builder = trainer(folder, leak=0)
    for look in range(10):
        builder.row("descriptors", 2.0 * look, PID, fd_kind="socket", fd_path=None, open_count=4 + each_look * look)
    return builder.write()


def test_one_file_is_a_diagnosis(one_more, tmp_path, capsys):
    leaky, clean = with_sockets(tmp_path / "leaky", 5), with_sockets(tmp_path / "clean", 0)
    report = analyze(open_recording(leaky))
    (finding,) = (finding for finding in report.findings if finding.kind == "socket-pileup-tried")
    assert finding.means is not None and finding.means.summary == "Sockets that are opened and never closed."
    assert "But sockets pile up: 45 more are open." in report.verdict.headline
    assert [found.kind for found in analyze(open_recording(leaky), only=["socket-pileup-tried"]).findings] == [
        finding.kind
    ]
    assert "socket-pileup-tried" in {ruled_out.kind for ruled_out in analyze(open_recording(clean)).ruled_out}

    assert main(["check", str(leaky), "--no-findings", "socket-pileup-tried"]) == 1
    assert main(["check", str(clean), "--no-findings", "socket-pileup-tried"]) == 0
    assert main(["report", str(leaky), "--only", "socket-pileup-tried"]) == 0
    assert "Sockets pile up: 45 more are open" in capsys.readouterr().out

    pages = docs_pages.pages()
    assert "a process may have only so many descriptors" in pages["kinds/socket-pileup-tried.md"].lower()
    assert "min_sockets" in pages["reference/decisions.md"]


def test_it_is_gone_with_its_file():
    assert "socket-pileup-tried" not in analyzers.names()
    assert GROWTH in analyzers.kinds()["retained-objects"].tells
