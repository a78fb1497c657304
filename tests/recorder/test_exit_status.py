"""``record`` ends exactly as the command does, and says in one line why it could not begin."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .runs import PYTHON, ROOT, environment, record, record_command, rows

pytestmark = pytest.mark.live


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise ValueError", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV),
    ],
)
def test_ends_as_the_command(tmp_path: Path, program: str, status: int) -> None:
    result = record(tmp_path, "-q", "--", PYTHON, "-c", program)
    assert result.returncode == status
    journal = tmp_path / "run.parquet.journal"
    assert rows(journal, "events")[-1]["value"] == status
    root = rows(journal, "processes")[-1]
    assert (root["exit_code"], root["exit_signal"]) == ((status, None) if status >= 0 else (None, -status))


def test_the_commands_output_is_its_own(tmp_path: Path) -> None:
    program = "import sys; print(input()); print('err', file=sys.stderr)"
    result = record(tmp_path, "-q", "--agent", "off", "sh", "-c", f'echo hi | {PYTHON} -c "{program}"')
    assert result.stdout == "hi\n"
    assert result.stderr.splitlines()[0] == "err"


def test_closed_descriptors_stay_closed_for_the_command(tmp_path: Path) -> None:
    script = f"exec {shlex.join(record_command('sh', '-c', 'ls /proc/self/fd > seen'))} 0<&- 2>&-"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(), check=True)
    assert (tmp_path / "seen").read_text().split() == ["0", "1"]  # 0 is the folder that ls reads
    assert rows(tmp_path / "run.parquet.journal", "events")[-1]["event"] == "end"


@pytest.mark.parametrize("name", ["train.py", "./train.py"])
def test_a_script_of_python_is_run_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv, sys.executable)\n")
    result = record(tmp_path, "-q", name, "--steps", "3")
    assert result.stdout == f"{[name, '--steps', '3']} {sys.executable}\n"


def test_a_script_without_interpreter_line_is_run_by_sh(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("exit 5\n")
    script.chmod(0o755)
    assert record(tmp_path, "-q", "./train").returncode == 5


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (["--", "no-such-command"], 127, "cannot run no-such-command: not found"),
        (["--", "./no-such-command"], 127, "cannot run ./no-such-command: not found"),
        (["--", "./notes.txt"], 126, "cannot run ./notes.txt: it is not executable"),
        (["--", "/"], 126, "cannot run /: it is a directory"),
        (["--", ""], 127, "cannot run '': not found"),
        (["--", "no-such-script.py"], 127, "cannot run no-such-script.py: not found"),
        ([], 125, "record needs a command"),
        (["--frobnicate", "true"], 125, "record has no option --frobnicate"),
        (["-i", "soon", "true"], 125, "'soon' is not a duration"),
        (["-i", "0", "true"], 125, "out of range"),
        (["-o"], 125, "-o needs a value"),
        (["--force=yes", "true"], 125, "--force takes no value"),
        (["--agent", "gdb", "true"], 125, "neither auto nor off"),
        (["--label", "team", "true"], 125, "write it like team=vision"),
        (["-o", "missing/run.parquet", "true"], 125, "there is no folder missing"),
        (["-o", ".", "true"], 125, "it is a folder"),
        (["-o", "/dev/null", "true"], 125, "not a regular file"),
        (["-o", "{what}.parquet", "true"], 125, "{what} is not known"),
        (["-o", "{env:NOT_SET_HERE}.parquet", "true"], 125, "no NOT_SET_HERE"),
        (["-o", "report.html", "true"], 125, "a recording is a .parquet file"),
        (["true && echo done"], 127, "sh -c 'true && echo done'"),
        (["-f", "-o", "notes.txt", "true"], 125, "not a recording and stays as it is"),
    ],
)
def test_cannot_begin(tmp_path: Path, words: list[str], status: int, complaint: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = record(tmp_path, *words)
    assert result.returncode == status
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("leakscope: ")
    assert complaint in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_bad_value_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    result = record(tmp_path, "true", LEAKSCOPE_RECORD_INTERVAL="soon")
    assert result.returncode == 125
    assert "LEAKSCOPE_RECORD_INTERVAL: 'soon'" in result.stderr


def test_a_command_that_removes_its_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    program = "import os, shutil; shutil.rmtree(os.getcwd()); raise SystemExit(7)"
    result = record(tmp_path / "work", "-o", str(tmp_path / "run.parquet"), PYTHON, "-c", program)
    assert result.returncode == 7
    assert "Traceback" not in result.stderr
    assert rows(tmp_path / "run.parquet.journal", "events")[-1]["value"] == 7


def test_a_fault_of_the_recorder_does_not_reach_the_command(tmp_path: Path) -> None:
    faulty = (
        f"import sys; sys.path.append({str(ROOT)!r})\n"
        "from leakscope.recorder.sampler import Sampler\n"
        "def sample(self): raise RuntimeError('planted')\n"
        "Sampler.sample = sample\n"
        "from leakscope.__main__ import main; main()"
    )
    words = ["-I", "-c", faulty, "record", "--agent", "off", "sh", "-c", "sleep 0.3; exit 7"]
    result = subprocess.run([PYTHON, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 7
    assert "RuntimeError: planted" in result.stderr
    assert len(result.stderr.splitlines()) == 1
