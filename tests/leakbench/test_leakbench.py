"""The programs of the bench are well formed, and its arithmetic is right; nothing is recorded here."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbench import (
    BENCH_PROGRAMS,
    FIELD,
    all_programs,
    area,
    is_snapshot,
    sample,
    sealed_programs,
    snapshots,
    unseen_programs,
)  # fmt: skip
from leakbench.__main__ import Begins
from leakbench.answer import CLAIMS, HOLDER, LINE, Answer
from leakbench.score import (
    Score,
    Share,
    agreement,
    calibration,
    interval,
    levels,
    score,
    score_of,
    share,
    told_and_fitted,
)
from leakbench.table import added, markdown, our_runs, page, write
from leakbench.tools import leakscope as leakscope_tool
from leakbench.tools import tools
from leakscope import analyzers
from leakscope.comparing import compare
from leakscope.confidence import FAIR, LEVELS, SURE
from leakscope.storage import open_recording
from tests.end_to_end.programs import Place, Program
from tests.golden import RECORDINGS

FIELDS = {
    "kind",
    "variable",
    "line_text",
    "grows",
    "also",
    "kinds",
    "names",
    "function",
    "requires",
    "exit_status",
    "mechanisms",
    "seconds",
    "limit_mib",
}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=program.name)
        for program in [*all_programs(), *unseen_programs(), *sealed_programs()]
        if not is_snapshot(program)
    ],
)
def test_a_program_and_its_truth_belong_together(program: Program):
    source = program.path.read_text()
    compile(source, str(program.path), "exec")
    takes_seconds = "sys.argv" in source or "argparse" in source
    assert takes_seconds or program.limit_bytes, "it takes the seconds to run as its first argument"
    truth = json.loads(program.path.with_name("truth.json").read_text())
    files = {program.path, *program.path.parent.glob("*.py")} - {program.path.with_name("clean.py")}
    own = "\n".join(path.read_text() for path in sorted(files))
    assert truth.keys() <= FIELDS
    assert {place.kind for place in program.places} | set(program.kinds) <= set(analyzers.names())
    for place in program.places:
        if place.line_text is not None:
            assert [text.strip() for text in own.splitlines()].count(place.line_text) == 1, place.line_text
        if place.variable is not None:
            assert re.search(rf"\b{place.variable}\b", own), place.variable
    if program.places and program.path.is_relative_to(BENCH_PROGRAMS):
        assert program.path.with_name("clean.py").read_text() != source


def test_there_are_enough_of_them_to_tell():
    everything = all_programs()
    assert len({program.path for program in everything}) == len(everything) >= 90
    assert len({program.name for program in everything}) == len(everything), "recordings bear these names"
    folders = {path.parent for path in BENCH_PROGRAMS.glob("*/*.py")}
    assert folders == {program.path.parent for program in everything} & folders, "a folder without truth.json"


@pytest.fixture
def leaky(tmp_path) -> Program:
    path = tmp_path / "trainer" / "leaky.py"
    path.parent.mkdir()
    path.write_text("import torch\nhistory = []\nhistory.append(1)\n")
    place = Place("retained-objects", "history", "history.append(1)")
    return Program(path, (place,), True, kinds=("retained-graph",), names=("items",))


def report(program: Program, leaking: bool | None, *findings: tuple[str, str | None, int | None]) -> dict[str, Any]:
    return {
        "verdict": {"leaking": leaking},
        "recording": {"duration_s": 14.0},
        "findings": [
            {
                "kind": kind,
                "severity": "warning",
                "confidence": 0.9,
                "grounds": [{"says": "", "alone": 0.9}],
                "subject": {"variable": name, "file": str(program.path), "line": line},
            }
            for kind, name, line in findings
        ],
    }


def test_only_the_first_finding_counts(leaky):
    right = score(leaky, report(leaky, True, ("retained-objects", "history", 3)))
    assert right.right and right.first_is_right and right.torch
    second = score(leaky, report(leaky, True, ("native-growth", None, 1), ("retained-objects", "history", 3)))
    assert (second.kind, second.name, second.line, second.verdict) == (False, False, False, True)
    assert second.said == "native-growth at import torch"


def test_other_kinds_and_names_are_as_right(leaky):
    assert score(leaky, report(leaky, True, ("retained-graph", "items", 3))).right


def test_silence_about_a_leak_is_a_miss(leaky):
    silent = score(leaky, report(leaky, None))
    assert (silent.kind, silent.name, silent.line, silent.verdict) == (False, False, False, False)
    assert silent.said == "cannot tell"


def test_what_is_found_in_a_clean_program_is_a_false_alarm(leaky):
    clean = Program(leaky.path, ())
    assert score(clean, report(clean, False)).right
    assert score(clean, report(clean, False, ("fragmentation", None, None))).alarm
    unsure = score(clean, report(clean, None))
    assert (unsure.alarm, unsure.verdict, unsure.right) == (False, False, False)


def test_what_was_not_run_counts_nowhere(leaky):
    left_out = score(leaky, None, not_run="torch not installed")
    assert share([left_out], lambda s: s.kind) == (0, 0)
    text = markdown([left_out], {"seconds": 14, "at_once": 2, "date": "", "machine": "", "python": "", "torch": ""})
    assert "- `trainer/leaky.py`: torch not installed" in text


OFFERS_ALL = frozenset(CLAIMS)


def test_what_a_tool_does_not_claim_is_not_scored(leaky):
    said = Answer(leaking=None, lines=((str(leaky.path), 3),))
    scored = score_of(leaky, said, frozenset({LINE}), "profiler")
    assert (scored.kind, scored.name, scored.verdict, scored.line) == (None, None, None, True)
    assert score_of(leaky._replace(places=()), said, frozenset({LINE}), "profiler").alarm is None


def test_the_second_line_counts_among_three_and_not_first(leaky):
    said = Answer(True, lines=((str(leaky.path), 1), (str(leaky.path), 3)), holders=("[self.history]", "x"))
    scored = score_of(leaky, said, OFFERS_ALL, "profiler")
    assert (scored.line, scored.line_3, scored.name, scored.name_3) == (False, True, True, True)


def test_a_line_in_the_function_of_the_right_one_is_near(tmp_path):
    path = tmp_path / "trainer" / "leaky.py"
    path.parent.mkdir()
    path.write_text("def step(kept):\n    made = [1]\n    kept.append(made)\n\n\ndef other():\n    return []\n")
    program = Program(path, (Place("retained-objects", "kept", "kept.append(made)"),), True)
    near, far = (score_of(program, Answer(lines=((str(path), line),)), frozenset({LINE})) for line in (2, 7))
    assert (near.line, near.function) == (False, True)
    assert (far.line, far.function) == (False, False)


def test_every_tool_says_what_it_offers_and_how_it_is_used(tmp_path, leaky):
    assert next(iter(tools())) == "leakscope"
    for name, tool in tools().items():
        assert tool.offers <= OFFERS_ALL and tool.how, name
        assert tool.command or tool.reading, name
        for command in (tool.command and tool.command(leaky.path, 14.0, tmp_path),
                        tool.reading and tool.reading(leaky.path, tmp_path)):  # fmt: skip
            assert command is None or str(leaky.path) in command, name


def told(grounds: tuple[float, ...], count: int, right: int) -> list[Score]:
    """So many first findings on these grounds, of which ``right`` of ten are right."""
    blank = Score("", True, False, "", "", grounds=grounds)
    return [blank._replace(program=f"{at}/leaky.py", kind=at % 10 < right) for at in range(count)]


def test_a_level_is_fitted_by_how_often_its_findings_were_right() -> None:
    """SURE is right nine times in ten, and FAIR, which is told as 70 %, twice in ten."""
    scores = [*told((SURE,), 200, 9), *told((FAIR,), 200, 2), *told((SURE, FAIR), 10, 9)]
    by = {level.told: level for level in levels(scores)}
    assert set(by) == {SURE, FAIR} and (by[SURE].count, by[FAIR].count) == (210, 210)
    assert by[SURE].low < SURE < by[SURE].high
    assert by[FAIR].high < 0.35 and by[FAIR].low > 0.15


def test_fitted_levels_help_where_the_told_are_wrong_and_not_where_they_are_right() -> None:
    right, wrong = told_and_fitted(told((SURE,), 200, 9)), told_and_fitted(told((SURE,), 200, 2))
    assert right[1] > right[0] - 0.01
    assert wrong[1] < wrong[0] / 2


def test_each_level_is_one_that_the_committed_runs_bear_out() -> None:
    every = [one for scores in our_runs().values() for one in scores]
    assert [level.told for level in levels(every) if not level.low <= level.told <= level.high] == []


@given(st.lists(st.sampled_from([0.5, 0.62, 0.75, 0.85, *LEVELS]), min_size=1, max_size=4))
def test_grounds_between_two_levels_count_as_they_are_told(grounds):
    """The told levels make a finding as sure as its grounds do, whatever lies between them."""
    scores = told(tuple(grounds), 2, 10)
    odds = sum(math.log(one / (1 - one)) for one in grounds)
    assert told_and_fitted(scores, folds=2)[0] == pytest.approx(math.log1p(math.exp(-odds)))


def test_a_tool_that_ran_alone_is_put_beside_the_others(leaky, tmp_path):
    """Its older rows go, the others' stay; what it takes was not measured beside the program alone."""
    about = {"seconds": 14, "at_once": 1, "date": "then", "machine": "", "python": "", "torch": ""}
    then, now = (
        {"versions": {"peer": v}, "how": {"peer": v}, "loads": {"peer": load}} for v, load in (("1", 2), ("2", 9))
    )
    rows = [score_of(leaky, Answer(), frozenset({LINE}), name)._replace(wall_s=5.0) for name in ("bare", "peer", "old")]
    write(rows, about | then, tmp_path / "all.json")
    right = score_of(leaky, Answer(lines=((str(leaky.path), 3),)), frozenset({LINE}), "peer")._replace(wall_s=7.0)
    elsewhere = right._replace(program="other/leaky.py")
    scores, told = added([rows[0]._replace(wall_s=9.0), right, elsewhere], about | now, tmp_path / "all.json")
    assert [(s.tool, s.line, s.wall_s) for s in scores] == [
        ("bare", False, 5.0),
        ("old", False, 5.0),
        ("peer", True, None),
    ]
    assert told == about | now


