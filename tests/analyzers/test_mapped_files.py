"""Mapped files: said to be harmless with figures, and a finding only where their pages were changed."""

from __future__ import annotations

from .asking import asked
from .leaks import PID, MiB, trainer

FILE = "/data/tokens.bin"
LIBRARY = {"map_count": 5, "map_rss_bytes": 2 * MiB, "map_private_dirty_bytes": 16 * 1024}


def with_maps(builder, dirty_per_s, rss_per_s=10 * MiB):
    for at_s in (2, 8, 14, 19):
        figures = {"map_rss_bytes": rss_per_s * at_s, "map_private_dirty_bytes": dirty_per_s * at_s}
        builder.row("memory_maps", at_s, PID, map_kind="file", map_path=FILE, map_count=1, **figures)
        # The rows of one look are written one by one.
        builder.row("memory_maps", at_s + 1e-5, PID, map_kind="file", map_path="/lib/libc.so.6", **LIBRARY)
    return builder


def test_pages_that_were_only_read_are_no_leak(tmp_path):
    file_bytes = [10 * MiB + MiB * i for i in range(80)]
    builder = trainer(tmp_path, leak=0, file_bytes=file_bytes, pss_bytes=None, pss_anon_bytes=None)
    report = asked(with_maps(builder, 0).open(), only=["mapped-files"])
    assert not report.findings
    (ruled_out,) = report.ruled_out
    assert "not a leak" in ruled_out.reason and FILE in ruled_out.reason
    assert ruled_out.figures["grown_bytes"] > 16 * MiB


def test_private_copies_of_a_file_are_a_finding(tmp_path):
    (finding,) = asked(with_maps(trainer(tmp_path), 10 * MiB).open(), only=["mapped-files"]).findings
    assert finding.subject.holder == finding.subject.path == FILE and finding.bytes > 100 * MiB


def test_small_changes_such_as_relocations_are_not(tmp_path):
    report = asked(with_maps(trainer(tmp_path), 200 * 1024).open(), only=["mapped-files"])
    assert not report.findings and report.ruled_out


def test_the_variable_of_the_mapping_is_named(tmp_path):
    builder = with_maps(trainer(tmp_path), 10 * MiB)
    row = {"path": "leaky.table", "root_kind": "module", "edge_kind": "global", "variable": "table", "owner": "train"}
    for number, at_s in enumerate((3, 10, 18), 1):
        mapped = {**row, "type_name": "numpy.memmap", "is_user": True, "object_count": 1.0, "deep_bytes": 400 * MiB}
        builder.take(PID, number, at_s, holders=[mapped])
    (finding,) = asked(builder.open(), only=["mapped-files"]).findings
    assert finding.subject.variable == "table" and FILE in finding.subject.holder


def test_files_that_are_mapped_again_and_again_are_told_together(tmp_path):
    source = """import mmap


class Reader:
    def __init__(self):
        self.maps = {}

    def open(self, key, handle):
        view = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        self.maps[key] = view
        return view
"""
    builder = trainer(tmp_path).source(PID, "/home/me/tiles.py", source, module="tiles")
    for at_s in (2, 8, 14, 19):
        for tile in range(10):
            figures = {"map_rss_bytes": MiB * at_s, "map_private_dirty_bytes": MiB * at_s, "map_count": at_s}
            builder.row(
                "memory_maps", at_s + 1e-5 * tile, PID, map_kind="file", map_path=f"/t/tile{tile}.raw", **figures
            )
    (finding,) = asked(builder.open(), only=["mapped-files"]).findings
    assert "10 files like /t/tileN.raw" in finding.title and "Reader.maps" in finding.title
    assert (finding.subject.line, finding.subject.function) == (9, "Reader.open")
    assert finding.bytes > 100 * MiB
