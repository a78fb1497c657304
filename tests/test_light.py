"""leakscope-record and leakscope.pyz: built from this tree, they record where nothing else is installed."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from leakscope import light
from leakscope.storage import open_recording
from tests.recorder.runs import ROOT, environment
from tests.test_layers import imports, is_standard

JOB = "import time; kept = []\nfor i in range(40): kept.append(bytearray(100_000)); time.sleep(0.05)"
WAIT_S = 200.0


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("light_build", ROOT / "light" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def at_import(path: Path) -> set[int]:
    """Lines of a file that run when it is imported: outside functions."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inside = {line for node in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    return set(range(1, len(path.read_text().splitlines()) + 1)) - inside


def test_what_its_files_import_is_among_them() -> None:
    files = {path for path in builder().files() if path.suffix == ".py"}
    modules = {".".join(path.with_suffix("").parts).replace(".__init__", "") for path in files}
    needs_packages = {"storage", "integrations"}  # which are asked for only where theirs are installed
    missing = []
    for path in sorted(files):
        lines = at_import(ROOT / path)
        for line, module in imports(ROOT / path):
            is_ours = module.partition(".")[0] == "leakscope"
            if line in lines and is_ours and not {module, module.rpartition(".")[0]} & modules:
                missing.append(f"{path}:{line} imports {module}")
            elif line in lines and is_ours and module.rpartition(".")[0] == "leakscope" and module not in modules:
                missing += [f"{path}:{line} imports {module}"] if module != "leakscope.__version__" else []
            elif line in lines and not is_ours and not is_standard(module):
                missing += [] if path.parts[1] in {*needs_packages, "agent"} else [f"{path}:{line} imports {module}"]
    assert not missing


def test_it_is_the_same_version_with_the_same_extra_for_otlp() -> None:
    tomllib = pytest.importorskip("tomllib")
    own = tomllib.loads((ROOT / "light" / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert own["dependencies"] == []
    assert own["requires-python"] == whole["requires-python"] and own["license"] == whole["license"]
    assert own["optional-dependencies"]["otlp"] == whole["optional-dependencies"]["otlp"]
    assert [need for need in whole["dependencies"] if need.startswith("pyarrow")] == (
        own["optional-dependencies"]["finish"]
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["report"],
            2,
            "`report` is not part of this installation, which only records: install leakscope-recorder for that",
        ),
        (["upload", "none.parquet", "--to", "memory://x"], 2, "there is no recording none.parquet"),
        (["finalize", "--keep-journal", "none.parquet"], 2, "finalize has no option --keep-journal here"),
        (["upload"], 2, "there is no recording run.parquet"),
    ],
)
def test_what_it_cannot_do_is_one_line(
    words: list[str], status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert light.main(words) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"leakscope: {said}")


def test_its_help_names_each_of_its_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert light.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"leakscope {name} " in shown or f"leakscope {name}\n" in shown for name in light._COMMANDS)
    assert light.main(["record", "--help"]) == 0
    assert {"--metrics ADDRESS", "-o, --output FILE"} <= {line.strip() for line in capsys.readouterr().out.splitlines()}


def test_a_recording_is_uploaded_with_its_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "run.parquet").write_bytes(b"PAR1")
    (tmp_path / "run.parquet.journal").mkdir()
    (tmp_path / "run.parquet.journal" / "meta.json").write_text("{}")
    target = tmp_path / "bucket"
    assert light.main(["upload", str(tmp_path / "run.parquet"), "--to", f"file://{target}/"]) == 0
    assert (target / "run.parquet").read_bytes() == b"PAR1"
    assert (target / "run.parquet.journal" / "meta.json").read_text() == "{}"
    assert "2 files" in capsys.readouterr().err


@pytest.mark.parametrize("store", ["memory", "nosuch"])  # where it arrives, and where it does not
def test_a_login_in_an_address_is_not_shown(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "store", {})  # which all of a process share
    (tmp_path / "run.parquet").write_bytes(b"PAR1")
    status = light.main(["upload", str(tmp_path / "run.parquet"), "--to", f"{store}://key:secret@bucket/runs?token=x"])
    assert status == (0 if store == "memory" else 2)
    said = capsys.readouterr().err
    assert f"{store}://bucket/runs" in said
    assert "secret" not in said
    assert "token" not in said


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    builder().main(folder)
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with nothing in it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    return folder / "bin"


def interpreters() -> Iterator[object]:
    found = {".".join(map(str, sys.version_info[:2])): sys.executable}
    for folder in sorted(Path.home().glob(".pyenv/versions/3.*")):
        found.setdefault(".".join(folder.name.split(".")[:2]), str(folder / "bin" / "python"))
    for version in ("3.9", "3.13"):
        skip = [] if version in found else [pytest.mark.skip(reason=f"there is no Python {version}")]
        yield pytest.param(found.get(version, ""), id=version, marks=skip)


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in environment(**env).items() if name != "PYTHONPATH"}
    return subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, timeout=WAIT_S)