def test_a_page_has_each_tool_in_a_row_and_shows_markup_as_text(leaky):
    told = [score_of(leaky, Answer(holders=("<b>",)), frozenset({HOLDER}), name) for name in ("leakscope", "peer")]
    about = {"seconds": 14, "at_once": 1, "date": "", "machine": "", "python": "", "torch": ""}
    about |= {"versions": {"peer": "1.0"}, "how": {"leakscope": "as ours", "peer": "as theirs"}, "loads": {"peer": 4.5}}
    text = page(told, about)
    assert "<td>peer 1.0</td><td>as theirs</td><td>4.5</td>" in text and "not offered" in text
    assert "&lt;b&gt;" in text and "<b>" not in text


def test_growth_that_the_edit_of_the_first_advice_removes_is_a_measure(tmp_path, monkeypatch):
    """Recorded again here is the repaired twin; where no edit is certain nothing is gone."""
    again = open_recording(RECORDINGS / "retained_objects_numpy_views-clean.parquet")
    monkeypatch.setattr(leakscope_tool, "prove", lambda fix, before, after: compare(before, again))
    gone = []
    for name in ("numpy_views", "slots"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.parquet").symlink_to(RECORDINGS / f"retained_objects_{name}-leaky.parquet")
        gone.append(leakscope_tool.removed_by_edit(tmp_path / name))
    assert gone[0] > 0.9 and gone[1] == 0.0
    scores = [Score("p", True, False, "", "", removed=one) for one in (*gone, None)]
    about = {"seconds": 14, "at_once": 1, "date": "", "machine": "", "python": "", "torch": "", "how": {}}
    assert "removes 90% of the growth | 1 of 2 (50%)" in markdown(scores, about)


def test_a_sample_has_every_area_with_its_twins():
    chosen = sample(all_programs(), 32)
    assert {area(program) for program in chosen} == set(FIELD)
    paths = {program.path for program in chosen}
    twins = [p.path.with_name("clean.py") for p in chosen if p.places]
    assert all(twin in paths for twin in twins if twin.exists())
    assert len(chosen) < 60


def test_what_a_sample_begins_with_has_the_proportions_of_the_whole():
    """Where there is no time for all of it, what was run is a sample all the same."""
    chosen = sample(all_programs(), 64)
    leaky = [program for program in chosen if program.places]
    for part in (3, 2):
        first = leaky[: len(leaky) // part]
        for name, count in Counter(map(area, leaky)).items():
            assert abs(sum(area(p) == name for p in first) - count / part) <= 1, name
        innocent = sum(not p.places for p in chosen[: len(chosen) // part])
        assert abs(innocent - (len(chosen) - len(leaky)) / part) <= 4


def test_a_program_that_began_in_time_is_run_under_every_tool(leaky):
    now_s = iter((0.0, 59.0, 61.0, 62.0))
    begins = Begins(within_s=60, clock_s=lambda: next(now_s))
    assert begins.in_time(leaky)
    other = leaky._replace(path=leaky.path.with_name("other.py"))
    assert begins.in_time(leaky) and not begins.in_time(other)
    assert begins.too_late == {other.path}


def test_calibration_counts_false_alarms_as_wrong():
    right = Score("a", True, False, "", "", kind=True, name=None, confidence=0.97)
    alarm = Score("b", False, False, "", "", alarm=True, confidence=0.99)
    low = Score("c", True, False, "", "", kind=True, name=False, confidence=0.5)
    assert calibration([right, alarm, low]) == [("0% to 50%", 0.5, (0, 1)), ("95% to 100%", 0.98, (1, 2))]


def test_a_snapshot_is_judged_by_file_and_line_of_its_frames():
    kept = next(program for program in snapshots() if program.path.name.startswith("answers_gathered"))
    said = Answer(lines=(("/elsewhere/job/infer.py", 12), ("/elsewhere/job/infer.py", 10)))
    scored = score_of(kept, said, frozenset({LINE}), "viewer")
    assert (scored.line, scored.torch, scored.said) == (True, True, "at infer.py:12")
    assert not score_of(kept, said._replace(lines=said.lines[1:]), frozenset({LINE}), "viewer").line


def test_runs_of_a_program_agree_where_each_says_the_same():
    def once(program: str, said: str, verdict: bool | None) -> Score:
        return Score(program, True, False, "", said, verdict)

    same, other = [once("a", "x", True)] * 3, [once("b", "x", True), once("b", "x", False)]
    assert agreement([*same, *other, once("c", "y", None)]) == Share(1, 2), "what ran once agrees with nothing"


@given(st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_interval_of_a_share_holds_it_and_narrows_with_more(counted):
    count, of = counted
    low, high = interval(Share(count, of))
    assert 0.0 <= low <= count / of <= high <= 1.0
    further_low, further_high = interval(Share(10 * count, 10 * of))
    assert further_high - further_low < high - low
