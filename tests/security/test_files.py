"""No file of ours is written through what others put in its way, read by others, or waited for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope.agent.journal import Journal
from leakscope.cli import main
from leakscope.errors import UnreadableRecording
from leakscope.recorder.naming import output_path
from leakscope.recorder.output import Output
from leakscope.storage import open_recording
from leakscope.storage.finalize import finalize
from leakscope.watching.feeds import JournalFeed

from ..builders import RecordingBuilder
from ..recorder.runs import PYTHON, environment, record, record_command
from .users import STRANGER, being_stranger, needs_root

WITH_UMASK_0 = ["sh", "-c", 'umask 0; exec "$@"', "sh"]


def modes(folder: Path) -> set[str]:
    """Of all files and folders in it, those that others may do anything with."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.lstat().st_mode & 0o077}


@pytest.mark.live
def test_a_recording_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    program = "import os, sys; print(os.listdir('run.parquet.journal') != []); [os.fork() or os._exit(0) for i in 'ab']"
    for words, finalize_it in ((["--keep-journal"], True), ([], False), ([], True)):
        command = [*WITH_UMASK_0, *record_command("-q", *words, PYTHON, "-c", program, finalize=finalize_it)]
        subprocess.run(command, cwd=tmp_path, env=environment(), check=True, stdout=subprocess.DEVNULL)
        assert modes(tmp_path) == set()
    assert len(list(tmp_path.glob("*.parquet"))) == 3  # the earlier ones were renamed
    assert list(tmp_path.glob("*.journal/agent-*"))


@pytest.mark.live
@pytest.mark.slow
def test_links_in_the_way_of_temporary_files_lead_nowhere(tmp_path: Path) -> None:
    """Process numbers can be guessed: links wait for the recorder's own, and for those of its helper."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    setup = (
        "for pid in $(seq $$ $(($$ + 400))); do\n"
        "  for name in .run.parquet.tmp-$pid .run.parquet.journal.tmp-$pid .run.parquet.journal.done-$pid\n"
        "  do ln -s victim $name; done\n"
        'done; ls -A > before; exec "$@"'
    )
    command = ["sh", "-c", setup, "sh", *record_command("-q", "true", finalize=True)]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True)
    assert victim.read_text() == "precious"
    assert open_recording(tmp_path / "run.parquet").complete


def test_a_journal_is_written_to_new_files_only(tmp_path: Path) -> None:
    """An agent that lives on writes to a folder that somebody else made again, where links wait for it."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "agent-1-1-000001.jnl").symlink_to(victim)
    os.link(victim, tmp_path / "agent-1-1-000002.jnl")
    journal = Journal(str(tmp_path), "agent-1-1")
    journal.add("marks", {"pid": 1})
    journal.close()
    assert victim.read_text() == "precious"
    assert (tmp_path / "agent-1-1-000003.jnl").stat().st_size > 0


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fails what waits in a call of the kernel."""

    def is_over(*_: object) -> None:
        raise AssertionError(f"it waits after {seconds} s")

    before = signal.signal(signal.SIGALRM, is_over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.cases(2)
@pytest.mark.live
@pytest.mark.parametrize("name", ["lock", "meta.json", "agent-1-1-000001.jnl", "fault-1-1.txt", "run.parquet"])
def test_a_fifo_keeps_nobody_waiting(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = tmp_path / "run.parquet.journal"
    journal.mkdir()
    folder = tmp_path if name == "run.parquet" else journal
    if name != "meta.json":
        (journal / "meta.json").write_text("{}")
    os.mkfifo(folder / name)
    for command in ("report", "finalize", "watch"):
        with at_most(60):
            status = main([command, "run.parquet"])
        told = capsys.readouterr()
        assert len(told.err.splitlines()) <= 1
        if name in ("lock", "meta.json"):
            assert (status, told.out) == (3, "")
            assert f"run.parquet.journal/{name} cannot be read: it is not a regular file" in told.err
    done = record(tmp_path, "-q", "echo", "well")  # a recorder hangs with all signals blocked
    assert (done.returncode, done.stdout) in [(0, "well\n"), (125, "")]
    assert (done.returncode == 125) == ("cannot record to run.parquet: it is not a regular file" in done.stderr)


@needs_root
def test_the_recording_of_another_user_is_neither_read_nor_moved(public: Path) -> None:
    RecordingBuilder(public).write_journal()
    journal = public / "run.parquet.journal"
    journal.chmod(0o700)
    with being_stranger():
        for read in (open_recording, finalize):
            with pytest.raises(UnreadableRecording, match=r"only who recorded it can, and root$"):
                read(public / "run.parquet")
        output = Output.claim(str(public / "run.parquet"), force=False, meta={}, agent_config=None)
        output.release()
    (note,) = output.notes
    assert "run.parquet is in use by another user: this one is " in note
    assert journal.exists()


@needs_root
def test_a_journal_that_another_user_made_is_refused(public: Path) -> None:
    RecordingBuilder(public).write_journal()
    journal = public / "run.parquet.journal"
    for path in (journal, *journal.iterdir()):
        os.chown(path, STRANGER + 1, -1)
        path.chmod(0o777)
    with being_stranger():
        for read in (open_recording, finalize, JournalFeed):
            with pytest.raises(UnreadableRecording, match=r"meta.json cannot be read: it belongs to another user"):
                read(public / "run.parquet")


@needs_root
def test_what_others_leave_does_not_keep_a_recording_from_being_finished(public: Path) -> None:
    (public / ".run.parquet.tmp-1").touch()
    (public / ".run.parquet.journal.done-1" / "x").mkdir(parents=True)
    with being_stranger():
        finalize(RecordingBuilder(public).write_journal())
        assert (public / "run.parquet").exists()
    assert not (public / "run.parquet.journal").exists()


@pytest.mark.slow
@pytest.mark.live
def test_what_a_killed_finalizer_left_is_removed(tmp_path: Path) -> None:
    record(tmp_path, "-q", "true", finalize=True)
    leftover = tmp_path / ".run.parquet.journal.done-123"
    leftover.mkdir()
    (leftover / "recorder-000001.jnl").write_bytes(b"x")
    finalize(tmp_path / "run.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]


@pytest.mark.parametrize("value", [".", "..", "/..", "../.."])
def test_a_value_from_the_environment_names_no_other_folder(tmp_path: Path, value: str) -> None:
    path = Path(output_path(f"{tmp_path}/{{env:NAME}}/x.parquet", {"NAME": value}, 0.0))
    assert path.parent.parent == tmp_path
    assert path.parent.name not in (".", "..")
