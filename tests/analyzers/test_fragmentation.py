"""Fragmentation: freed memory that an allocator keeps, told from memory in use."""

from __future__ import annotations

import pytest

from leakscope import analyze
from tests.builders import RecordingBuilder
from tests.sentences import says

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer

KiB = 1024
GROWING = [4 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
PINS = LEAK_BYTES_PER_S // 50  # a second: what stays in use between what is freed
SOURCE = "class Vocabulary:\n    def absorb(self, phrase):\n        self.counts[phrase] = 1\n"


def with_takes(builder, lengths=(1000, 1000, 1000)):
    for number, (at_s, length) in enumerate(zip((4, 9, 17), lengths), 1):
        counts = {
            "path": "main() vocabulary.counts", "root_kind": "frame", "edge_kind": "attribute", "variable": "counts",
            "owner": "Vocabulary", "owner_module": "__main__", "owner_file": "/home/me/train.py", "is_user": True,
            "type_name": "dict", "object_count": 1, "length": length, "deep_bytes": 100 * length,
        }  # fmt: skip
        builder.take(PID, number, at_s, holders=[counts], python_bytes=8 * MiB, array_bytes=0, tensor_bytes=0)
    return builder.source(PID, "/home/me/train.py", SOURCE)


def only_finding(builder):
    (finding,) = asked(builder.open(), only=["fragmentation"]).findings
    return finding


def test_arenas_of_python_that_stay_half_empty_name_what_lives_in_them(tmp_path):
    arenas = {"pymalloc_bytes": GROWING, "pymalloc_in_use_bytes": [3 * MiB + PINS * s for s in range(20)]}
    finding = only_finding(with_takes(sentinels(trainer(tmp_path), in_use=0, **arenas), (1000, 6000, 16000)))
    assert "Python's allocator" in finding.title and finding.subject.variable == "counts"
    assert finding.subject.line == 3 and finding.remedy
    assert finding.bytes > 100 * MiB


def test_malloc_that_keeps_what_was_freed(tmp_path):
    finding = only_finding(with_takes(sentinels(trainer(tmp_path), in_use=PINS, malloc_free_bytes=GROWING)))
    assert finding.subject.library == "malloc" and finding.subject.holder is None
    assert finding.doubts and "--probe" in finding.remedy[0]  # nobody has measured what a trim gives back


@pytest.mark.parametrize(("given", "words"), [(400 * MiB, ["malloc_trim(0)", "400 MiB"]), (MiB, ["leakscope whatif"])])
def test_what_a_trim_was_tried_on_says_what_else_to_do(tmp_path, given, words):
    builder = sentinels(trainer(tmp_path), in_use=PINS, malloc_free_bytes=GROWING, rss_bytes=[500 * MiB] * 20)
    tried = {"experiment": "malloc_trim", "returned_bytes": given, "experiment_s": 0.1}
    finding = only_finding(with_takes(builder).row("experiments", 20.0, PID, **tried))
    assert says(finding.remedy[0], *words) and "--probe" not in finding.remedy[0]


def test_what_was_trimmed_still_counts_as_free_and_is_no_growth(tmp_path):
    builder = sentinels(trainer(tmp_path, leak=0), in_use=0, malloc_free_bytes=GROWING)
    assert not asked(with_takes(builder).open(), only=["fragmentation"]).findings


def test_silent_where_memory_in_use_grows(tmp_path):
    report = asked(with_takes(sentinels(trainer(tmp_path))).open(), only=["fragmentation"])
    assert not report.findings and report.ruled_out
    arenas = {"pymalloc_bytes": GROWING, "pymalloc_in_use_bytes": [b - MiB for b in GROWING]}
    (tmp_path / "small").mkdir()
    builder = with_takes(sentinels(trainer(tmp_path / "small"), in_use=0, **arenas))
    assert not asked(builder.open(), only=["fragmentation"]).findings


KEPT_BYTES = 150 * MiB
IN_USE_BYTES = 20 * MiB
OTHER_BYTES = 30 * MiB  # of the process, and not malloc's


def service(tmp_path, *, kept=None, arena_count=16, piece_bytes=48 * KiB, resident=None, **readings):
    """20 seconds of a program that does not grow: malloc keeps 150 of 200 MiB free, in arenas that are alike."""
    kept = [KEPT_BYTES] * 40 if kept is None else kept
    resident = OTHER_BYTES + IN_USE_BYTES + KEPT_BYTES if resident is None else resident
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="/usr/bin/python3 /home/me/serve.py")
    builder.samples(PID, [resident] * 40, every_s=0.5)
    of_malloc = {"malloc_in_use_bytes": [IN_USE_BYTES] * 40, "malloc_free_bytes": kept, "rss_bytes": resident}
    builder.sentinels(PID, every_s=0.5, **{**of_malloc, **readings})
    free = KEPT_BYTES // max(arena_count, 1)
    for number in range(arena_count):
        of_kernel = {"arena": number, "arena_count": 1, "system_bytes": free + IN_USE_BYTES // arena_count}
        pieces = {"free_bytes": free, "top_bytes": 4096, "free_chunk_count": free // piece_bytes}
        builder.row("malloc_arenas", 16.0, PID, **of_kernel, **pieces)
    return builder


def test_what_malloc_keeps_free_is_wasted_where_memory_does_not_grow(tmp_path):
    report = analyze(service(tmp_path).open())
    (finding,) = report.findings
    assert finding.kind == "fragmentation" and finding.wasted and finding.bytes == KEPT_BYTES
    assert says(finding.title, "150 MiB of 200 MiB free", "16 arenas")
    assert report.verdict.leaking is False and report.verdict.wasted_bytes == KEPT_BYTES
    assert says(report.verdict.headline, "No leak", "malloc keeps 150 MiB of 200 MiB free")
    assert any(says(one.text, "it is no leak") for one in finding.evidence)
    assert "fragmentation" not in {one.kind for one in report.ruled_out}


def test_the_line_that_asked_for_what_stays_between_the_freed_is_told(tmp_path):
    builder = service(tmp_path).source(PID, "/home/me/serve.py", "def answer(n):\n    seen.append(bytes(n))\n")
    for at_s in (5.0, 15.0):
        builder.allocated(PID, at_s, 4 * MiB, "/home/me/serve.py:2 answer")
        builder.allocated(PID, at_s, 9 * MiB, "/opt/lib/python3.11/site-packages/numpy/core.py:7 empty")
    (finding,) = asked(builder.open(), only=["fragmentation"]).findings
    assert any(says(one.text, "4.0 MiB of what is in use stays for long", "serve.py:2") for one in finding.evidence)
    assert not any("numpy" in one.text for one in finding.evidence)


def test_each_remedy_says_what_it_may_give(tmp_path):
    (finding,) = asked(service(tmp_path).open(), only=["fragmentation"]).findings
    fewer, trim = finding.remedy  # first what lasts
    assert says(fewer, "MALLOC_ARENA_MAX=2", "131 MiB", "not tried")  # 14 of the 16 arenas
    assert says(trim, "malloc_trim(0)", "about 138 MiB", "estimate", "until")  # all but a page of each free piece


def test_one_arena_of_large_pieces_needs_no_limit_to_the_number_of_arenas(tmp_path):
    (finding,) = asked(service(tmp_path, arena_count=1, piece_bytes=MiB).open(), only=["fragmentation"]).findings
    assert not any("MALLOC_ARENA_MAX" in text for text in finding.remedy)
    assert any("MALLOC_MMAP_THRESHOLD_" in text for text in finding.remedy)


def test_a_trim_that_was_tried_says_what_it_gave(tmp_path):
    tried = {"experiment": "malloc_trim", "returned_bytes": 140 * MiB, "experiment_s": 0.1}
    builder = service(tmp_path).row("experiments", 20.0, PID, **tried)
    (finding,) = asked(builder.open(), only=["fragmentation"]).findings
    assert any(says(text, "malloc_trim(0)", "140 MiB", "measured") for text in finding.remedy)
    assert not any("--probe" in text for text in finding.remedy)


def test_a_trim_that_gave_nothing_back_leaves_nothing_to_say(tmp_path):
    tried = {"experiment": "malloc_trim", "returned_bytes": MiB, "experiment_s": 0.1}
    assert not asked(service(tmp_path).row("experiments", 20.0, PID, **tried).open(), only=["fragmentation"]).findings


def test_buffers_that_are_freed_and_taken_again_are_no_waste(tmp_path):
    in_turn = [KEPT_BYTES, 10 * MiB] * 20
    assert not asked(service(tmp_path, kept=in_turn).open(), only=["fragmentation"]).findings


def test_what_malloc_says_beyond_what_is_resident_is_not_told(tmp_path):
    resident = IN_USE_BYTES + KEPT_BYTES // 2
    assert not asked(service(tmp_path, resident=resident).open(), only=["fragmentation"]).findings


def test_of_what_was_never_written_to_the_resident_part_is_told(tmp_path):
    """While all that malloc kept was resident it was seen how much of the process is not malloc's."""
    kept = [KEPT_BYTES // 2] * 5 + [KEPT_BYTES] * 35
    resident = OTHER_BYTES + IN_USE_BYTES + KEPT_BYTES // 2
    (finding,) = asked(service(tmp_path, kept=kept, resident=resident).open(), only=["fragmentation"]).findings
    assert finding.bytes == KEPT_BYTES // 2


def test_jemalloc_is_named_and_has_remedies_of_its_own(tmp_path):
    report = analyze(service(tmp_path, arena_count=0, malloc_library="libjemalloc.so.2").open())
    (finding,) = report.findings
    assert says(finding.title, "libjemalloc.so.2 keeps 150 MiB") and finding.subject.library == "libjemalloc.so.2"
    assert all("MALLOC_CONF" in text for text in finding.remedy)
    assert any(says(note, "libjemalloc.so.2", "was read from it") for note in report.recording.notes)


def test_an_allocator_that_was_not_read_is_said_first(tmp_path):
    unread = {"malloc_in_use_bytes": [None] * 40, "malloc_free_bytes": [None] * 40}
    report = analyze(service(tmp_path, arena_count=0, malloc_library="libmimalloc.so.2", **unread).open())
    assert not report.findings
    assert any(says(note, "libmimalloc.so.2", "not read") for note in report.recording.notes)
    assert says(report.verdict.headline, "What libmimalloc.so.2 keeps free was not read")


def test_near_the_limit_it_is_a_warning(tmp_path):
    builder = service(tmp_path)
    (far,) = asked(builder.open(), only=["fragmentation"]).findings
    (tmp_path / "near").mkdir()
    builder = service(tmp_path / "near").cgroup([200 * MiB] * 20, 220 * MiB)
    (near,) = asked(builder.open(), only=["fragmentation"]).findings
    assert (far.severity, near.severity) == ("note", "warning")


@pytest.mark.parametrize(("pieces", "line"), [((100, 1000, 2000), True), ((100, 2000, 2010), False)])
def test_few_survivors_are_named_where_each_brings_free_pieces_with_it(tmp_path, pieces, line):
    builder = with_takes(sentinels(trainer(tmp_path), in_use=PINS, malloc_free_bytes=GROWING), (100, 400, 730))
    for at_s, count in zip((4, 9, 17), pieces):
        row = {"arena": 0, "arena_count": 1, "free_bytes": 100 * MiB, "free_chunk_count": count}
        builder.row("malloc_arenas", at_s, PID, system_bytes=200 * MiB, top_bytes=0, **row)
    finding = only_finding(builder)
    assert (finding.subject.holder is not None) is line
