"""The source distribution has all that its tests read: they can be run where somebody packages it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow]

ROOT = Path(__file__).parents[1]
NOT_NEEDED = {".gitignore"}
# Recordings and pictures: three quarters of the checkout, and of no use to who builds a package.
LEFT_OUT = re.compile(
    r"(tests/(golden|gpu|jobs)/recordings|notebooks|fixtures/(imports|snapshots))/|docs/.*\.(parquet|png|svg)$"
)
MOST_BYTES = 5_000_000


def test_it_has_every_file_but_recordings_and_is_small(tmp_path: Path) -> None:
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
    wanted = {name for name in names if not LEFT_OUT.match(name)}
    assert wanted <= packed, sorted(wanted - packed)
    assert archive.stat().st_size < MOST_BYTES
