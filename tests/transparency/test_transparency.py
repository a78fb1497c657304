"""A job that is recorded sees, says and ends as it would without a recorder."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.recorder.runs import PYTHON, environment, record_command

from .cases import PYTHON_CASES, SHELL_CASES

CASES = {**SHELL_CASES, **PYTHON_CASES}
PATIENCE_S = 120

pytestmark = pytest.mark.slow


def starter(folder: Path, recorded: bool) -> None:
    """``r``: starts what follows, recorded or not."""
    ours = [*record_command("-q", "-f", "-o", str(folder / "run.parquet")), "--"] if recorded else []
    (folder / "bin").mkdir(parents=True)
    file = folder / "bin" / "r"
    file.write_text(f'#!/bin/sh\nexec {shlex.join(ours)} "$@"\n')
    file.chmod(0o755)


def outcome(folder: Path, script: str, recorded: bool) -> tuple[int, list[str], list[str]]:
    """Status, output and complaints of a script, without the words of the recorder itself."""
    starter(folder, recorded)
    (folder / "work").mkdir()
    # With leakscope importable by its recorder, and nothing else: the job's own variables are part of what is compared.
    env = environment(PATH=f"{folder / 'bin'}:{os.environ['PATH']}", PY=PYTHON)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder / "work", env=env, capture_output=True, timeout=PATIENCE_S
    )  # fmt: skip
    words = [part.decode("utf-8", "backslashreplace").replace(str(folder), "") for part in (done.stdout, done.stderr)]
    lines = [[line for line in text.splitlines() if not line.startswith("leakscope: ")] for text in words]
    return done.returncode, lines[0], lines[1]


@pytest.mark.parametrize("name", CASES)
def test_the_same_with_and_without(tmp_path: Path, name: str) -> None:
    bare = outcome(tmp_path / "bare", CASES[name], recorded=False)
    assert bare[1], "the case itself says nothing"
    assert outcome(tmp_path / "recorded", CASES[name], recorded=True) == bare


TERMINALS = "import os, sys; sys.stdout.write(str([os.isatty(fd) for fd in (0, 1, 2)])); sys.stdout.flush()"


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1), (1, 2)])
def test_only_what_is_a_terminal_is_one(tmp_path: Path, which: tuple[int, ...]) -> None:
    ours, theirs = pty.openpty()
    streams = {
        name: theirs if fd in which else subprocess.PIPE for fd, name in enumerate(("stdin", "stdout", "stderr"))
    }
    command = record_command("-q", "-o", str(tmp_path / "run.parquet"), "--", PYTHON, "-c", TERMINALS)
    try:
        job = subprocess.Popen(command, env=environment(), **streams)  # type: ignore[call-overload]
        out, _ = job.communicate(timeout=PATIENCE_S)
        said = out if 1 not in which else os.read(ours, 1000)
    finally:
        os.close(theirs)
        os.close(ours)
    assert said.decode().startswith(str([fd in which for fd in (0, 1, 2)]))


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="a pid namespace needs root and unshare")
@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)])
def test_process_1_of_a_container(tmp_path: Path, command: str, status: int) -> None:
    """It reaps what is left to it and tells a signal as a shell does, since it cannot die of one."""
    left_behind = "(sleep 0.1 &) ; "
    words = record_command("-q", "-o", str(tmp_path / "run.parquet"), "--", "sh", "-c", left_behind + command)
    namespace = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces here")
    assert subprocess.run([*namespace, *words], env=environment(), timeout=PATIENCE_S).returncode == status


RANKS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", total.item(), flush=True)
dist.destroy_process_group()
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


@pytest.mark.torch
@pytest.mark.parametrize("status", ["0", "3"])
def test_torchrun(tmp_path: Path, status: str) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    launch = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", str(program), status]
    env = environment(OMP_NUM_THREADS="1")
    recorded = record_command("-q", "-o", str(tmp_path / "run.parquet"), "--", *launch)
    sides = [
        subprocess.run(c, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
        for c in (launch, recorded)
    ]
    assert sides[0].stdout == "rank 0 of 1.0\n"
    assert (sides[1].returncode, sides[1].stdout) == (sides[0].returncode, sides[0].stdout)
