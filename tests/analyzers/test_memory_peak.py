"""A peak far above the level is told with the lines that had it, and no other height of memory is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from leakscope.analyzers import Diagnosis
from leakscope.units import MiB

from ..builders import RecordingBuilder
from ..sentences import says
from .asking import asked

PID, FILE = 100, "/a/train.py"
SOURCE = "import numpy as np\n\n\ndef prepare(table):\n    raw = table.to_numpy()\n    return raw.astype('f4')\n"
CALLED = "/lib/site-packages/pandas/frame.py:88 DataFrame.to_numpy"
IMPORTED = "<frozen importlib._bootstrap>:1176 _find_and_load\n/lib/site-packages/pandas/__init__.py:3 <module>"
USUAL = [150] * 12
HIGH = [*USUAL, 500, *USUAL, *USUAL]  # MiB, a second each


def run(
    folder: Path,
    held_mb: Sequence[int] = HIGH,
    then_mb: Mapping[int, int] | None = None,
    *,
    called: str = CALLED,
    kernel_mb: int | None = None,
    step: int | None = None,
) -> Diagnosis:
    """A job whose line 5 of prepare() has 100 MiB all the time; at 12 s lines have what ``then_mb`` says."""
    builder = RecordingBuilder(folder).process(PID, role="trainer").source(PID, FILE, SOURCE)
    builder.samples(PID, rss=[size * MiB for size in held_mb], every_s=1.0)
    steps = None if step is None else [min(step, n) for n in range(len(held_mb))]
    builder.sentinels(PID, step=steps or [0] * len(held_mb))
    for number, at_s in ((1, 4.0), (2, 25.0)):
        builder.take(PID, number, at_s, holders=[{"path": "main() rows", "type_name": "list", "deep_bytes": MiB}])
    for at_s in (5.0, 10.0, 15.0, 20.0, 25.0, 30.0):
        is_peak = at_s == 15.0 and then_mb is not None
        peak = {"peak_ago_s": 2.5} if is_peak else {}
        for line, size in (then_mb or {5: 0}).items():
            live = 100 * MiB if line == 5 else 0
            stack = f"{FILE}:20 main\n{FILE}:{line} prepare\n{called}"
            row = {"function": "prepare", "owner_file": FILE, "owner_line": line}
            if live or is_peak:
                builder.allocated(PID, at_s, live, stack, **row, **peak, **({"peak_bytes": size * MiB} if peak else {}))
    if kernel_mb is not None:
        text = f"peak {kernel_mb} MiB (by train.py, between samples, after 12.0 s)"
        builder.row("events", 30.0, event="peak", value=float(kernel_mb * MiB), text=text)
    return asked(builder.ends(at_s=len(held_mb), exit_code=0).open(), ["memory-peak"])


def test_it_names_the_lines_that_had_it_and_what_they_had(tmp_path: Path) -> None:
    (finding,) = run(tmp_path, then_mb={5: 320, 6: 130}, step=400).findings
    assert (finding.kind, finding.severity, finding.bytes) == ("memory-peak", "note", 0)
    assert (finding.subject.file, finding.subject.line, finding.subject.function) == (FILE, 5, "prepare")
    assert says(finding.title, "500 MiB at 12.0 s", "150 MiB", "DataFrame.to_numpy of prepare()")
    first, second, lasted = finding.evidence
    assert says(first.text, ":5 had 220 MiB", "raw = table.to_numpy()"), "100 MiB of it are there all the time"
    assert says(second.text, ":6 had 130 MiB")
    assert says(lasted.text, "for 1.0 s", "step 11") and lasted.figures["level_bytes"] == 150 * MiB
    assert says(finding.remedy[0], "at most 150 MiB")


def test_a_peak_that_only_the_kernel_saw_is_told_too(tmp_path: Path) -> None:
    (finding,) = run(tmp_path, [*USUAL, *USUAL, *USUAL], {5: 320, 6: 130}, kernel_mb=500).findings
    assert says(finding.title, "500 MiB", "DataFrame.to_numpy of prepare()")
    assert any("between two samples" in one.text for one in finding.evidence)


def test_a_peak_that_comes_again_and_again_is_told_by_the_one_that_samples_explain(tmp_path: Path) -> None:
    """Even where a snapshot came in the midst of one, and had most of the time that is left at the peak."""
    (finding,) = run(tmp_path, [*[150] * 4, *[500] * 3] * 6, {5: 320, 6: 130}).findings
    assert says(finding.title, "500 MiB", "the usual 150 MiB", "DataFrame.to_numpy of prepare()")
    assert says(finding.remedy[0], "as high more than once")


@pytest.mark.parametrize(
    ("held_mb", "then_mb", "called"),
    [
        ([*USUAL, 290, *USUAL, *USUAL], {5: 240}, CALLED),  # less than twice what is usual
        ([n // 10 for n in HIGH], {5: 120}, CALLED),  # many times a level of next to nothing
        ([*USUAL, *[500] * 30, *USUAL], {5: 450}, CALLED),  # that is what the job usually holds
        ([*USUAL, *[500] * 30], {5: 450}, CALLED),  # it stays
        ([100 + 20 * (n % 20) for n in range(60)], {5: 450}, CALLED),  # up and down all the time
    ],
)
def test_other_heights_are_none(tmp_path: Path, held_mb: list[int], then_mb: dict[int, int], called: str) -> None:
    found = run(tmp_path, held_mb, then_mb, called=called)
    assert not found.findings and [one.kind for one in found.ruled_out] == ["memory-peak"]


@pytest.mark.parametrize(("then_mb", "called"), [({5: 450}, IMPORTED), ({6: 20}, CALLED), (None, CALLED)])
def test_it_is_not_told_where_no_line_is_known_to_have_had_it(
    tmp_path: Path, then_mb: dict[int, int] | None, called: str
) -> None:
    """Imports are nobody's to mend; what samples do not explain is not laid on whoever had the rest."""
    found = run(tmp_path, then_mb=then_mb, called=called)
    assert not found.findings
    assert [one.kind for one in found.skipped] == ["memory-peak"]
