"""What the remedy says beside removing members, where the recording shows what these keep."""

from __future__ import annotations

import pytest

from leakbench.score import score
from tests.end_to_end.programs import Program

from . import RECORDINGS, golden_programs, judge, recording_of

pytestmark = pytest.mark.golden

SAID = {
    "retained_objects_numpy_views-leaky": "keep a .copy() of each",
    "retained_objects_stored_exceptions-leaky": "error.with_traceback(None)",
    "activation_hooks_left_on-leaky": "call its remove()",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", SAID)
def test_the_remedy_is_of_what_the_members_keep(name: str) -> None:
    finding, *_ = judge(RECORDINGS / f"{name}.parquet")["findings"]
    assert any(SAID[name] in advice for advice in finding["remedy"])


ADVISED = [program for program in golden_programs() if program.mechanisms]


@pytest.mark.cases(4)
@pytest.mark.parametrize("program", ADVISED, ids=lambda program: program.name)
def test_the_advice_mends_the_mechanism_by_which_the_program_keeps_memory(program: Program) -> None:
    report = judge(recording_of(program))
    assert score(program, report).advice, (report["findings"][0]["mechanism"], report["findings"][0]["remedy"])
