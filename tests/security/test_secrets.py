"""Programs that hold secrets wherever programs do: none of them comes into a recording, by any way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from leakscope import open_recording
from leakscope.facts.heap.comparable import whole_heap
from tests.recorder.runs import PYTHON, environment, record_command
from tests.security.everything import texts_of_file, texts_of_journal

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("secrets")]  # most look at one recording

# What the program has from its command line, its environment, and from itself. Made up.
ARGUMENT, NEXT_ARGUMENT, OF_CHILD = "argQ4kz81hhPw", "nextargZx71kkw", "childS3cretpw9"
IN_ADDRESS, IN_LABEL, IN_MARK = "tigerInUrl77", "labelTokenA1b2c3d4", "ghp_markABCDEF0123456789abcdef"
STRIPE, NOISE, THREADS = "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "kX9vQ2mZ7pL4wR8tB3nY6cJ1", "xoxb-1234-abcdefgh"
IN_SOURCE, ON_STDERR, IN_THREAD_ERROR = "sourceHunter2", "stderrPassw0rd", "threadErrorPw55"
SECRETS = {
    ARGUMENT, NEXT_ARGUMENT, OF_CHILD, IN_ADDRESS, IN_LABEL, IN_MARK, STRIPE, NOISE, THREADS, IN_SOURCE, ON_STDERR,
    IN_THREAD_ERROR,
}  # fmt: skip

PROGRAM = f"""
import ctypes, os, subprocess, sys, threading, time
import leakscope

DB_PASSWORD = "{IN_SOURCE}"  # and {STRIPE}

class Client:
    def __init__(self):
        self.tokens = {{"{STRIPE}": [[i] for i in range(20000)], "{NOISE}": [[i] for i in range(20000)]}}
        self.names = {{"ordinary_name": [[i] for i in range(20000)]}}

def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))

def named():
    ctypes.CDLL(None).prctl(15, b"{THREADS}"[:15], 0, 0, 0)
    work(1)

def fails():
    raise ValueError("bad password: {IN_THREAD_ERROR}")

def main():
    client = Client()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2)", "--password={OF_CHILD}"])
    leakscope.mark(step=1, label="run {IN_MARK}")
    ctypes.CDLL(None).prctl(15, b"{THREADS}"[:15], 0, 0, 0)
    threading.Thread(target=fails).start()
    work(2.5)
    child.wait()
    print("DB_PASSWORD={ON_STDERR}", file=sys.stderr)
    raise RuntimeError("cannot connect to " + os.environ["DB_URL"])

main()
"""


def paths_in(run: Path) -> list[str]:
    """Of what its snapshots found."""
    recording = open_recording(run)
    pids = recording.tables["heap_nodes"]["pid"].unique()
    return [place.path for pid in pids for place in whole_heap(recording, int(pid)).places]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "job.py").write_text(PROGRAM)
    job = [PYTHON, "job.py", f"--api-key={ARGUMENT}", "--token", NEXT_ARGUMENT]
    command = record_command("-q", "--keep-journal", "--label", f"api_token={IN_LABEL}", "--", *job, finalize=True)
    with open(folder / "stderr", "wb") as stderr:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(DB_URL=f"postgres://u:{IN_ADDRESS}@h/db", LEAKSCOPE_STRESS="0.5"),
            stderr=stderr,
            timeout=60,
        )
    assert done.returncode == 1
    return folder / "run.parquet"


def found_in(texts: str) -> set[str]:
    return {secret for secret in SECRETS if secret in texts}


def test_no_secret_is_in_the_file(run):
    assert not found_in(texts_of_file(run))


def test_no_secret_was_ever_in_the_journal(run):
    assert not found_in(texts_of_journal(run.with_name("run.parquet.journal")))


def test_the_salt_is_not_in_the_recording(run):
    """Nor is anything of the folder that the agent was started from: who has the salt can try words."""
    texts = texts_of_file(run) + texts_of_journal(run.with_name("run.parquet.journal"))
    assert "salt" not in texts and "sitecustomize.py" not in os.listdir(run.with_name("run.parquet.journal"))


def test_everything_else_is_there(run):
    """Or the tests above would pass with an empty file."""
    recording = open_recording(run)
    tables = recording.tables
    assert recording.meta["command"][1] == "job.py" and recording.meta["command"][3] == "--token"
    assert set(recording.meta["labels"]) == {"api_token"}
    assert "--password=masked_" in "\n".join(tables.processes["cmdline"].dropna())
    paths = "\n".join(paths_in(run))
    assert ".tokens['masked_" in paths and "['ordinary_name']" in paths
    assert tables.marks["text"].dropna().str.startswith("run masked_").all()
    assert "DB_PASSWORD = " in "\n".join(tables.sources["source_text"])
    words = tables.crash_text.set_index("crash_source")["last_words"]
    assert "RuntimeError: cannot connect to postgres://u:masked_" in words["exception"]
    assert "ValueError: bad password: masked_" in words["thread-exception"]
    assert "DB_PASSWORD=masked_" in words["stderr"]
    processes = tables.processes
    assert "xoxb" not in "".join(processes["comm"].dropna())


def test_the_job_and_the_recorder_mask_alike(run):
    """One salt for all who write: what a report says of a secret in two places, it says of one."""
    tables = open_recording(run).tables
    words = tables.crash_text.set_index("crash_source")["last_words"]
    assert words["exception"].rsplit("masked_", 1)[1][:6] in words["stderr"]


PROGRAM_TEXT = "the_text_of_the_program"
UNTOLD = f"""
import time, warnings
# comment {PROGRAM_TEXT}
kept = {{"{PROGRAM_TEXT}": [[i] for i in range(20000)]}} and [[i] for i in range(20000)]
def fails():
    until = time.monotonic() + 2
    while time.monotonic() < until:
        sum(range(1000))
    warnings.warn("told")  # {PROGRAM_TEXT}
    return undefined  # {PROGRAM_TEXT}
try:
    fails()
finally:
    exec(compile("'{PROGRAM_TEXT}'.nothing", __file__, "exec"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["a file", pytest.param("-c", marks=pytest.mark.slow)])
def test_no_source_leaves_out_every_text_of_the_program(tmp_path, way):
    (tmp_path / "job.py").write_text(UNTOLD)
    job = [PYTHON, "job.py"] if way == "a file" else [PYTHON, "-uc", UNTOLD.replace("__file__", "'x.py'")]
    with open(tmp_path / "stderr", "wb") as stderr:
        command = record_command("-q", "--no-source", "--keep-journal", "--", *job, finalize=True)
        env = environment(LEAKSCOPE_STRESS="0.5")
        assert subprocess.run(command, cwd=tmp_path, env=env, stderr=stderr, timeout=60).returncode == 1
    assert PROGRAM_TEXT in (tmp_path / "stderr").read_text() or way == "-c"
    run = tmp_path / "run.parquet"
    assert PROGRAM_TEXT not in texts_of_file(run)
    assert PROGRAM_TEXT not in texts_of_journal(tmp_path / "run.parquet.journal")
    tables = open_recording(run).tables
    assert tables.sources.empty and paths_in(run)
    assert "AttributeError: 'str' object has no attribute 'nothing'" in "\n".join(tables.crash_text["last_words"])
