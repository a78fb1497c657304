"""The suites: where their files are, what they need and how one file of each is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

# No network, nothing that takes gigabytes, no sound and no windows.
_RESOURCES = "all,-network,-urlfetch,-largefile,-audio,-gui"
_PREPARE_S = 3600


class Suite(NamedTuple):
    """``tests``: folders or patterns below site-packages, or below ``source`` where the wheel has no tests.

    ``source``: "sdist", or "folder" for a checkout that ``--source NAME=FOLDER`` names. ``into``: tests that can
    run only inside their package are copied there. ``options``: of pytest; of unittest, a module that runs the tests of
    others. ``most``: that many files, evenly chosen. ``variables``: of its environment.
    """

    name: str
    requires: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    source: str = ""
    into: str = ""
    runner: str = "pytest"
    options: tuple[str, ...] = ()
    most: int = 0
    variables: tuple[str, ...] = ()

    def prepare(self, python: Path, folder: Path, sources: Mapping[str, Path]) -> Path:
        """The interpreter to run it with: ``python`` itself, or that of a virtual environment made below ``folder``.

        **Errors** subprocess.SubprocessError, OSError: it cannot be had here.
        """
        if not self.requires:
            return python
        home = folder / f"{self.name}-{version(python)}"
        inside = home / "bin" / "python"
        if not (home / "ready").exists():
            _do(python, "-m", "venv", "--clear", str(home))
            _do(inside, "-m", "pip", "install", "-q", *self.requires)
            if self.source == "sdist":
                self._unpack(inside, home)
            elif self.source:
                if self.name not in sources:
                    raise FileNotFoundError(f"give its checkout: --source {self.name}=FOLDER")
                (home / "source").symlink_to(sources[self.name].resolve())
            (home / "ready").touch()
        return inside

    def _unpack(self, inside: Path, home: Path) -> None:
        have = {p["name"].lower(): p["version"] for p in json.loads(_do(inside, "-m", "pip", "list", "--format=json"))}
        package = self.requires[0]
        wanted = f"{package}=={have[package]}"
        _do(
            inside,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            package,
            "-d",
            str(home / "sdist"),
            wanted,
        )
        with tarfile.open(next((home / "sdist").glob("*.tar.gz"))) as archive:
            archive.extractall(home, filter="data")
            top = archive.getnames()[0].partition("/")[0]
        (home / top).rename(home / "source")
        if self.into:
            shutil.copytree(home / "source" / self.into, _site_packages(home) / Path(self.into).relative_to("src"))

    def files(self, python: Path, *, every: bool = False) -> list[str]:
        """Those to run: ``most`` of them, or every one. **Errors** subprocess.SubprocessError."""
        if self.runner == "regrtest":
            return _do(python, "-m", "test", "--list-tests").split()
        root = self._root(python)
        found = {path for pattern in self.tests for path in root.glob(pattern) if path.is_file()}
        names = sorted(str(path.relative_to(root)) for path in found)
        step = max(1, -(-len(names) // self.most)) if self.most and not every else 1
        return names[::step]

    def command(self, python: Path, file: str, report: Path) -> list[str]:
        return [*(("env", *self.variables) if self.variables else ()), *self._command(python, file, report)]

    def _command(self, python: Path, file: str, report: Path) -> list[str]:
        if self.runner == "regrtest":
            options = ["-v", "--fail-env-changed", "-u", _RESOURCES]
            if version(python).split(".")[1] not in ("6", "7"):  # 2.7 and 3.6 and 3.7 have no report
                options += ["--junit-xml", str(report)]
            return [str(python), "-m", "test", *options, file]
        if self.runner == "unittest":
            return [str(python), "-m", *self.options, file.removesuffix(".py").replace("/", "."), "-v"]
        root = self._root(python)
        options = [
            f"--rootdir={root}",
            "-p",
            "no:cacheprovider",
            f"--junit-xml={report}",
            "-o",
            "addopts=",
            *self.options,
        ]
        return [str(python), "-m", "pytest", "-rA", *options, str(root / file)]

    def _root(self, python: Path) -> Path:
        home = python.parents[1]
        return home / "source" if self.source and not self.into else _site_packages(home)


_PYTEST = ("pytest", "hypothesis")
_TORCH = ("torch", "numpy", "scipy", *_PYTEST)
_TRIO = ("trio==0.35.0", "astor", "jedi", "trustme", "pyopenssl", *_PYTEST)
_AIOHTTP = (
    "aiohttp", "coverage", "pytest-mock", "pytest-xdist", "pytest-codspeed", "blockbuster", "trustme", "isal",
    "zlib-ng", "pytest-timeout", "freezegun", "proxy.py", "re-assert", "python-on-whales", *_PYTEST,
)  # fmt: skip
_DEBUGPY = (
    "debugpy==1.8.21", "psutil", "untangle", "importlib-metadata", "django", "flask", "gevent", "numpy", "requests",
    "typing-extensions", "pytest-timeout", "pytest-retry", "pytest-xdist", "pytest-cov", *_PYTEST,
)  # fmt: skip
_ALL = (
    Suite("cpython", runner="regrtest"),
    Suite("numpy", ("numpy", *_PYTEST), ("numpy/**/test_*.py",)),
    Suite("pandas", ("pandas", "pyarrow", *_PYTEST), ("pandas/tests/**/test_*.py",), most=30),
    Suite("pyarrow", ("pyarrow", "pandas", "numpy", *_PYTEST), ("pyarrow/tests/**/test_*.py",)),
    Suite("lxml", ("lxml", *_PYTEST), ("lxml/tests/test_*.py",), "sdist", into="src/lxml/tests"),
    Suite(
        "torch",
        (*_TORCH, "expecttest", "psutil"),
        tuple(
            f"test/{part}test_*.py"
            for part in ("", "nn/", "optim/", "autograd/", "jit/", "distributions/", "profiler/")
        ),
        "folder",
        most=30,
    ),
    Suite("ignite", (*_TORCH, "pytorch-ignite"), ("tests/ignite/**/test_*.py",), "folder", most=30),
    Suite(
        "greenlet",
        ("greenlet", "psutil", "objgraph", *_PYTEST),
        ("greenlet/tests/test_*.py",),
        variables=("GREENLET_SKIP_LEAKCHECKS=1",),  # they count every object of the process, the agent's too
    ),
    Suite("gevent", ("gevent[test]", *_PYTEST), ("gevent/tests/test__*.py",), runner="unittest"),
    Suite("joblib", ("joblib", "numpy", *_PYTEST), ("joblib/test/test_*.py",)),
    Suite("aiohttp", _AIOHTTP, ("tests/test_*.py",), "sdist"),
    Suite(
        "tornado",
        ("tornado==6.6.1",),
        ("tornado/test/*_test.py",),
        runner="unittest",
        options=("tornado.test.runtests",),  # it sets up the log, on which tests that fail under pytest rely
    ),
    Suite(
        "trio",
        _TRIO,
        ("trio/_core/_tests/test_*.py", "trio/_tests/test_*.py"),
        options=("-p", "trio._tests.pytest_plugin"),
    ),
    Suite("coverage", ("coverage", "flaky", *_PYTEST), ("tests/test_*.py",), "sdist"),
    Suite("debugpy", _DEBUGPY, ("tests/**/test_*.py",), "folder", most=12),
)
SUITES = {suite.name: suite for suite in _ALL}


def _site_packages(home: Path) -> Path:
    return next((home / "lib").glob("python3*/site-packages"))


@lru_cache(None)
def version(python: Path) -> str:
    return _do(python, "-c", "import platform; print(platform.python_version())").strip()


def _do(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True, timeout=_PREPARE_S, env=environment
    ).stdout
