"""What the agent has to say leaves nothing behind in the job that only a collection would free."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leakscope.agent.interpreter.waiting import LastWill
from leakscope.agent.journal import encode_block, read_blocks
from leakscope.agent.outbox import Outbox

from .staging import rows, run, stage


def an_outbox(folder: Path) -> Outbox:
    return Outbox(str(folder), {"salt": "00", "sources": False}, LastWill())


def test_flushes_make_no_classes(tmp_path: Path) -> None:
    """A class is a cycle: those of each flush were all found by the next collection, and counted as the job's own."""
    outbox = an_outbox(tmp_path)
    outbox.prepare_to_part()
    before = len(object.__subclasses__())
    for _ in range(20):
        outbox.prepare_to_part()
    assert len(object.__subclasses__()) == before


def test_the_last_word_of_a_watched_thread_is_appended(tmp_path: Path) -> None:
    outbox = an_outbox(tmp_path)
    for _ in range(2):  # what was prepared first is not said any more
        outbox.prepare_to_part()
    (say,) = outbox.parting
    free = os.dup(0)
    os.close(free)
    assert not say()  # type: ignore[call-arg]
    assert os.dup(0) == free, "a descriptor stayed open"
    os.close(free)
    (file,) = tmp_path.glob("*.jnl")
    notes = [row["note"] for table, rows in read_blocks(str(file)) for row in rows if table == "agent_notes"]
    assert notes == ["loaded", "take-skipped"]


def test_an_error_of_ours_stands_in_the_recording(tmp_path: Path) -> None:
    outbox = an_outbox(tmp_path)
    for _ in range(2):
        outbox.failed(KeyError("re"))
    outbox.write()
    (file,) = tmp_path.glob("*.jnl")
    assert [row["text"] for table, rows in read_blocks(str(file)) if table == "agent_notes" for row in rows] == [
        "KeyError: 're'"
    ]


@pytest.mark.live
def test_sources_have_the_names_that_stacks_give_them(tmp_path: Path) -> None:
    """Python 3.8 calls a script as the user did, and so do launchers: ``job.py``."""
    (tmp_path / "job.py").write_text(
        "import time\ndef main():\n    rows = [bytes(1000) for _ in range(5000)]\n    time.sleep(3)\nmain()\n"
    )
    launcher = f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path('job.py', run_name='__main__')"
    journal = stage(tmp_path)
    done = run(journal, "-c", launcher)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    owners = {row["owner_file"] for row in found["heap_nodes"] if row.get("owner_file")}
    assert "job.py" in owners
    assert "job.py" in {row["file"] for row in found["sources"]}


def test_what_goes_wrong_with_rows_of_one_table_costs_these_alone_and_is_said(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ZeroDivisionError("odd")

    outbox = an_outbox(tmp_path)
    outbox.add("sentinels", {"step": Odd()})
    outbox.add("marks", {"step": 3})
    with pytest.raises(ZeroDivisionError) as raised:
        outbox.write()
    outbox.failed(raised.value)
    outbox.failed(raised.value)
    outbox.write()
    found = [(table, row.get("step"), row.get("text")) for table, row in written(tmp_path)]
    assert found == [("marks", 3, None), ("agent_notes", None, "ZeroDivisionError: odd")]


def written(folder: Path) -> list[tuple[str, dict[str, object]]]:
    return [(table, row) for file in folder.glob("*.jnl") for table, rows in read_blocks(str(file)) for row in rows]


def test_a_journal_gives_the_blocks_of_the_tables_that_are_asked_for(tmp_path: Path) -> None:
    """The recorder looks for snapshots as somebody waits for the end: most of a journal is something else."""
    path = tmp_path / "agent.jnl"
    blocks = [("takes", 1), ("allocation_lives", 2), ("takes_of_others", 3), ("takes", 4)]
    path.write_bytes(b"".join(encode_block(table, [{"pid": pid}]) for table, pid in blocks))
    assert list(read_blocks(path, ("takes",))) == [("takes", [{"pid": 1}]), ("takes", [{"pid": 4}])]
    assert [table for table, _ in read_blocks(path)] == [table for table, _ in blocks]
    path.write_bytes(path.read_bytes()[:-3])
    assert list(read_blocks(path, ("takes",))) == [("takes", [{"pid": 1}])]
