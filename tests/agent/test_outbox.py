"""What the agent has to say leaves nothing behind in the job that only a collection would free."""

from __future__ import annotations

import os
from pathlib import Path

from leakscope.agent.journal import read_blocks
from leakscope.agent.outbox import Outbox


def an_outbox(folder: Path) -> Outbox:
    return Outbox(str(folder), {"salt": "00", "sources": False})


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
