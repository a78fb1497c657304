"""One cause is one finding: what others saw of the same object stands in it as evidence."""

from __future__ import annotations

from dataclasses import replace

from leakscope.findings import Evidence, Finding, Subject
from leakscope.kinds import GROWTH, PILE, kind_of
from leakscope.reporting.merging import folded

SUBJECT = Subject(pid=7, path="main() trainer.history")
FIRST = Finding("retained-objects", "history keeps growing", "critical", 0.9, 100, SUBJECT, evidence=[Evidence("grew")])
WHEN = Finding(
    "eval-accumulation", "Evaluation leaves memory behind", "warning", 0.8, 80, SUBJECT,
    evidence=[Evidence("grew"), Evidence("in each of 3 evaluations")],
)  # fmt: skip


def test_the_first_keeps_its_figures_and_says_what_the_other_saw() -> None:
    (finding,) = folded([FIRST, WHEN])
    assert (finding.kind, finding.bytes, list(finding.also)) == ("retained-objects", 100, ["eval-accumulation"])
    texts = [evidence.text for evidence in finding.evidence]
    assert texts[0] == "grew" and texts[-1] == "in each of 3 evaluations" and texts.count("grew") == 1
    assert any(WHEN.title in text for text in texts)


def test_a_part_of_what_grows_and_what_one_variable_keeps_have_one_cause() -> None:
    part = replace(WHEN, subject=Subject(pid=7, path="main() trainer.history[*].graph"))
    (finding,) = folded([FIRST, part])
    assert list(finding.also) == ["eval-accumulation"]
    piles = kind_of("process-pileup", "", (GROWTH, PILE))
    first = replace(FIRST, kind="process-pileup", subject=Subject(pid=7, variable="started"), means=piles)
    pipes = replace(first, kind="fd-pileup", title="Pipes pile up", means=kind_of("fd-pileup", "", (PILE,)))
    (finding,) = folded([first, pipes])
    assert (finding.kind, list(finding.also)) == ("process-pileup", ["fd-pileup"])
    apart = replace(pipes, subject=Subject(pid=7, variable="logs"))
    assert folded([first, apart]) == [first, apart]


def test_other_objects_other_processes_and_waste_stay_apart() -> None:
    others = [
        replace(WHEN, subject=Subject(pid=7, path="main() log")),
        replace(WHEN, subject=Subject(pid=7, path="main() trainer.history_of_losses")),
        replace(WHEN, subject=Subject(pid=8, path=SUBJECT.path)),
        replace(WHEN, subject=Subject(pid=7)),
        replace(WHEN, wasted=True),
    ]
    assert folded([FIRST, *others]) == [FIRST, *others]
