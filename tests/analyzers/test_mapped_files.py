"""Mapped files: said to be harmless with figures, and a finding only where their pages were changed."""

from __future__ import annotations

from leakscope.analyzers import analyze

from .leaks import PID, MiB, trainer

FILE = "/data/tokens.bin"


def with_maps(builder, dirty_per_s, rss_per_s=10 * MiB):
    for at_s in (2, 8, 14, 19):
        figures = {"map_rss_bytes": rss_per_s * at_s, "map_private_dirty_bytes": dirty_per_s * at_s}
        builder.row("memory_maps", at_s, PID, map_kind="file", map_path=FILE, map_count=1, **figures)
    return builder


def test_pages_that_were_only_read_are_no_leak(tmp_path):
    file_bytes = [10 * MiB + MiB * i for i in range(80)]
    builder = trainer(tmp_path, leak=0, file_bytes=file_bytes, pss_bytes=None, pss_anon_bytes=None)
    report = analyze(with_maps(builder, 0).open(), only=["mapped-files"])
    assert not report.findings
    (ruled_out,) = report.ruled_out
    assert "not a leak" in ruled_out.reason and FILE in ruled_out.reason
    assert ruled_out.figures["grown_bytes"] > 16 * MiB


def test_private_copies_of_a_file_are_a_finding(tmp_path):
    (finding,) = analyze(with_maps(trainer(tmp_path), 10 * MiB).open(), only=["mapped-files"]).findings
    assert finding.subject.holder == FILE and finding.bytes > 100 * MiB


def test_small_changes_such_as_relocations_are_not(tmp_path):
    report = analyze(with_maps(trainer(tmp_path), 200 * 1024).open(), only=["mapped-files"])
    assert not report.findings and report.ruled_out
