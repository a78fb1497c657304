"""The interpreters that attacks are run on: this one; others where ``LEAKSCOPE_PYTHONS`` names them.

``LEAKSCOPE_PYTHONS=all``: every one of pyenv's and every ``python3.N`` on PATH; else their paths, parted by colons.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import NamedTuple

VARIABLE = "LEAKSCOPE_PYTHONS"
OLDEST = (3, 8)  # that the agent runs in
OLDEST_MINOR, NEWEST_MINOR = 8, 15
_ASK = """
import importlib.util, json, sys
refused = hasattr(sys, "getobjects") or "t" in sys.abiflags
libraries = [m for m in sys.argv[1:] if importlib.util.find_spec(m)]
print(json.dumps([list(sys.version_info[:3]), sys.abiflags, refused, libraries]))
"""
LIBRARIES = (
    "_interpreters", "_xxsubinterpreters", "coverage", "ctypes", "debugpy", "eventlet", "freezegun", "gevent",
    "greenlet", "lazy_object_proxy", "pytest", "pytest_cov", "sqlite3", "wrapt",
)  # fmt: skip


class Interpreter(NamedTuple):
    """A Python to run programs with, and which of ``LIBRARIES`` it can import.

    ``flags``: d of a debug build, t of a free-threaded one. ``is_refused``: the agent does not begin in it.
    """

    path: str
    version: tuple[int, ...]
    flags: str
    is_refused: bool
    libraries: frozenset[str]

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + self.flags


@lru_cache(maxsize=1)
def interpreters() -> tuple[Interpreter, ...]:
    """Those to test, in the order of their versions; what cannot be run, or is too old, is left out."""
    named = os.environ.get(VARIABLE, "")
    paths = _all() if named == "all" else named.split(os.pathsep) if named else [sys.executable]
    found = {str(one): one for path in dict.fromkeys(paths) if (one := interpreter_at(path)) is not None}
    return tuple(sorted(found.values(), key=lambda one: one.version))


def _all() -> list[str]:
    """The first of each version counts last: this one's libraries are known."""
    on_path = [shutil.which(f"python3.{minor}") for minor in range(OLDEST_MINOR, NEWEST_MINOR)]
    of_pyenv = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))
    return [*filter(None, on_path), *of_pyenv, sys.executable]


def interpreter_at(path: str) -> Interpreter | None:
    try:
        told = subprocess.run([path, "-c", _ASK, *LIBRARIES], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # a shim without its Python, or Python 2
    version, flags, is_refused, libraries = json.loads(told.stdout)
    if tuple(version) < OLDEST:
        return None
    return Interpreter(path, tuple(version), flags, is_refused, frozenset(libraries))