@pytest.mark.slow
def test_the_wheel_records_in_an_environment_without_anything_else(built: Path, bare: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("leakscope_record-*.whl")
    installed = run(str(bare / "pip"), "install", "--no-index", "--quiet", str(wheel), cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    leakscope = str(bare / "leakscope")
    recorded = run(leakscope, "record", "--", str(bare / "python"), "-c", JOB, cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    assert "where leakscope is installed, leakscope report run.parquet" in recorded.stderr
    for words, needed in (
        (("-o", "s3://bucket/x.parquet"), "pip install pyarrow fsspec s3fs"),
        (("--log-to", "wandb"), "which only records"),
        (("--otlp", "http://127.0.0.1:1"), "pip install opentelemetry-sdk"),
    ):
        refused = run(leakscope, "record", *words, "--", "touch", "started", cwd=tmp_path)
        assert refused.returncode == 125 and needed in refused.stderr and len(refused.stderr.splitlines()) == 1
        assert not (tmp_path / "started").exists()
    told = run(leakscope, "report", cwd=tmp_path)
    assert (told.returncode, told.stdout, len(told.stderr.splitlines())) == (2, "", 1)
    assert "leakscope-recorder" in told.stderr
    finished = run(leakscope, "finalize", "run.parquet", cwd=tmp_path)
    assert finished.returncode == 2 and "pip install pyarrow" in finished.stderr
    assert run(leakscope, "--version", cwd=tmp_path).stdout.startswith("leakscope, version ")
    recording = open_recording(tmp_path / "run.parquet")
    assert len(recording.tables["process_samples"]) > 3
    assert len(recording.tables["takes"]), "the agent was inside"


@pytest.mark.slow
def test_its_source_distribution_has_the_sources_of_the_libraries(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("leakscope_record-*.tar.gz")
    listed = subprocess.run(["tar", "-tzf", str(archive)], capture_output=True, text=True, check=True).stdout
    assert "/leakscope/agent/graph/reader.c" in listed and "/leakscope/agent/graph/reader/blocks.c" in listed
    assert "/setup.py" in listed and "/LICENSE" in listed


@pytest.mark.slow
def test_the_archive_is_small_and_the_same_each_time(built: Path, tmp_path: Path) -> None:
    archive = built / "leakscope.pyz"
    assert archive.stat().st_size < 2_000_000
    (wheel,) = built.glob("leakscope_record-*.whl")
    assert builder().archive(wheel, tmp_path).read_bytes() == archive.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    assert not [name for name in names if name.endswith(".pyc") or "site-packages" in name]
    in_wheel = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert len(in_wheel) == 4 and set(in_wheel) <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize("python", [*interpreters()])
def test_the_archive_records_a_job_on_another_python(python: str, built: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    archive = str(built / "leakscope.pyz")
    recorded = run(python, archive, "record", "--", sys.executable, "-c", JOB, cwd=tmp_path, **cache)
    assert recorded.returncode == 0, recorded.stderr
    again = run(python, archive, "record", "-o", "b.parquet", "--", "false", cwd=tmp_path, **cache)
    assert again.returncode == 1, "it exits as the command"
    (unpacked,) = (tmp_path / "cache" / "leakscope").glob("leakscope-pyz-*")
    assert re.fullmatch(r"leakscope-pyz-[0-9a-f]{16}", unpacked.name)
    assert unpacked.stat().st_mode & 0o777 == 0o700
    recording = open_recording(tmp_path / "run.parquet")
    assert len(recording.tables["takes"]), "the agent was inside"
    assert len(recording.tables["heap_graphs"]), "and its library"


@pytest.mark.slow
def test_an_archive_that_has_no_folder_of_its_own_says_so(built: Path, tmp_path: Path) -> None:
    code = "import os, sys, runpy; from leakscope import private; private.bases = lambda: ['/proc/none']; "
    code = f"import sys; sys.path.insert(0, {str(built / 'leakscope.pyz')!r}); " + code
    code += f"runpy.run_path({str(built / 'leakscope.pyz')!r}, run_name='__main__')"
    told = run(sys.executable, "-I", "-c", code, cwd=tmp_path)
    assert told.returncode == 1 and "set XDG_CACHE_HOME to a folder of your own" in told.stderr
    assert len(told.stderr.splitlines()) == 1 and os.listdir(tmp_path) == []


@pytest.mark.live
def test_building_it_leaves_the_environment_of_a_checkout_alone() -> None:
    """README.md has people install leakscope into .venv: another target must not put a development copy there."""
    told = run("make", "-n", "record-dist", cwd=ROOT)
    assert told.returncode == 0 and "light/build.py" in told.stdout
    assert ".venv" not in told.stdout
