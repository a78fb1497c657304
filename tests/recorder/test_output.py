"""Where a recording goes: valid at once, nothing earlier destroyed, and the job goes on when the disk is full."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from leakscope.errors import BadInput
from leakscope.recorder.naming import output_path

from .runs import CRASHES_IN_A_TAKE, PYTHON, TIMEOUT_S, record, rows, start

pytestmark = pytest.mark.live

WAITS = "import sys, time; print('ready', flush=True); sys.stdin.read()"


def test_finished_file_after_the_run(tmp_path: Path) -> None:
    result = record(tmp_path, "--label", "team=vision", PYTHON, "-c", "x = bytearray(10**8)", finalize=True)
    assert result.returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["run.parquet"]
    table = pd.read_parquet(tmp_path / "run.parquet")["table"]
    assert {"processes", "process_samples", "host_samples", "events"} <= set(table)
    lines = result.stderr.splitlines()
    assert lines[0].startswith("leakscope: ") and "exited with status 0" in lines[0]
    assert all(line.startswith("  ") for line in lines[1:])
    assert "leakscope report" in lines[-1]


def test_keep_journal(tmp_path: Path) -> None:
    record(tmp_path, "-q", "--keep-journal", "true", finalize=True)
    assert {p.name for p in tmp_path.iterdir()} == {"run.parquet", "run.parquet.journal"}
    meta = json.loads((tmp_path / "run.parquet.journal" / "meta.json").read_text())
    assert meta["command"] == ["true"]
    assert meta["options"]["keep_journal"] is True


@pytest.mark.parametrize("words", [("-q",), ("--no-summary",)])
def test_silent_when_asked(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert record(tmp_path, *words, "true", finalize=True).stderr == ""


def test_valid_from_the_first_instant_and_locked_while_it_lasts(tmp_path: Path) -> None:
    first = start(tmp_path, "-q", PYTHON, "-c", WAITS, stdin=subprocess.PIPE)
    assert len(pd.read_parquet(tmp_path / "run.parquet")) == 0
    second = record(tmp_path, "true")
    assert "run.parquet is in use by another recording" in second.stderr
    first.communicate(timeout=TIMEOUT_S)
    journals = sorted(tmp_path.glob("*.journal"))
    commands = [json.loads((j / "meta.json").read_text())["command"][0] for j in journals]
    assert sorted(commands) == sorted([PYTHON, "true"])
    assert {j.name[: -len(".journal")] for j in journals} == {p.name for p in tmp_path.glob("*.parquet")}


@pytest.mark.slow
def test_earlier_recordings_are_renamed_by_their_start(tmp_path: Path) -> None:
    record(tmp_path, "-q", "true", finalize=True)  # its start time is in the parquet footer
    record(tmp_path, "-q", "true")  # in the journal
    result = record(tmp_path, "true")
    assert "the earlier run.parquet is now run.2" in result.stderr
    names = sorted(p.name for p in tmp_path.glob("*.parquet"))
    assert len(names) == 3
    assert all(len(name) >= len("run.20261121T100000.parquet") for name in names if name != "run.parquet")
    started = json.loads((tmp_path / "run.parquet.journal" / "meta.json").read_text())["started_at"]
    record(tmp_path, "-q", "true")
    moved = f"run.{started.replace('-', '').replace(':', '').rstrip('Z')}"
    assert list(tmp_path.glob(f"{moved}*.parquet.journal"))


def test_a_foreign_file_is_renamed_by_its_date(tmp_path: Path) -> None:
    (tmp_path / "run.parquet").write_text("mine")
    os.utime(tmp_path / "run.parquet", (1_000_000_000, 1_000_000_000))
    record(tmp_path, "-q", "true")
    assert (tmp_path / "run.20010909T014640.parquet").read_text() == "mine"


def test_force_replaces(tmp_path: Path) -> None:
    record(tmp_path, "-q", "true", finalize=True)
    record(tmp_path, "-q", "-f", "true", finalize=True)
    assert [p.name for p in tmp_path.iterdir()] == ["run.parquet"]


def test_names_from_templates(tmp_path: Path) -> None:
    environ = {"RANK": "3", "LOCAL_RANK": "1", "SLURM_JOB_ID": "77", "NAME": "a/b"}
    assert output_path(None, {}, 0.0) == os.path.abspath("run.parquet")
    assert output_path(None, environ, 0.0) == os.path.abspath("run.rank3.parquet")
    assert output_path("x.parquet", environ, 0.0) == os.path.abspath("x.parquet")
    assert (
        output_path("/d/{rank}-{local_rank}-{job}-{env:NAME}-{time}", environ, 0.0) == "/d/3-1-77-a_b-19700101T000000"
    )
    assert output_path("/d/{host}.{pid}", {}, 0.0) == f"/d/{os.uname().nodename}.{os.getpid()}"
    with pytest.raises(BadInput, match="no job id"):
        output_path("{job}", {}, 0.0)


@pytest.mark.slow
def test_environment_of_the_command(tmp_path: Path) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    bare = json.loads(record(tmp_path, "-q", "--agent", "off", PYTHON, "-c", program, FOO="1").stdout)
    with_agent = json.loads(record(tmp_path, "-q", PYTHON, "-c", program, FOO="1").stdout)
    boot, _, rest = with_agent["PYTHONPATH"].partition(os.pathsep)
    assert os.path.basename(boot) == "boot"
    assert {**with_agent, "PYTHONPATH": rest} == bare
    alone = json.loads(record(tmp_path, "-q", PYTHON, "-I", "-c", program, PYTHONPATH=str(Path.cwd())).stdout)
    assert os.pathsep + os.pathsep not in alone["PYTHONPATH"] + os.pathsep


def test_a_journal_that_vanishes_comes_back(tmp_path: Path) -> None:
    program = (
        "import os, shutil, sys, time\n"
        "time.sleep(0.3); shutil.rmtree('run.parquet.journal')\n"
        "deadline = time.monotonic() + 20\n"
        "while not os.path.exists('run.parquet.journal/recorder-000002.jnl') and time.monotonic() < deadline:\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.3); sys.exit(7)\n"
    )
    result = record(tmp_path, "--agent", "off", "--flush", "100ms", "-i", "50ms", PYTHON, "-c", program)
    assert result.returncode == 7
    journal = tmp_path / "run.parquet.journal"
    assert "the journal folder had vanished" in result.stderr
    assert "output-lost" in [row["event"] for row in rows(journal, "events")]
    assert rows(journal, "events")[-1]["value"] == 7
    assert (journal / "meta.json").exists()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_does_not_reach_the_command(tiny_disk: Path) -> None:
    program = (
        "import glob, os, sys, time\n"
        "def journal_bytes(): return sum(map(os.path.getsize, glob.glob('run.parquet.journal/*.jnl')))\n"
        "def wait_for_more(than):\n"
        "    deadline = time.monotonic() + 20\n"
        "    while journal_bytes() <= than and time.monotonic() < deadline: time.sleep(0.01)\n"
        "wait_for_more(0)\n"
        "try:\n"
        "    with open('ballast', 'wb', 0) as f:\n"
        "        while True: f.write(bytes(4096))\n"
        "except OSError: pass\n"
        "time.sleep(1)\n"
        "full = journal_bytes()\n"
        "os.unlink('ballast')\n"
        "wait_for_more(full)\n"
        "sys.exit(7)\n"
    )
    result = record(tiny_disk, "--agent", "off", "--flush", "50ms", "-i", "20ms", PYTHON, "-c", program)
    assert result.returncode == 7
    assert "were not recorded: No space left on device" in result.stderr
    events = rows(tiny_disk / "run.parquet.journal", "events")
    (lost,) = [row for row in events if row["event"] == "output-lost"]
    assert 0.1 < lost["value"] < 20
    assert events[-1]["event"] == "end"


def test_no_room_at_all_is_a_failure_before_start(tiny_disk: Path) -> None:
    (tiny_disk / "ballast").write_bytes(bytes(512 * 1024))
    result = record(tiny_disk, "touch", "started")
    assert result.returncode == 125
    assert result.stderr == "leakscope: cannot record to run.parquet: No space left on device\n"
    assert [p.name for p in tiny_disk.iterdir()] == ["ballast"]


# ---- a command that crashed in our agent the time before


@pytest.mark.cases(1)
@pytest.mark.parametrize("finalize", [False, True], ids=["journal", "finished"])
def test_who_records_a_command_again_that_crashed_in_our_agent_is_told_so(tmp_path: Path, finalize: bool) -> None:
    (tmp_path / "train.py").write_text(CRASHES_IN_A_TAKE)
    first, again = (record(tmp_path, PYTHON, "train.py", finalize=finalize, LEAKSCOPE_STRESS="0.01") for _ in range(2))
    warning = "leakscope: the earlier run.parquet is of this command, which crashed while leakscope's own agent was"
    assert first.returncode == again.returncode == -11
    assert "--agent off" not in first.stderr
    assert again.stderr.splitlines()[0].startswith(warning)
    assert "--agent off" in again.stderr.splitlines()[0]


CRASHED = json.dumps({"crashed_in_agent": ["true"], "labels": {}})


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("written", "words", "is_told"),
    [
        (CRASHED, ["true"], True),
        (CRASHED, ["-f", "true"], True),
        (CRASHED, ["true", "other"], False),
        (CRASHED, ["-q", "true"], False),
        (CRASHED, ["--agent", "off", "--", "true"], False),
        (CRASHED[:24], ["true"], False),
        ('{"crashed_in_agent": ' + "[" * 200_000, ["true"], False),
        (json.dumps({"command": [CRASHED]}), ["true"], False),
    ],
    ids=["same", "force", "another-command", "quiet", "agent-off", "torn", "deep", "quoted"],
)
def test_what_an_earlier_recording_says_of_a_crash(
    tmp_path: Path, written: str, words: list[str], is_told: bool
) -> None:
    journal = tmp_path / "run.parquet.journal"
    journal.mkdir()
    (journal / "meta.json").write_text(written)
    done = record(tmp_path, *words)
    assert done.returncode == 0
    assert ("which crashed" in done.stderr) is is_told
