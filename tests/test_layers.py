"""Who may import whom: the rooms of the package, kept apart by reading every import in the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "leakscope"
FOUNDATION = {"schema", "findings", "faults", "errors", "units", "version"}
ABOVE = {"__init__", "__main__", "cli", "jupyter", "deep"}  # they may import every room

# Room -> rooms of ours it may import.
ROOMS = {
    "agent": set(),
    "recorder": FOUNDATION | {"agent", "options", "alerts"},
    "oom": FOUNDATION,  # reads logs, with or without a recording
    "alerts": {"errors", "units"},  # the rules a user writes
    "doctor": FOUNDATION | {"recorder"},
    "watching": FOUNDATION | {"agent", "recorder", "storage"},
    "storage": FOUNDATION | {"agent"},
    "importers": FOUNDATION | {"storage"},
    "analyzers": FOUNDATION | {"storage", "oom"},
    "comparing": FOUNDATION | {"storage", "analyzers", "renderers"},
    "checking": FOUNDATION | {"storage", "analyzers", "comparing"},
    "pytest_plugin": FOUNDATION | {"agent", "storage", "analyzers"},  # measures inside the tests' own process
    "redacting": FOUNDATION | {"storage", "analyzers"},
    "renderers": {"findings", "units", "version", "errors"},
    "integrations": FOUNDATION,
    "plots": FOUNDATION | {"storage"},
    "options": {"errors", "units", "alerts"},
}
# Room -> third-party packages it may import. One that is not listed here imports the standard library only.
PACKAGES = {
    # sitecustomize: the job's own, which ours stands in front of. memray: only for who asks for it by --native.
    "agent": {"sitecustomize", "memray"},
    "recorder": {"memray"},  # in the script that the job's interpreter runs
    "storage": {"pyarrow", "pandas", "numpy"},
    "importers": {"pyarrow", "pandas", "numpy"},
    "analyzers": {"numpy", "pandas"},
    "comparing": {"numpy"},
    "pytest_plugin": {"pytest"},
    "watching": {"rich"},
    "renderers": {"rich", "matplotlib", "jinja2", "markupsafe"},
    "plots": {"matplotlib", "numpy", "pandas"},
    "integrations": {"torch", "transformers", "lightning", "pytest"},
}


def sources(room: str) -> list[Path]:
    """Files of a room, which is a folder or a single file of the package."""
    return sorted([*PACKAGE.glob(f"{room}.py"), *PACKAGE.glob(f"{room}/**/*.py")])


def imports(path: Path, *, typing_too: bool = False) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of each import; what stands under TYPE_CHECKING costs nothing at run time."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    tree = ast.parse(path.read_text(), str(path))
    only_typing = {id(n) for block in ast.walk(tree) if _is_type_checking(block) for n in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in only_typing and not typing_too:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def is_standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


def inside(module: str) -> str | None:
    """Room of ours a module belongs to; None for others' modules, "" for the package itself."""
    parts = module.split(".")
    if parts[0] != PACKAGE.name:
        return None
    return parts[1] if len(parts) > 1 else ""


def complaint(path: Path, line: int, module: str) -> str:
    return f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}"


def test_every_file_has_a_room():
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert names <= {*ROOMS, *FOUNDATION, *ABOVE}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_the_rooms_below_it(room):
    allowed = ROOMS[room] | {room}
    wrong = [
        complaint(path, line, module)
        for path in sources(room)
        for line, module in imports(path, typing_too=True)
        if inside(module) is not None and inside(module) not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("room", sorted({*ROOMS, *FOUNDATION}))
def test_a_room_imports_only_its_packages(room):
    allowed = PACKAGES.get(room, set())
    wrong = [
        complaint(path, line, module)
        for path in sources(room)
        for line, module in imports(path)
        if inside(module) is None and not is_standard(module) and module.split(".")[0] not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("room", sorted(FOUNDATION))
def test_the_foundation_rests_on_itself(room):
    wrong = [
        complaint(path, line, module)
        for path in sources(room)
        for line, module in imports(path)
        if inside(module) not in {None, *FOUNDATION}
    ]
    assert not wrong


def test_analyzers_know_the_recording_and_no_more_of_storage():
    wrong = [
        complaint(path, line, module)
        for path in sources("analyzers")
        for line, module in imports(path, typing_too=True)
        if inside(module) == "storage" and module != "leakscope.storage.Recording"
    ]
    assert not wrong


def test_the_agent_parses_on_the_oldest_python_it_serves():
    for path in sources("agent"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


@pytest.mark.live
@pytest.mark.parametrize("module", ["leakscope", "leakscope.recorder", "leakscope.agent"])
def test_what_runs_beside_a_job_loads_no_package(module):
    """By running it: an import inside a function that is called at import time would escape the other tests."""
    script = f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in loaded if inside(name) is None and not is_standard(name)}
