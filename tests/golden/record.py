"""Golden recordings made anew: in a neutral folder, trimmed, and kept only if they are judged as untrimmed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from tests.end_to_end.cgroups import Cgroup, NoCgroup
from tests.end_to_end.programs import LONGEST_S, Program

from . import DEMOS, judge, recording_of
from .trim import JOB, neutraliser, this_machine, trim

_GROUP = "group-a"  # as trim.py calls cgroups
_ONE_GROUP = Lock()  # there is one of this name


class NotRecorded(Exception):
    """A program did not run as it should, or its recording cannot be trimmed."""


def absent(program: Program) -> str:
    """What is not installed of the packages it imports."""
    return " and ".join(package for package in program.requires if importlib.util.find_spec(package) is None)


def record(program: Program, seconds: float, turns: AbstractContextManager[Any]) -> dict[str, Any]:
    """Record ``program`` in place of its golden recording, and return its report. **Errors** NotRecorded.

    ``turns`` is held while the program runs.
    """
    folder = JOB / program.path.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(program.path, folder)
    raw = folder / f"{program.name}.parquet"
    raw.unlink(missing_ok=True)
    with turns:
        _run(program, folder, raw, seconds)
    trimmed = raw.with_name(f"{program.name}-trimmed.parquet")
    trim(raw, trimmed)
    report = _judged_alike(raw, trimmed)
    recording_of(program).parent.mkdir(exist_ok=True)
    shutil.copy(trimmed, recording_of(program))
    raw.unlink()
    trimmed.unlink()
    return report


def _run(program: Program, folder: Path, raw: Path, seconds: float) -> None:
    """As a user would: from the program's folder, by the ``python`` of the environment."""
    words = ["--seconds", f"{seconds:g}"] if program in DEMOS else [f"{seconds:g}"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}  # threads of two at once would starve each other
    command = ["leakscope", "record", "-q", *program.options, "-o", str(raw), "--", "python", program.path.name, *words]
    with _group(program) as enter:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST_S + seconds,
            preexec_fn=enter,
        )  # fmt: skip
    if done.returncode != program.exit_status:
        raise NotRecorded(f"{done.stderr.strip()[-300:]} (status {done.returncode}, not {program.exit_status})")


@contextmanager
def _group(program: Program) -> Iterator[Callable[[], None] | None]:
    """What a process has to call to be in the memory cgroup of a program that is recorded in one. Needs root."""
    if program.limit_bytes is None:
        yield None
        return
    with _ONE_GROUP:
        try:
            cgroup = Cgroup.made(_GROUP)
        except NoCgroup as error:
            raise NotRecorded(f"a memory cgroup cannot be made here: {error}") from None
        try:
            cgroup.limit(program.limit_bytes)
            yield cgroup.enter
        finally:
            cgroup.remove()


def _judged_alike(raw: Path, trimmed: Path) -> dict[str, Any]:
    """The report of both, which has to be the same but for what it says of the file."""
    report = judge(trimmed)
    text = json.dumps(_without_file(report))
    untrimmed = json.loads(neutraliser()(json.dumps(_without_file(judge(raw)))))
    different = [section for section, value in _without_file(report).items() if untrimmed[section] != value]
    if different:
        raise NotRecorded(f"trimmed it is judged otherwise in {', '.join(different)}; see {raw}")
    named = [name for name in this_machine() if name in text]
    if named:
        raise NotRecorded(f"its report names {', '.join(named)}; see {raw}")
    return report


def _without_file(report: dict[str, Any]) -> dict[str, Any]:
    """Without what is told of the file itself, and fingerprints: paths are in these, which are neutral ones by then."""
    about = {name: value for name, value in report["recording"].items() if name != "path"}
    about["overhead"] = {name: value for name, value in about["overhead"].items() if name != "recording_bytes"}
    findings = [{name: value for name, value in one.items() if name != "fingerprint"} for one in report["findings"]]
    return {**report, "recording": about, "findings": findings}
