"""The code that the job's Pythons load is the user's own: nobody else can put any in its place, now or later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leakscope import private
from leakscope.recorder import attach, staging

from ..recorder.runs import PYTHON, TIMEOUT_S, environment, record, record_command, until
from .users import as_stranger, needs_root, python_of_all

pytestmark = pytest.mark.live

PATHS = "import os; print(os.environ['PYTHONPATH'].split(':')[0], flush=True)"
WAITS = f"{PATHS}; import sys; sys.stdin.read()"
# In the job's folder and in that of the agent: replace what is there, or make it again.
HIJACK = """
for boot in "$@" run.parquet.journal/boot; do
    ls "$boot"/..; mkdir -p "$boot"; echo 'print("hijacked")' > "$boot/sitecustomize.py"
done
"""


@needs_root
@pytest.mark.parametrize("cache", ["of the user", "none", "open to all", "a stranger's"])
def test_nobody_else_gets_code_into_what_the_job_starts(public: Path, home: Path, cache: str) -> None:
    """While it is recorded, with umask 0, and afterwards, as a daemon would that the job left behind."""
    environ = environment(HOME=str(home), TMPDIR=str(public))
    for folder in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME"):
        environ.pop(folder, None)
    if cache == "none":
        environ["HOME"] = "/nowhere"
    elif cache == "open to all":
        home.chmod(0o777)
    elif cache == "a stranger's":
        environ["XDG_CACHE_HOME"] = str(public / "cache")
        as_stranger("mkdir -m 777 cache", public)
    with subprocess.Popen(
        ["sh", "-c", 'umask 0; exec "$@"', "sh", *record_command("-q", PYTHON, "-c", WAITS)],
        cwd=public, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as recorder:  # fmt: skip
        assert recorder.stdout is not None
        boot = Path(recorder.stdout.readline().strip())
        assert boot.parent.name.startswith("leakscope-run-")
        assert boot.is_relative_to(home / ".cache" if cache == "of the user" else public)
        own = [p for p in (boot.parent, *boot.parent.rglob("*")) if "__pycache__" not in p.parts]
        assert {p.stat().st_mode & 0o077 for p in own} == {0}  # bytecode, where Python keeps some, has the job's umask
        during = as_stranger(HIJACK, public, str(boot))
        recorder.communicate(timeout=TIMEOUT_S)
    assert during.stdout == ""
    assert not boot.exists()
    as_stranger(HIJACK, public, str(boot))
    later = subprocess.run(
        [PYTHON, "-c", "print('well')"], env={**environ, "PYTHONPATH": str(boot)}, capture_output=True, text=True
    )
    assert (later.stdout, later.stderr) == ("well\n", "")


def test_without_a_safe_place_the_job_is_recorded_from_outside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o777)
    home.chmod(0o777)
    start = (
        "import sys; from leakscope import private, private; base = sys.argv.pop(1); private.bases = lambda: [base]\n"
        "from leakscope.__main__ import main; main()"
    )
    command = [PYTHON, "-I", "-c", start, str(home / "leakscope"), "record", PYTHON, "-c", "print('well')"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "well\n")
    assert f"no safe place for the agent: {home}/leakscope can be changed by others" in done.stderr


@needs_root
@pytest.mark.parametrize("umask", ["0", "077"])
def test_a_process_that_became_another_user_goes_without_the_agent(public: Path, umask: str) -> None:
    """It may not read the agent, and says nothing about it."""
    python = python_of_all()
    program = f"setpriv --reuid 54322 --clear-groups {python} -X dev -W error -c 'print(\"well\")'"
    done = record(public, "-q", "sh", "-c", f"umask {umask}; {program}")
    said = [line for line in done.stderr.splitlines() if not line.startswith("leakscope: ")]
    assert (done.returncode, done.stdout, said) == (0, "well\n", [])


@pytest.mark.slow
def test_what_a_killed_recorder_left_stays_for_its_job_and_is_removed_after_it(tmp_path: Path) -> None:
    environ = environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    pipe, command = subprocess.PIPE, record_command("-q", "--outlive", PYTHON, "-c", WAITS)
    recorder = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    )
    assert recorder.stdout is not None
    boot = Path(recorder.stdout.readline().strip())
    recorder.kill()
    recorder.wait(TIMEOUT_S)
    record(tmp_path, "-q", "true", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert boot.exists()
    recorder.communicate()  # the job reads the end of its stdin
    until(lambda: subprocess.run(["pgrep", "-g", str(recorder.pid)], stdout=subprocess.DEVNULL).returncode)
    for journal in tmp_path.glob("*.journal"):
        subprocess.run([PYTHON, "-m", "leakscope", "finalize", "-q", str(journal)], env=environ, check=True)
    assert not list((tmp_path / "cache" / "leakscope").glob("leakscope-run-*"))


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> staging.Staged:
    with monkeypatch.context() as here:
        here.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / "run.parquet.journal").mkdir()
        return staging.stage(str(tmp_path / "run.parquet.journal"), {})


def _kept_in(cache: Path) -> list[Path]:
    return sorted((cache / "leakscope").glob("leakscope-agent-*"))


def test_runs_share_one_copy_of_the_agent_which_is_made_anew_where_it_is_not_whole(
    tmp_path: Path, staged: staging.Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (kept,) = _kept_in(tmp_path / "cache")
    inode = kept.stat().st_ino
    journal = str(tmp_path / "run.parquet.journal")
    staging.stage(journal, {}).remove()
    assert [folder.stat().st_ino for folder in _kept_in(tmp_path / "cache")] == [inode]
    (kept / "agent" / "main.py").unlink()
    whole = staging.stage(journal, {})
    assert (Path(whole.path) / "agent" / "main.py").exists() and kept.stat().st_ino != inode
    for folder in _kept_in(tmp_path / "cache"):
        os.utime(folder, (0, 0))
    whole.remove()
    staged.remove()
    Path(journal).rmdir()
    staging.sweep()
    assert _kept_in(tmp_path / "cache") == []


def test_nothing_else_can_be_imported_from_the_folder_on_the_path(staged: staging.Staged) -> None:
    assert {name.partition(".")[0] for name in os.listdir(staged.boot)} == {"sitecustomize"}
    staged.remove()


def test_a_script_that_a_process_has_not_come_to_stays_for_it(
    tmp_path: Path, staged: staging.Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.14 reads it at its next safe point, perhaps when the recording is over, and complains if it cannot."""
    asked: list[str] = []
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: asked.append(script), raising=False)
    monkeypatch.setattr(private, "bases", lambda: [str(tmp_path / "cache" / "leakscope")])
    program = (
        "import sys; exec(open(sys.stdin.readline().strip()).read()); print('entered', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [PYTHON, "-c", program], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert attach.enter(process.pid, staged, str(tmp_path / "run.parquet.journal")) is None
        staged.remove()
        (tmp_path / "run.parquet.journal").rmdir()
        staging.sweep()
        assert Path(asked[0]).exists()
        process.stdin.write(asked[0] + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "entered\n"
        staging.sweep()
        assert not Path(staged.path).exists()


@needs_root
def test_a_process_of_another_user_is_not_asked_to_run_what_it_cannot_read(
    tmp_path: Path, staged: staging.Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: pytest.fail("asked"), raising=False)
    with subprocess.Popen(["setpriv", "--reuid=54322", "--clear-groups", "sleep", "60"]) as process:
        until(lambda: "54322" in Path(f"/proc/{process.pid}/status").read_text())
        said = attach.enter(process.pid, staged, str(tmp_path))
        process.send_signal(signal.SIGKILL)
    assert said == f"no view inside process {process.pid}: it is another user's, or sees other files"
    staged.remove()
    assert not os.path.exists(staged.path)
