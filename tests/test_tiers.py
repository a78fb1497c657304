"""No test hides that it failed: who passes only the second time is named, and too many of them fail the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import tiers


def test_a_test_that_passed_alone_is_named():
    lines, is_too_often = tiers.told(["tests/a.py::test_b"], {f"test_{n}" for n in range(300)})
    assert lines == ["== failed at first, passed alone: 1 of 300 live tests", "tests/a.py::test_b"]
    assert not is_too_often


@pytest.mark.parametrize("count, of, is_too_often", [(0, 400, False), (1, 20, False), (2, 400, False), (3, 400, True)])
def test_too_many_of_them_fail_the_run(count: int, of: int, is_too_often: bool):
    assert tiers.told([f"test_{n}" for n in range(count)], {f"test_{n}" for n in range(of)})[1] is is_too_often


PASSES_THE_SECOND_TIME = """
import pathlib
@pytest.mark.live
def test_a():
    here = pathlib.Path("been")
    been = here.exists()
    here.touch()
    assert been
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize("name, program, status, said", [
    ("starved", PASSES_THE_SECOND_TIME, 0, "passed alone: 1 of 1 live tests\ntest_starved.py::test_a"),
    ("fails", "@pytest.mark.live\ndef test_a(): assert False", 1, "once more, alone: 1 tests"),
    ("unit", "def test_a(): assert False", 1, "1 failed"),
    ("passes", "def test_a(): pass", 0, "1 passed"),
])  # fmt: skip
def test_what_failed_is_tried_once_more_if_it_is_live(monkeypatch, tmp_path, capsys, name, program, status, said):
    (tmp_path / f"test_{name}.py").write_text(f"import pytest\n{program}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiers, "AT_ONCE", {"test": []})
    alone = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "--rootdir", str(tmp_path)]
    monkeypatch.setattr(tiers, "ALONE", alone)
    assert tiers.run("test", [*alone, f"test_{name}.py"]) == status
    assert said in capsys.readouterr().out


@pytest.mark.live
def test_a_unit_test_that_starts_a_process_fails(tmp_path):
    here = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((here / "conftest.py").read_text())
    starts = "import subprocess\ndef test_a(): subprocess.run(['true'])\n"
    (tmp_path / "test_starts.py").write_text(starts)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_starts.py"]
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "a unit test started a process" in done.stdout


@pytest.mark.live
def test_what_the_workers_saw_entered_is_told_to_the_tier(tmp_path):
    """A function of these rooms, which a golden test calls in a worker."""
    here = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((here / "conftest.py").read_text())
    (tmp_path / "golden" / "recordings").mkdir(parents=True)  # as in a clone
    (tmp_path / "test_judges.py").write_text(
        "import pytest\nfrom leakscope.analyzers import names\n@pytest.mark.golden\ndef test_a(): names()\n"
        "def test_b():\n    from leakscope.reporting import analyze\n"
    )
    program = (
        "import pytest\nfrom tests.entered import Tally\ntally = Tally()\n"
        f"status = pytest.main(['-q', '-n', '1', '-p', 'no:cacheprovider', '--rootdir', '{tmp_path}', '-W', 'ignore',"
        " 'test_judges.py'], plugins=[tally])\nprint(int(status), tally.is_whole, sorted(tally.entered))"
    )
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "0 True ['analyzers/__init__.py names']", done.stdout + done.stderr
