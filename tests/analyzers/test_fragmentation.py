"""Fragmentation: freed memory that an allocator keeps, told from memory in use."""

from __future__ import annotations

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer

GROWING = [4 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
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
    arenas = {"pymalloc_bytes": GROWING, "pymalloc_in_use_bytes": [3 * MiB] * 20}
    finding = only_finding(with_takes(sentinels(trainer(tmp_path), in_use=0, **arenas), (1000, 6000, 16000)))
    assert "Python's allocator" in finding.title and finding.subject.variable == "counts"
    assert finding.subject.line == 3 and finding.remedy
    assert finding.bytes > 100 * MiB


def test_malloc_that_keeps_what_was_freed(tmp_path):
    finding = only_finding(with_takes(sentinels(trainer(tmp_path), in_use=0, malloc_free_bytes=GROWING)))
    assert finding.subject.library == "malloc" and finding.subject.holder is None
    assert finding.doubts and "--probe" in finding.remedy[0]  # nobody has measured what a trim gives back


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
