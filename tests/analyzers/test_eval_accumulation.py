"""Evaluation that keeps memory is told from evaluation that gives it back, and from none."""

from __future__ import annotations

import pytest

from leakscope import analyze
from leakscope.analyzers import eval_accumulation
from leakscope.facts.case import Case
from leakscope.findings import Finding, RuledOut, Skipped
from leakscope.units import MiB

from ..builders import RecordingBuilder

PID = 100
SECONDS = 60
EVERY_S = 10  # an evaluation of 2 s ends each


def recorded(
    tmp_path, *, kept_mib: float, peak_mib: float, train_mib: float = 0.0, free_mib: float = 0.0, entries_each: int = 1
):
    """A training with an evaluation every ten seconds, as the agent adds its passages up."""
    rss, phases = [], {"train": [], "eval": []}
    for second in range(SECONDS):
        passages, inside = divmod(second, EVERY_S)
        now = (
            passages * (kept_mib + free_mib) + second * train_mib / EVERY_S + (peak_mib if inside >= EVERY_S - 2 else 0)
        )
        rss.append(int((500 + now) * MiB))
        phases["train"].append(int(second * train_mib / EVERY_S * MiB))
        phases["eval"].append(int(passages * kept_mib * MiB))
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, rss=rss)
    passed = [second // EVERY_S for second in range(SECONDS)]
    in_use, free = ([int((100 + n * each) * MiB) for n in passed] for each in (kept_mib, free_mib))
    steps = list(range(0, SECONDS * 10, 10))
    builder.sentinels(PID, step=steps, malloc_in_use_bytes=in_use, malloc_free_bytes=free)
    for phase, gained in phases.items():
        counts = [second // EVERY_S * entries_each for second in range(SECONDS)]
        builder.series(
            "phases",
            PID,
            phase=phase,
            gained_bytes=gained,
            entry_count=counts,
            phase_s=[0.2 * second for second in range(SECONDS)],
            peak_gain_bytes=int(max(peak_mib, kept_mib) * MiB),
            step=[second * 10 for second in range(SECONDS)],
        )
    return builder.ends(at_s=SECONDS, exit_code=0).open()


def eval_results(recording, **thresholds):
    return list(eval_accumulation.findings(Case(recording), **thresholds))


def test_what_each_evaluation_leaves_behind_is_named(tmp_path):
    found = eval_results(recorded(tmp_path, kept_mib=31, peak_mib=10))
    finding = next(f for f in found if isinstance(f, Finding))
    assert finding.kind == "eval-accumulation"
    assert "+31.0 MiB in each evaluation, none of it comes back" in finding.title
    assert finding.bytes > 100 * MiB


def test_what_lies_freed_between_what_stays_is_nobody_s_share(tmp_path):
    """Two thirds of the growth are free inside malloc: evaluation left all that is not."""
    recording = recorded(tmp_path, kept_mib=20, peak_mib=10, free_mib=40)
    finding = next(f for f in eval_results(recording) if isinstance(f, Finding))
    assert "+20.0 MiB in each evaluation" in finding.title
    assert not any(isinstance(f, Finding) for f in eval_results(recording, min_share=1.2))


@pytest.mark.parametrize("peak_mib", [5, 200])
def test_a_spike_that_recovers_is_ruled_out_with_its_height(tmp_path, peak_mib):
    found = eval_results(recorded(tmp_path, kept_mib=0, peak_mib=peak_mib))
    ruled_out = next(r for r in found if isinstance(r, RuledOut))
    assert "gave it back" in ruled_out.reason
    assert ruled_out.figures["peak_gain_bytes"] == peak_mib * MiB
    assert not any(isinstance(f, Finding) for f in found)


def test_growth_in_training_is_not_put_down_to_evaluation(tmp_path):
    found = eval_results(recorded(tmp_path, kept_mib=0, peak_mib=5, train_mib=40))
    assert not any(isinstance(f, Finding) for f in found)


def test_a_model_switched_at_every_step_is_no_evaluation(tmp_path):
    found = eval_results(recorded(tmp_path, kept_mib=31, peak_mib=10, entries_each=90))
    assert [type(r) for r in found] == [Skipped]


def test_when_it_happens_does_not_answer_who_holds_it(tmp_path):
    report = analyze(recorded(tmp_path, kept_mib=31, peak_mib=10))
    assert {f.kind for f in report.findings} == {"eval-accumulation", "unexplained-growth"}


def test_a_row_without_figures_costs_no_other_its_look(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, rss=[500 * MiB] * 30)
    figures = {"phase": "eval", "gained_bytes": 0, "phase_s": 1.0, "peak_gain_bytes": MiB, "step": 1}
    builder.row("phases", 10.0, PID, entry_count=1, **figures).row("phases", 20.0, PID, **figures)
    (result,) = eval_results(builder.row("phases", 25.0, PID, entry_count=4, **figures).ends().open())
    assert isinstance(result, RuledOut)


def test_of_what_others_give_back_no_more_than_all_is_said_to_stay(tmp_path):
    """Training gives back two thirds of what each evaluation took."""
    found = eval_results(recorded(tmp_path, kept_mib=31, peak_mib=10, train_mib=-21), min_share=100.0)
    (reason,) = [r.reason for r in found if isinstance(r, RuledOut)]
    assert "+31.0 MiB" in reason and "of it comes back later" in reason
    assert "gained and has not freed" not in reason
