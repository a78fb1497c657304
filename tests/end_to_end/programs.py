"""The programs under fixtures/, what is true of them, and the commands a user types to record them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

FIXTURES = Path(__file__).parents[2] / "fixtures"
SECONDS = "12.2"  # shorter than about 11 s a leak cannot be told from a slow start
LONGEST_S = 600  # what takes longer hangs: four programs are recorded beside whatever else a machine does


class Place(NamedTuple):
    """What a finding has to name; ``variable`` and ``line_text`` None: nothing in the source is to blame."""

    kind: str
    variable: str | None
    line_text: str | None


class Program(NamedTuple):
    """One file of fixtures/; ``places`` are what is wrong with it, none if it is clean.

    ``grows``: its memory keeps growing; None: it may, or not yet. ``kinds`` and ``names``: further kinds of finding and
    further variables that are as right as those of ``places`` (the name that a library gives to the same thing).
    ``mechanisms``: why memory is kept, any of which its advice may name; empty where none is asked for.
    ``requires``: packages it imports. ``exit_status``: how it ends. ``options``: of ``leakscope record``, and
    ``limit_bytes``: of the memory cgroup that it is recorded in, without which there is nothing to be seen.
    """

    path: Path
    places: tuple[Place, ...]
    grows: bool | None = False
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    exit_status: int = 0
    seconds: float = 0.0  # it has to run at least so long
    options: tuple[str, ...] = ()
    limit_bytes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}-{self.path.stem}"


def programs(folder: Path = FIXTURES) -> list[Program]:
    """All that truth.json in the folders of ``folder`` tells of, leaky and clean, in the order of their names."""
    found = []
    for truth_path in sorted(folder.glob("*/truth.json")):
        truth = json.loads(truth_path.read_text())
        needs: dict[str, Any] = {name: tuple(truth.get(name, ())) for name in ("requires", "options")}
        needs["seconds"] = truth.get("seconds", 0.0)
        needs["limit_bytes"] = truth["limit_mib"] << 20 if "limit_mib" in truth else None
        if truth["kind"] is not None:
            places = tuple(Place(t["kind"], t["variable"], t["line_text"]) for t in [truth, *truth.get("also", [])])
            leaky = Program(truth_path.with_name("leaky.py"), places, truth.get("grows", True), **needs)
            as_right = {field: tuple(truth.get(field, ())) for field in ("kinds", "names", "mechanisms")}
            found.append(leaky._replace(exit_status=truth.get("exit_status", 0), **as_right))
        clean = truth_path.with_name("clean.py")
        if truth["kind"] is None or clean.exists():  # programs that are only run have no twin
            found.append(Program(clean, (), **needs))
    return found


def record_command(output: Path, *command: object, outlives: bool = False) -> list[str]:
    more = ["--outlive"] if outlives else []
    return [sys.executable, "-m", "leakscope", "record", "-q", *more, "-o", str(output), "--", *map(str, command)]


def record_and_report(program: Path, folder: Path, *arguments: object) -> dict[str, Any]:
    """The JSON report of one run. **Errors** AssertionError with what a command that failed had to say."""
    folder.mkdir(exist_ok=True)
    output = folder / f"{program.parent.name}-{program.stem}.parquet"
    run(record_command(output, sys.executable, program, *arguments))
    return report(output)


def report(recording: Path) -> dict[str, Any]:
    text = run([sys.executable, "-m", "leakscope", "report", str(recording), "--format", "json"])
    return dict(json.loads(text))


def run(command: list[str]) -> str:
    """Standard output of a command that has to succeed without a word on stderr."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    assert not done.stderr, f"{command} said: {done.stderr}"
    return done.stdout


def named(finding: dict[str, Any], place: Place, program: Path) -> Place:
    """What a finding named, as far as ``place`` asks for it."""
    subject = finding["subject"]
    line_text = None
    if place.line_text is not None and subject["line"] and _is_same_file(subject["file"], program):
        line_text = program.read_text().splitlines()[subject["line"] - 1].strip()
    return Place(finding["kind"], subject["variable"] if place.variable is not None else None, line_text)


def _is_same_file(recorded: str | None, program: Path) -> bool:
    """The recording may be made of a copy."""
    return recorded is not None and Path(recorded).parts[-2:] == program.parts[-2:]
