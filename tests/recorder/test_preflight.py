"""What the end of a run needs is asked for before the job begins: status 125, one line, and nothing was started."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

from leakscope import pushing
from leakscope.recorder import finalizing, preflight

from .runs import PYTHON, TIMEOUT_S, environment

pytestmark = pytest.mark.live
CASES = {
    "no-fsspec": (("fsspec", "s3fs"), ("-o", "s3://bucket/x.parquet"), "pip install fsspec s3fs"),
    "no-library-of-the-store": (("s3fs",), ("-o", "s3://me:hunter2@bucket/x.parquet"), "pip install s3fs"),
    "no-pyarrow": (("pyarrow",), ("-o", "file:///nowhere/x.parquet"), "pip install pyarrow"),
    "no-such-store": ((), ("-o", "nosuch://bucket/x.parquet"), "Protocol not known: nosuch"),
    "no-tracker": (("wandb",), ("--log-to", "wandb:project"), "wandb is not installed here: pip install"),
    "no-such-tracker": ((), ("--log-to", "nosuch"), "there are comet, mlflow, tensorboard, wandb"),
    "no-otlp": (("opentelemetry",), ("--otlp", "http://localhost:4318"), "pip install opentelemetry-sdk"),
    "no-folder": ((), ("-o", "nowhere/x.parquet"), "nowhere"),
    "no-address": (("pandas",), ("--alert", "rss>1GB", "--webhook", "ftp:/x"), "webhook"),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize(("hidden", "words", "needed"), CASES.values(), ids=CASES)
def test_what_is_missing(tmp_path: Path, hidden: tuple[str, ...], words: tuple[str, ...], needed: str) -> None:
    run = record(tmp_path, hidden, *words, "--", "touch", "started")
    assert run.returncode == 125
    assert len(run.stderr.splitlines()) == 1 and run.stderr.startswith("leakscope: ") and needed in run.stderr
    assert "hunter2" not in run.stderr
    assert not list(tmp_path.iterdir()), "neither the job nor a recording was begun"


def test_a_verdict_that_cannot_be_told_is_no_reason_to_start_no_job(tmp_path: Path) -> None:
    run = record(tmp_path, ("numpy",), "--", "echo", "5")
    assert (run.returncode, run.stdout) == (0, "5\n")
    assert run.stderr.startswith("leakscope: no verdict at the end without what is not installed: pip install numpy\n")


def record(folder: Path, hidden: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """As where these packages are not installed."""
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden})); from leakscope.__main__ import main; main()"
    command = [PYTHON, "-I", "-c", code, "record", *words]  # isolated as it is: else it begins anew, without this
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def test_every_tracker_is_known_with_its_package() -> None:
    told = {name: importlib.import_module(f"leakscope.pushing.{name}").PACKAGE for name in pushing.names()}
    assert preflight._trackers() == told


def test_a_module_of_a_package_is_looked_for_without_importing_it() -> None:
    assert finalizing.has("email.mime.text") and finalizing.has("json")
    assert not finalizing.has("email.nosuch.text") and not finalizing.has("json.decoder.nosuch")
    assert not finalizing.has("nosuch")
