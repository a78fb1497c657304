"""Scalene, as its README says: ``scalene run``; the lines that it reports as leaks, then those that grew most."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from leakbench.answer import LINE, VERDICT, Answer

OFFERS = frozenset({VERDICT, LINE})
REQUIRES = ("scalene",)
HOW = "`scalene run --memory`; leaks it reports by likelihood, then lines by the memory they gained"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    profile = folder / "profile.json"
    return [sys.executable, "-m", "scalene", "run", "--memory", "-o", str(profile), str(program), "---", f"{seconds:g}"]


def answer(folder: Path, program: Path) -> Answer:
    profile = folder / "profile.json"
    told = json.loads(profile.read_text()) if profile.exists() and profile.stat().st_size else {}
    files = {
        name: file for name, file in told.get("files", {}).items() if program.parent.name in str(Path(name).resolve())
    }
    leaks = sorted(
        (
            (leak["likelihood"], name, int(line))
            for name, file in files.items()
            for line, leak in file.get("leaks", {}).items()
        ),
        reverse=True,
    )
    grown = sorted(
        ((line["n_growth_mb"], name, line["lineno"]) for name, file in files.items() for line in file["lines"]
         if line.get("n_growth_mb", 0) > 0),
        reverse=True,
    )  # fmt: skip
    lines = dict.fromkeys([(name, line) for _, name, line in [*leaks, *grown]])
    return Answer(leaking=bool(leaks), lines=tuple(lines)[:10], alarmed=bool(leaks))
