"""A dead process that nobody reaps, as in a container whose process 1 does not: it writes no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope import open_recording
from leakscope.recorder import proc
from leakscope.recorder.output import Output
from tests.builders import RecordingBuilder

pytestmark = pytest.mark.live


@pytest.fixture
def zombie() -> Iterator[int]:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    yield pid
    os.waitpid(pid, 0)


@pytest.fixture
def left(tmp_path: Path, zombie: int) -> Path:
    """What a recorder left that was killed, with a file of the job in it."""
    path = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).write_journal()
    stat = proc.stat(zombie)
    assert stat is not None
    (Path(f"{path}.journal") / f"agent-{zombie}-{stat.start_ticks}-000001.jnl").touch()
    return path


def test_its_recording_is_finished(left: Path) -> None:
    assert not any("still runs" in note for note in open_recording(left).notes)
    assert not Path(f"{left}.journal").exists()


def test_its_name_is_free(left: Path) -> None:
    output = Output.claim(str(left), force=True, meta={}, agent_config=None)
    assert output.path == str(left)
    output.remove()
