"""Reading on in a journal: each row once, whatever the writer is doing at that moment."""

from __future__ import annotations

import os
import shutil

from leakscope.agent.journal import Journal, encode_block
from leakscope.watching import cursor as cursor_module
from leakscope.watching.cursor import Cursor


def new_values(cursor: Cursor) -> list[int]:
    return [row["value"] for _, row in cursor.read_on(most_s=60.0)]


def write(journal: Journal, *values: int) -> None:
    for value in values:
        journal.add("events", {"value": value})
    journal.flush()


def test_each_row_comes_once(tmp_path):
    journal, cursor = Journal(str(tmp_path), "recorder"), Cursor(str(tmp_path))
    write(journal, 1, 2)
    assert new_values(cursor) == [1, 2]
    assert new_values(cursor) == []
    write(journal, 3)
    write(Journal(str(tmp_path), "agent-1-1-1"), 4)
    assert sorted(new_values(cursor)) == [3, 4]


def test_a_frame_that_is_being_written_comes_when_it_is_whole(tmp_path):
    frame = encode_block("events", [{"value": 7}])
    path, cursor = tmp_path / "recorder-000001.jnl", Cursor(str(tmp_path))
    path.write_bytes(frame + frame[:-3])
    assert new_values(cursor) == [7]
    assert new_values(cursor) == []
    path.write_bytes(frame + frame)
    assert new_values(cursor) == [7]


def test_what_was_written_last_is_read_after_the_journal_was_removed(tmp_path):
    folder = tmp_path / "run.parquet.journal"
    folder.mkdir()
    journal, cursor = Journal(str(folder), "recorder"), Cursor(str(folder))
    write(journal, 1)
    assert new_values(cursor) == [1]
    write(journal, 2)
    shutil.rmtree(folder)
    assert new_values(cursor) == [2]


def test_a_long_journal_is_read_in_parts(tmp_path):
    journal, cursor = Journal(str(tmp_path), "recorder"), Cursor(str(tmp_path))
    for value in range(5):
        write(journal, value)
    found = []
    while True:
        found += [row["value"] for _, row in cursor.read_on(most_s=0.0)]
        if not cursor.is_behind:
            break
    assert found == [0, 1, 2, 3, 4]


def test_who_follows_for_weeks_keeps_no_file_open_that_nobody_writes_to(tmp_path, monkeypatch):
    monkeypatch.setattr(cursor_module, "_REST_S", 0.0)
    dead, cursor = Journal(str(tmp_path), "agent-1-1-1"), Cursor(str(tmp_path), keeps_files=False)
    write(dead, 1)
    before = len(os.listdir("/proc/self/fd"))
    assert new_values(cursor) == [1]
    assert len(os.listdir("/proc/self/fd")) == before
    write(dead, 2)
    assert new_values(cursor) == [2], "it is looked at again now and then"
