"""What would have been enough: what changes take off the peak, and not off the level that comes after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakscope.evidence.enough import Fit, fit, remedy, without_waste
from leakscope.evidence.sentences import frees
from leakscope.facts.case import Case
from leakscope.findings import Finding, Idle, Subject
from leakscope.units import MiB

from ..builders import RecordingBuilder
from ..sentences import says

PID = 100
FILE = "/a/train.py"


def stages(tmp_path: Path) -> Case:
    """Three stages of 100 MiB, each made of the one before with as much for a moment, then a long flat time."""
    held = [100, 100, 200, 200, 400, 300, 300, 500, 400, *[400] * 40]
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer")
    builder.samples(PID, rss=[n * MiB for n in held], every_s=1.0)
    made = [(3.0, [5]), (6.0, [5, 6]), (9.0, [5, 6, 7]), (20.0, [5, 6, 7, 9]), (40.0, [5, 6, 7, 9])]
    for at_s, lines in made:
        for line in lines:
            size = 100 * MiB if line < 9 else MiB
            builder.allocated(PID, at_s, size, f"{FILE}:20 <module>\n{FILE}:{line} main")
    return Case(builder.ends(at_s=50.0, exit_code=0).open())


def waste(*idle: Idle) -> Finding:
    subject = Subject(process="train.py", pid=PID, holder="main() raw", path="main() raw")
    size = sum(one.bytes for one in idle)
    return Finding("dataset-copies", "raw and clean", "note", 0.9, size, subject, wasted=True, idle=idle)


def fitted(case: Case, *idle: Idle) -> Fit:
    found = fit(case, [waste(*idle)])
    assert found is not None
    return found


def test_what_the_peak_still_read_is_not_taken_off_it(tmp_path: Path) -> None:
    """Raw is gone before the last stage is made; clean is what that is made of, and has to be there at the peak."""
    raw = Idle(100 * MiB, "main() raw", FILE, 6, "main")
    clean = Idle(100 * MiB, "main() clean", FILE, 7, "main")
    both = fitted(stages(tmp_path), raw, clean)
    assert both.held_bytes == 500 * MiB
    assert both.left_bytes == pytest.approx(400 * MiB, rel=0.02)
    assert [size for _, size in both.chosen] == [both.held_bytes - both.left_bytes]


def test_a_peak_that_comes_and_goes_is_asked_for_in_parts(tmp_path: Path) -> None:
    """500 MiB for two seconds, beside a level of 150: in 400 there is room for 250 of them at once."""
    held = [100, 100, 600, 600, *[150] * 46]
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer").samples(PID, rss=[n * MiB for n in held])
    asked = f"{FILE}:20 <module>\n{FILE}:7 prepare"
    builder.allocated(PID, 4.0, MiB, asked, peak_bytes=500 * MiB, peak_ago_s=1.5).allocated(PID, 40.0, MiB, asked)
    for number, at_s in ((1, 10.0), (2, 40.0)):
        builder.take(PID, number, at_s, holders=[{"path": "main() table", "type_name": "list", "deep_bytes": MiB}])
    case = Case(builder.ends(at_s=50.0, exit_code=0).open())
    told = remedy(case, [], 400 * MiB)
    assert told is not None
    assert says(told, "in prepare() (train.py:7)", "600 MiB → ", "at once")
    assert says(told, "take at most 210 MiB"), "the limit, with some room, less the level"


@pytest.mark.parametrize(("burst_mb", "most_mb"), [(0, 300), (250, 350), (900, 500)])
def test_what_came_and_went_between_samples_before_there_was_waste_is_needed_without_it(
    tmp_path: Path, burst_mb: int, most_mb: int
) -> None:
    """The kernel knows of no more than 500 MiB: what is asked for beyond that is not written to."""
    held = [100, 100, 100, 300, 500, *[300] * 40]
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer")
    builder.samples(PID, rss=[n * MiB for n in held], every_s=1.0)
    builder.sentinels(PID, burst_bytes=[burst_mb * MiB if at_s == 2 else 0 for at_s in range(45)])
    idle = Idle(200 * MiB, "main() raw", since_s=3.5)
    level, most = without_waste(Case(builder.ends(at_s=45.0, exit_code=0).open()), [waste(idle)]) or (0, 0)
    assert (level, most) == (100 * MiB, most_mb * MiB)


def test_what_is_idle_only_after_the_peak_saves_nothing(tmp_path: Path) -> None:
    last = Idle(100 * MiB, "main() clean", FILE, 7, "main")
    found = fitted(stages(tmp_path), last)
    assert not found.chosen and found.left_bytes == found.held_bytes


def test_within_a_telling_the_curve_shows_when_it_was_idle(tmp_path: Path) -> None:
    """All stages are told of at once: what was asked for after a line has come since the process last held less."""
    held = [100, 100, 200, 200, 400, 300, 300, 500, 400, *[400] * 40]
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer")
    builder.samples(PID, rss=[n * MiB for n in held], every_s=1.0)
    for at_s in (10.0, 20.0, 40.0):
        for line in (5, 6, 7):
            builder.allocated(PID, at_s, 100 * MiB, f"{FILE}:20 <module>\n{FILE}:{line} main")
    case = Case(builder.ends(at_s=50.0, exit_code=0).open())
    found = fitted(case, Idle(100 * MiB, "main() raw", FILE, 6, "main"))
    assert found.left_bytes == pytest.approx(400 * MiB, rel=0.02)


def test_of_what_no_line_is_known_it_counts_once_it_was_seen(tmp_path: Path) -> None:
    case = stages(tmp_path)
    found = fit(case, [replace(waste(Idle(100 * MiB, "main() raw")), idle=())])
    assert found is not None and found.left_bytes == found.held_bytes, "the level comes after the peak"
    assert np.isfinite(found.left_bytes)


@pytest.mark.parametrize(
    ("kind", "size", "library", "mapped_mb", "keeps"),
    [
        ("str", 540, None, None, True),  # each a piece of malloc's heap
        ("str", 150, None, None, False),  # Python's own arenas, which go back once they are empty
        ("numpy.ndarray", 4 * MiB, None, None, False),  # mapped by itself
        ("numpy.ndarray", 4 * MiB, None, 140, False),
        ("numpy.ndarray", 4 * MiB, None, 2, True),  # glibc maps larger pieces only, once one was freed
        ("dict", 900, None, None, False),  # of how many pieces is not known
        ("str", 540, "libjemalloc.so.2", None, False),
    ],
)
def test_what_malloc_keeps_is_not_promised_to_the_system(
    tmp_path: Path, kind: str, size: int, library: str | None, mapped_mb: int | None, keeps: bool
) -> None:
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer").samples(PID, rss=[200 * MiB] * 9)
    mapped = None if mapped_mb is None else [mapped_mb * MiB] * 9
    builder.sentinels(PID, malloc_in_use_bytes=[150 * MiB] * 9, malloc_library=library, malloc_mmap_bytes=mapped)
    (process,) = Case(builder.ends(at_s=9.0, exit_code=0).open()).growth.processes
    told = frees(process, 130 * MiB, [(kind, size)])
    assert told.startswith("frees about 130 MiB")
    assert ("malloc_trim" in told) is keeps


def test_half_precision_halves_what_is_single_of_all_that_training_holds(tmp_path: Path) -> None:
    """A model of which one half is in half precision already; its optimizer's state has the type of the parameters."""
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer").samples(PID, rss=[900 * MiB] * 20)
    held = {"path": "main() model", "type_name": "Net", "deep_bytes": 700 * MiB, "tensor_deep_bytes": 700 * MiB}
    of_owner = (
        ("parameter", "float32", 100), ("parameter", "bfloat16", 100), ("gradient", "float32", 100),
        ("optimizer-state", "float32", 200), ("user-held", "float32", 200),
    )  # fmt: skip
    for take, at_s, share in ((1, 5.0, 2), (2, 15.0, 1)):
        builder.take(PID, take, at_s, holders=[held], tensor_bytes=700 * MiB)
        for owner, dtype, size in of_owner:
            row = {"take": take, "moment": "take", "device": "cpu", "tensor_owner": owner, "dtype": dtype}
            builder.row("tensors", at_s, PID, **row, storage_bytes=size * MiB // share)
    found = fit(Case(builder.ends(at_s=20.0, exit_code=0).open()), [])
    assert found is not None
    assert [size for text, size in found.chosen if "half precision" in text] == [200 * MiB]


def test_what_workers_have_copied_came_as_they_grew_and_is_off_the_level_and_the_peak(tmp_path: Path) -> None:
    """Of 200 MiB in each of two that began with nothing of their own, 150 are copies: at the end, and then only."""
    builder = RecordingBuilder(tmp_path).process(PID, role="trainer").samples(PID, rss=[300 * MiB] * 40, every_s=1.0)
    for pid in (101, 102):
        builder.process(pid, role="dataloader-worker", born_s=2.0)
        builder.samples(pid, rss=[min(200, 10 * n) * MiB for n in range(38)], every_s=1.0, from_s=2.0)
    case = Case(builder.ends(at_s=40.0, exit_code=0).open())
    subject = Subject(process="train.py", pid=101, holder="Rows.rows in each of 2 loader workers", path="main() rows")
    copies = Finding("dataloader-workers", "copied", "warning", 0.9, 300 * MiB, subject, wasted=True)
    level, most = without_waste(case, [copies]) or (0, 0)
    assert case.peak is not None and case.peak.bytes == 700 * MiB
    assert level == pytest.approx(400 * MiB, rel=0.03)
    assert most == pytest.approx(400 * MiB, rel=0.03)
