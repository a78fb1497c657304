"""Mappings that pile up: counted by the recorder, told from libraries that are loaded once."""

from __future__ import annotations

import pytest

from tests.builders import RecordingBuilder

from .asking import asked
from .leaks import PID, MiB, trainer

AT_S = (1.5, 6.5, 11.5, 16.5)
SOURCE = """import mmap


class Lobby:
    def __init__(self):
        self.boards = {}

    def begin(self, match):
        board = mmap.mmap(-1, mmap.PAGESIZE)
        self.boards[match] = board
        return board
"""


def with_maps(builder, counts, kind="shared-memory"):
    for at_s, count in zip(AT_S, counts):
        builder.row("memory_maps", at_s, PID, map_kind="file", map_count=120)
        builder.row("memory_maps", at_s + 1e-5, PID, map_kind=kind, map_count=count)
    return builder


def looked(builder):
    return asked(builder.open(), only=["map-pileup"])


def test_mappings_that_are_never_unmapped_are_found_and_named(tmp_path):
    builder = trainer(tmp_path, leak=0).source(PID, "/home/me/lobby.py", SOURCE, module="lobby")
    (finding,) = looked(with_maps(builder, (100, 600, 1100, 1600))).findings
    assert "1,500" in finding.title and "shared memory" in finding.title
    assert finding.evidence[0].figures == {"first_count": 220, "last_count": 1720}
    assert (finding.subject.file, finding.subject.line) == ("/home/me/lobby.py", 9)
    assert finding.subject.variable == "boards"


def test_who_maps_them_is_a_doubt_where_no_source_shows_it(tmp_path):
    (finding,) = looked(with_maps(trainer(tmp_path, leak=0), (100, 600, 1100, 1600), kind="anonymous")).findings
    assert finding.doubts and finding.subject.line is None
    assert finding.subject.holder == "mappings of anonymous memory", "the same from run to run: no figure"
    left = next(one.figures["left_s"] for one in finding.evidence if "left_s" in one.figures)
    assert left == pytest.approx((65_530 - 1720) / 100, abs=1)  # 100 a second


@pytest.mark.parametrize(
    "counts",
    [
        (100, 100, 102, 100),
        (100, 1500, 1500, 1510),  # libraries, loaded once
        (100, 1500, 1500, 100),
        (100, 500, 1500, 1510),  # loaded until past the middle of what was looked at
    ],
)
def test_mappings_that_do_not_keep_rising_are_ruled_out(tmp_path, counts):
    report = looked(with_maps(trainer(tmp_path, leak=0), counts))
    assert not report.findings
    (ruled_out,) = report.ruled_out
    assert ruled_out.figures["risen"] == counts[-1] - counts[0]


def test_two_readings_are_too_few(tmp_path):
    report = looked(with_maps(trainer(tmp_path, leak=0), (100, 1600)))
    assert not report.findings and not report.ruled_out
    assert [skip.kind for skip in report.skipped] == ["map-pileup"]


def test_stacks_of_threads_that_pile_up_are_not_told_twice(tmp_path):
    builder = trainer(tmp_path, leak=0, thread_count=[5 + 10 * n for n in range(80)])
    with_maps(builder, (100, 600, 1100, 1600), kind="anonymous")
    report = asked(builder.open(), only=["map-pileup", "thread-pileup"])
    assert [finding.kind for finding in report.findings] == ["thread-pileup"]
    assert "map-pileup" in {one.kind for one in report.ruled_out}


@pytest.mark.parametrize(("every_s", "severity"), [(5.0, "warning"), (6000.0, "note")])
def test_a_pile_that_is_far_from_the_limit_is_a_note(tmp_path, every_s, severity):
    """1,500 more in 15 s, or in five hours: then it takes nine days to the limit."""
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [100 * MiB] * 80, every_s=every_s / 20)
    counts = {"map_kind": "anonymous", "map_count": [100, 600, 1100, 1600]}
    (finding,) = looked(builder.series("memory_maps", PID, every_s, **counts)).findings
    assert finding.severity == severity


def with_modules(builder, *modules):
    """How many there were at snapshots from 1 s on, five seconds apart."""
    for number, count in enumerate(modules, 1):
        builder.take(PID, number, 5.0 * number - 4.0).heap(PID, number, 5.0 * number - 4.0, 1000, 10, modules=count)
    return builder


def test_while_modules_are_imported_mappings_are_those_of_libraries(tmp_path):
    builder = with_maps(trainer(tmp_path, leak=0), (100, 500, 900, 1300), kind="file")
    report = looked(with_modules(builder, 100, 600, 1100, 1600))
    assert not report.findings
    assert any(entry.kind == "map-pileup" and "16.0 s" in entry.reason for entry in report.ruled_out)


def test_what_piles_up_after_the_imports_is_found(tmp_path):
    builder = with_maps(trainer(tmp_path, leak=0), (100, 1600, 3100, 4600))
    (finding,) = looked(with_modules(builder, 100, 600, 610, 610)).findings
    assert "3,000" in finding.title, "those of before are not counted"
