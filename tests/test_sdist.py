"""The source distribution has all that its tests read: they can be run where somebody packages it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow]

ROOT = Path(__file__).parents[1]
NOT_NEEDED = {".gitignore"}


def test_it_has_every_file_of_the_checkout(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()} - NOT_NEEDED
    copy = tmp_path / "copy"  # setuptools leaves files beside the sources
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as stream:
        packed = {member.name.partition("/")[2] for member in stream.getmembers()}
    assert names <= packed, sorted(names - packed)
