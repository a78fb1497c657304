"""Environments with what pyproject.toml declares, one a Python, in ``build/pythons``: made once, and used by the tests.

``python -m tests.pythons`` makes those that are missing, of the interpreters that ``LEAKSCOPE_PYTHONS`` names (all).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harm.interpreters import VARIABLE, Interpreter, interpreters

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "pythons"
_STAMP = "installed.txt"  # what was installed: an environment with other requirements is made anew


def lowest() -> tuple[int, int]:
    """The oldest Python that reads recordings, where that is decided: ``requires-python`` of pyproject.toml."""
    found = re.search(r'^requires-python = ">=(\d+)\.(\d+)"$', _project(), re.MULTILINE)
    assert found is not None
    return int(found[1]), int(found[2])


def requirements() -> list[str]:
    found = re.search(r"^dependencies = \[(.*)\]$", _project(), re.MULTILINE)
    assert found is not None
    return re.findall(r'"([^"]+)"', found[1])


def _project() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def ready() -> list[str]:
    """The Pythons, as ``3.9``, whose environment is there and up to date; the lowest first."""
    wanted = "\n".join(requirements())
    found = [path.parent.name for path in FOLDER.glob(f"*/{_STAMP}") if path.read_text() == wanted]
    return sorted((name for name in found if os.access(python_of(name), os.X_OK)), key=_as_numbers)


def python_of(name: str) -> str:
    return str(FOLDER / name / "bin" / "python")


def wanted() -> dict[str, Interpreter]:
    """The newest interpreter of each version that leakscope runs on."""
    return {
        ".".join(map(str, one.version[:2])): one
        for one in interpreters()
        if one.version[:2] >= lowest() and not one.flags
    }


def make(name: str, interpreter: Interpreter) -> None:
    """Make the environment anew. **Errors** subprocess.CalledProcessError."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = [python_of(name), "-m", "pip"]
    if subprocess.run([interpreter.path, "-m", "venv", str(folder)], capture_output=True).returncode != 0:
        # A Python without ensurepip, as Debian's are: this one's pip serves it.
        subprocess.run([interpreter.path, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python_of(name)]
    command = [*pip, "--quiet", "--disable-pip-version-check", "install", *requirements()]
    subprocess.run(command, check=True)
    (folder / _STAMP).write_text("\n".join(requirements()))


def told() -> str:
    """For who runs the tests: the Pythons that every command is run on."""
    names = ready()
    this = ".".join(map(str, sys.version_info[:3]))
    declared = re.findall(r"Programming Language :: Python :: (\d\.\d+)", _project())
    missing = [name for name in declared if name not in (*names, this.rpartition(".")[0])]
    without = f"; not on {', '.join(missing)}: make test-pythons makes environments" if missing else ""
    return f"== Pythons: every command is run on {', '.join([*names, f'{this} (this one)'])}{without}"


def main() -> None:
    os.environ.setdefault(VARIABLE, "all")
    there = set(ready())
    for name, interpreter in sorted(wanted().items(), key=lambda one: _as_numbers(one[0])):
        if name not in there:
            print(f"== build/pythons/{name}: Python {interpreter}, installing {', '.join(requirements())}", flush=True)
            make(name, interpreter)


def _as_numbers(name: str) -> list[int]:
    return [int(part) for part in name.split(".")]
