"""The distribution that only records: ``leakscope-record`` (wheel, sdist) and ``leakscope.pyz``, from this very tree.

Usage: ``python light/build.py [FOLDER]`` (dist). Needs setuptools 77 and, for the libraries of the agent, a C compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "light"
PYZ = "leakscope.pyz"
# What records, and what it imports: rooms, and single files of rooms that need more. No pattern has to match.
PARTS = (
    "__init__.py", "__main__.py", "launcher.c", "light.py", "py.typed",
    "addresses.py", "alerts.py", "beside.py", "endpoints.py", "errors.py", "faults.py", "isolation.py", "locks.py",
    "options.py", "outside.py", "private.py", "rising.py", "schema.py", "signals.py", "units.py", "version.py",
    "agent/**/*", "recorder/**/*", "metering/**/*", "integrations/**/*",
    "storage/**/*", "torch_snapshots/**/*", "uploading/**/*",
    "watching/__init__.py", "watching/chart.py", "watching/cursor.py", "watching/feeds.py",
    "watching/history.py", "watching/holders.py", "watching/scene.py",
)  # fmt: skip
_UNWANTED = {".pyc", ".so"}
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def files() -> Iterator[Path]:
    """Of the package, what belongs to it; relative to the root."""
    package = ROOT / "leakscope"
    for pattern in PARTS:
        for path in sorted(package.glob(pattern)):
            if path.is_file() and path.suffix not in _UNWANTED:
                yield path.relative_to(ROOT)


def lay_out(folder: Path) -> None:
    """The tree of the distribution, as its own pyproject.toml wants it."""
    for path in (*files(), Path("setup.py"), Path("LICENSE")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(OWN / name, folder / name)
    (folder / "MANIFEST.in").write_text("include setup.py\nrecursive-include leakscope *\n")


def distributions(tree: Path, out: Path) -> list[Path]:
    """Build the wheel and the source distribution."""
    code = (
        "import sys; from setuptools import build_meta; out = sys.argv[1]; "  # which setuptools puts others in place of
        "build_meta.build_sdist(out); build_meta.build_wheel(out)"
    )
    built = subprocess.run([sys.executable, "-c", code, str(out)], cwd=tree, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"light/build.py: {built.stdout[-2000:]}{built.stderr[-4000:]}")
    return sorted(path for path in out.iterdir() if path.name.startswith("leakscope_record-"))


def archive(wheel: Path, out: Path) -> Path:
    """The package of a wheel as one file that Python runs. The same bytes for the same wheel."""
    with zipfile.ZipFile(wheel) as stream:
        members = {name: stream.read(name) for name in sorted(stream.namelist()) if name.startswith("leakscope/")}
    digest = hashlib.sha256()
    for name, content in members.items():
        digest.update(name.encode() + b"\0" + content)
    main = (OWN / "pyz_main.py").read_text().replace("@BUILD@", digest.hexdigest()[:16])
    target = out / PYZ
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as stream:
            for name, content in {"__main__.py": main.encode(), **members}.items():
                stream.writestr(zipfile.ZipInfo(name, _FIXED_TIME), content, zipfile.ZIP_DEFLATED)
    target.chmod(0o755)
    return target


def main(out: Path) -> list[Path]:
    """Build all three into ``out``; returns them."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("leakscope_record-*"), out / PYZ):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        built = distributions(Path(folder), out.resolve())
    wheel = next(path for path in built if path.suffix == ".whl")
    return [*built, archive(wheel, out)]


if __name__ == "__main__":
    os.umask(0o022)
    for path in main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(f"{path} ({path.stat().st_size / 1e6:.2f} MB)")
