"""`leakscope fix`: a diff of what is certain, and the proof on a copy; nothing of the user's is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leakscope import isolation
from leakscope.cli import main
from leakscope.findings import Finding, Subject
from leakscope.words import why_no_edit
from tests.end_to_end.programs import record_command
from tests.golden import RECORDINGS

PROGRAM = """import time

seen = []


def add(n):
    seen.append([n] * 3000)


def main():
    for n in range(9000):
        add(n)
        time.sleep(0.002)
    print("done", n, len(seen) > 0)


main()
"""


def test_the_edit_is_printed_as_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(RECORDINGS / "retained_objects_numpy_views-leaky.parquet")]) == 0
    said = capsys.readouterr()
    assert "+        self.strips.append(frame[100:104].copy())" in said.out.split("\n")
    assert said.out.startswith("--- a/") and "keep a .copy()" in said.err


def test_where_no_edit_is_certain_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(RECORDINGS / "retained_objects_slots-leaky.parquet")]) == 4
    said = capsys.readouterr()
    assert not said.out and "no edit is certain enough" in said.err


def test_what_is_known_is_not_said_to_be_unknown() -> None:
    known = Finding("fd-pileup", "", "critical", 0.9, 1, Subject(file="a.py", line=3, holder="Log.files (list)"))
    assert "the line is known, and Log.files (list) holds" in why_no_edit(known) and "no line" not in why_no_edit(known)
    assert why_no_edit(replace(known, subject=Subject())) == "no line of the source is known"


@pytest.mark.parametrize(
    ("name", "more", "status", "words"),
    [
        ("clean_warm_up_then_flat-clean", [], 4, "nothing to fix"),
        ("retained_objects_deque-leaky", ["--finding", "9"], 2, "no finding 9"),
        ("retained_objects_deque-leaky", ["--prove"], 2, "is not here"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    name: str, more: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fix", str(RECORDINGS / f"{name}.parquet"), *more]) == status
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_the_program_is_run_without_what_leakscope_sets_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_added", [])
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    isolation.spare_memory()
    assert isolation.given_environment()["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL")
    isolation.spare_memory()
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert "ARROW_DEFAULT_MEMORY_POOL" not in isolation.given_environment()


@pytest.mark.slow
def test_an_edit_that_breaks_the_program_is_said_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It never gets as far as there are figures to compare."""
    (tmp_path / "train.py").write_text(
        PROGRAM.replace("add(n)\n        time", "add(n)\n        len(seen) == n + 1 or exit(3)\n        time")
    )
    before, after = tmp_path / "before.parquet", tmp_path / "after.parquet"
    subprocess.run(record_command(before, sys.executable, "train.py"), cwd=tmp_path, check=True)
    assert main(["fix", str(before), "--prove", "-o", str(after)]) != 0
    said = capfd.readouterr()
    assert "breaks the program: it failed with exit status 3" in said.err
    assert "Better" not in said.out and "the run after failed, exit status 3" in " ".join(said.out.split())


@pytest.mark.slow
def test_the_edit_is_proved_on_a_copy_of_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job"
    (job / "data").mkdir(parents=True)
    (job / "train.py").write_text(PROGRAM)
    (job / "data" / "rows.csv").write_text("1")
    before, after = tmp_path / "before.parquet", tmp_path / "after.parquet"
    subprocess.run(record_command(before, sys.executable, "train.py"), cwd=job, check=True)
    assert main(["fix", str(before), "--prove", "-o", str(after)]) == 0
    said = capfd.readouterr()
    assert "+    del seen[:-" in said.out and "Better" in said.out
    assert "done 8999 True" in said.err and "it ended as before" in said.err
    assert (job / "train.py").read_text() == PROGRAM
    assert sorted(one.name for one in job.iterdir()) == ["data", "train.py"]
    (job / "train.py").write_text(PROGRAM + "# later\n")
    assert main(["fix", str(before), "--prove", "-o", str(after)]) == 2
    assert "not as it was when it was recorded" in capfd.readouterr().err
