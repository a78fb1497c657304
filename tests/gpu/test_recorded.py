"""Recordings that were made on a real GPU, judged without one: each names what is true of its program."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leakscope import analyze
from leakscope.browsing import show, ways
from leakscope.errors import BadInput
from leakscope.findings import Finding, Report
from leakscope.renderers import render
from leakscope.storage import open_recording
from tests.golden import as_json
from tests.golden.figures import contradictions
from tests.golden.test_golden import NEUTRAL, PATH, texts_of
from tests.sentences import says

pytestmark = [pytest.mark.golden, pytest.mark.xdist_group("gpu-recordings")]  # one worker judges each once

FOLDER = Path(__file__).parent
RECORDINGS = FOLDER / "recordings"


TIDIED = ("others_hold_it",)  # since it was recorded


class Leak(NamedTuple):
    """``line``: a part of the line that fills the holder; it stands once in the program."""

    variable: str
    line: str
    kind: str = "gpu-retention"


LEAKING = {
    "outputs_kept": Leak("history", "self.history.append(output)"),
    "features_cached": Leak("BANK", "BANK[index] ="),
    "full_of_leak": Leak("outputs", "outputs.append(model("),
    "full_of_leak-history": Leak("outputs", "outputs.append(model("),
    "killed": Leak("states", "states.append("),
    "ranks": Leak("gathered", "gathered.append("),
    "trainer_callback": Leak("seen", "self.seen.append("),
    "lightning_outputs": Leak("training_step_outputs", "training_step_outputs.append("),
    "cupy_kept": Leak("kept", "kept.append("),
    "pinned_kept": Leak("staged", "self.staged.append(batch)", "retained-objects"),
    "state_handed_on": Leak("hidden", "output, self.hidden ="),
    "own_function": Leak("errors", "self.errors[step] ="),
    "sharded_graphs": Leak("losses", "losses.append(loss)"),
    "offloaded_graphs": Leak("losses", "losses.append(", "retained-graph"),
}
CLEAN = (
    "clean_threads",
    "clean_accumulation",
    "clean_lengths",
    "clean_ema",
    "clean_transformer",
    "checkpoint_kept",
    "batch_too_large",
    "others_hold_it",
)


@lru_cache
def judged(name: str) -> Report:
    return analyze(open_recording(RECORDINGS / f"{name}.parquet"))


def program(name: str) -> str:
    return (FOLDER / "programs" / f"{name.partition('-')[0]}.py").read_text(encoding="utf-8")


def only(report: Report, kind: str) -> Finding:
    (finding,) = (one for one in report.findings if one.kind == kind)
    return finding


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", LEAKING)
def test_the_holder_on_the_device_is_named_with_its_line(name: str) -> None:
    report, leak = judged(name), LEAKING[name]
    finding = report.findings[0]
    assert report.verdict.leaking
    assert (finding.kind, finding.subject.variable) == (leak.kind, leak.variable)
    (number,) = (at for at, line in enumerate(program(name).splitlines(), 1) if leak.line in line)
    assert finding.subject.line == number
    assert not contradictions(as_json(report))


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", CLEAN)
def test_no_other_is_accused_of_growing(name: str) -> None:
    report = judged(name)
    assert report.verdict.leaking is False, report.verdict.headline
    assert "gpu-retention" not in {finding.kind for finding in report.findings}
    assert not contradictions(as_json(report))


@pytest.mark.parametrize("name", [*LEAKING, *CLEAN])
def test_it_is_of_the_program_as_it_is_now_and_of_no_machine(name: str) -> None:
    texts = texts_of(open_recording(RECORDINGS / f"{name}.parquet"))
    assert program(name) in texts.pop("source_text") or name in TIDIED
    others = [text for column in texts.values() for text in column]
    assert not {path for text in others for path in PATH.findall(text) if not path.startswith(NEUTRAL)}


def test_a_limit_that_the_program_set_itself_ends_it() -> None:
    """And no other process on the device, of which there were ten."""
    crash = only(judged("batch_too_large"), "crash")
    assert says(crash.title, "GPU 0 ran out of memory", "256 MiB", "limits itself to 4.0 GiB")
    assert crash.subject.line == next(
        at for at, line in enumerate(program("batch_too_large").splitlines(), 1) if "loss = model(batch)" in line
    )
    assert "gpu-other-process" not in {finding.kind for finding in judged("batch_too_large").findings}


def test_another_process_that_has_the_device_is_named() -> None:
    finding = judged("others_hold_it").findings[0]
    assert finding.kind == "gpu-other-process"
    assert says(finding.title, "67.8 GiB", "H100")


def test_a_checkpoint_that_stays_on_the_device_is_waste() -> None:
    finding = only(judged("checkpoint_kept"), "duplicate-model")
    assert finding.wasted and finding.subject.variable == "checkpoint"
    assert finding.bytes == pytest.approx(640 * 2**20, rel=0.02)


def test_the_history_that_was_recorded_is_no_growth_of_the_jobs() -> None:
    report = judged("full_of_leak-history")
    budget = {row.account: row.bytes for row in report.tensor_budget if row.moment == "snapshot-peak"}
    assert budget["workspaces"] >= 64 * 2**20, "cuBLAS keeps 32 MiB for each thread: they are no gradients"
    kinds = {finding.kind for finding in report.findings}
    assert "gpu-out-of-memory" in kinds
    assert not kinds & {"native-growth", "refcount-drift"}


def test_what_is_on_the_device_adds_up_in_the_page_and_in_a_terminal() -> None:
    report = judged("full_of_leak")
    view = next(view for view in report.heap if view.on_devices)
    tensors: Any = next(band for band in view.accounts if band.name == "tensors")
    tops = [holder for holder in view.holders if holder.parent is None]
    assert sum(holder.bytes[-1] for holder in tops) <= tensors.value_bytes[-1]
    assert max(holder.bytes[-1] for holder in view.holders) >= 0.9 * tensors.value_bytes[-1]
    assert "Largest holders on GPUs" in render(report, "terminal", verbose=True)
    assert f"{view.process}</h3>" in render(report, "html")


def test_the_heap_of_a_device_is_shown_by_holder() -> None:
    recording = open_recording(RECORDINGS / "full_of_leak.parquet")
    head, *_, holder, _, _, _, _, _, _, rest = show(recording, on_devices=True).rstrip("\n").split("\n")
    assert says(head, "full_of_leak.py[535]", "2.9 GiB on GPUs")
    assert says(holder, "main() outputs", "list holding 164")
    assert says(rest, "161 more", "torch.Tensor")
    assert "main() outputs" in ways(recording, "torch.Tensor", on_devices=True)
    with pytest.raises(BadInput, match="no snapshot in it knows of tensors on a GPU"):
        show(open_recording(FOLDER.parents[1] / "docs" / "example" / "run.parquet"), on_devices=True)
