"""Somebody else on the same computer, and a folder that everybody may write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STRANGER = 54_322  # a user with no processes of its own
AS_STRANGER = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--inh-caps=-all"]
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root and setpriv, to become somebody else"
)


def as_stranger(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What another user tries, as a shell script."""
    return subprocess.run(
        [*AS_STRANGER, "sh", "-c", script, "sh", *arguments], cwd=folder, capture_output=True, text=True
    )


@contextmanager
def being_stranger() -> Iterator[None]:
    """This very process, as the kernel sees it."""
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)


def python_of_all() -> str:
    """An interpreter that other users may start as well."""
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run([*AS_STRANGER, python, "-c", "1"], cwd="/", capture_output=True).returncode:
            return python
    pytest.skip("no interpreter that another user may start")
