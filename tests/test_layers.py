"""Who may import whom: the rooms of the package, kept apart by reading every import in the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("sources")  # one worker reads them, for all rules

PACKAGE = Path(__file__).parents[1] / "leakscope"
FOUNDATION = {
    "schema",
    "findings",
    "confidence",
    "kinds",
    "faults",
    "errors",
    "outside",
    "units",
    "rising",
    "version",
    "addresses",
    "isolation",
    "locks",
    "signals",
}
ABOVE = {"__init__", "__main__", "cli", "light", "api", "jupyter", "deep"}  # they may import every room

# Room -> rooms of ours it may import.
ROOMS = {
    "agent": set(),
    "recorder": FOUNDATION | {"agent", "options", "alerts", "endpoints", "private", "storage"},
    "oom": FOUNDATION,  # reads logs, with or without a recording
    "alerts": {"errors", "units"},  # the rules a user writes
    "doctor": FOUNDATION | {"agent", "recorder"},
    "browsing": FOUNDATION | {"facts", "storage", "words"},
    "replaying": FOUNDATION | {"facts", "storage", "words"},
    "watching": FOUNDATION | {"words", "agent", "facts", "recorder", "storage"},
    "metering": FOUNDATION | {"agent", "endpoints", "recorder", "storage", "watching"},
    "endpoints": {"errors"},  # where metrics go, as a user writes it
    "private": set(),  # folders that only their user can change
    "requesting": FOUNDATION | {"agent", "recorder", "storage"},
    "storage": FOUNDATION | {"agent", "torch_snapshots"},
    # Data flows one way: recording, facts, evidence, diagnoses, report.
    "facts": FOUNDATION | {"agent", "storage", "oom"},
    "evidence": FOUNDATION | {"agent", "storage", "facts"},
    "analyzers": FOUNDATION | {"agent", "storage", "oom", "facts", "evidence"},
    "reporting": FOUNDATION | {"storage", "facts", "evidence", "analyzers"},
    "settings": {"errors", "units"},  # of a project, in its pyproject.toml
    "ignoring": FOUNDATION | {"settings"},
    "answering": FOUNDATION | {"storage", "analyzers", "ignoring", "reporting", "words"},
    "exporting": FOUNDATION | {"words", "storage", "facts", "reporting"},
    "pushing": FOUNDATION | {"words", "storage", "facts", "ignoring", "recorder", "renderers", "reporting", "watching"},
    "beside": FOUNDATION | {"agent", "recorder"},
    "demo": FOUNDATION | {"api", "renderers", "reporting", "storage", "viewing", "words"},
    "viewing": FOUNDATION | {"storage", "ignoring", "renderers", "reporting", "words"},
    "mcp_server": FOUNDATION
    | {"browsing", "comparing", "ignoring", "renderers", "reporting", "settings", "storage", "words"},
    "comparing": FOUNDATION | {"storage", "facts", "reporting", "words", "pages"},
    "fixing": FOUNDATION | {"storage", "facts", "evidence", "reporting", "comparing", "words"},
    "engines": {"errors"},  # who runs a function over many recordings
    "jobs": FOUNDATION
    | {"storage", "facts", "reporting", "comparing", "engines", "ignoring", "pages", "renderers", "words"},
    "checking": FOUNDATION
    | {"storage", "facts", "analyzers", "reporting", "comparing", "ignoring", "settings", "words"},
    # Many recordings: their footers, samples by SQL, whole reports by engines.
    "fleet": FOUNDATION | {"storage", "facts", "words", "pages", "reporting", "renderers", "engines", "jobs"},
    "own_heap": FOUNDATION | {"agent", "storage"},  # the heap of the process itself, in a notebook or a test
    "pytest_plugin": FOUNDATION
    | {"agent", "storage", "facts", "own_heap", "words"},  # measures inside the tests' own process
    "importing": FOUNDATION | {"agent", "oom", "storage", "torch_snapshots"},  # files of other tools
    "redacting": FOUNDATION | {"storage", "facts"},
    "words": {"findings", "signals", "units"},
    "pages": {"errors", "findings", "units", "version", "words"},
    "renderers": {"findings", "kinds", "units", "version", "errors", "words", "pages"},
    "integrations": FOUNDATION,
    "options": {"addresses", "errors", "units", "alerts", "endpoints"},
    "uploading": FOUNDATION | {"agent", "recorder", "reporting", "storage"},
    "skills": set(),  # a text
    "torch_snapshots": FOUNDATION,
}
# The rooms of facts/, from the ground up: each imports only rooms below its own floor.
FLOORS = (
    {"tables", "imported", "code", "calls", "remembered"},
    {"series", "heap", "subject", "gpu"},
    {"growth"},
    {"where", "weights"},
    {"accounts", "processes", "retained"},
    {"endings"},
    {"case"},
)
# Room -> third-party packages it may import. One that is not listed here imports the standard library only.
PACKAGES = {
    "findings": {"pandas"},  # a table of them, for who asks for one
    "agent": {"sitecustomize"},  # the job's own, which ours stands in front of
    "storage": {"pyarrow", "pandas", "numpy", "fsspec"},
    "facts": {"numpy"},
    "evidence": {"numpy"},
    "analyzers": {"numpy"},
    "reporting": {"numpy"},
    "browsing": {"numpy", "pandas"},
    "comparing": {"numpy"},
    "mcp_server": {"anyio", "duckdb", "jsonschema", "mcp", "mcp_types", "pandas"},
    "exporting": {"numpy", "pandas"},
    "pushing": {"wandb", "mlflow", "tensorboard", "comet_ml"},
    "jobs": {"numpy"},
    "engines": {"pandas", "distributed", "ray", "pyspark"},
    "pytest_plugin": {"pytest"},
    "fleet": {"duckdb", "fsspec", "numpy", "pandas", "rich"},
    "watching": {"numpy", "rich", "textual"},
    "renderers": {"rich"},
    "replaying": {"numpy", "pandas"},
    "pages": {"jinja2", "markupsafe", "resvg_py"},
    "importing": {"numpy", "memray", "tensorboard", "wandb"},  # heap dumps; extras, each in a process of its own
    "metering": {"opentelemetry"},
    "integrations": {"torch", "transformers", "lightning", "pytest", "celery"},
}

# What no import statement shows, and why it is right: (file, what it reaches) by a module's name in a string.
BY_NAME = {
    ("agent/main.py", "integrations"): "the package that is installed where the training runs, not this copy",
}
# Files that climb out of their own folder by path.
BY_PATH = {
    "agent/interpreter/around.py": "loads the library that is the agent's entry, too",
    "agent/interpreter/names.py": "tells its own frames, and those of what starts it, from the user's",
    "recorder/finalizing.py": "starts an interpreter that has to find the package",
    "recorder/preflight.py": "asks each tracker's file which package it needs: to import the room takes a second",
    "recorder/output.py": "starts an interpreter that has to find the package",
    "recorder/staging.py": "copies the agent to where the job loads it",
}
_NAMED = re.compile(r"""["']leakscope\.(\w+)""")
_RELATIVE = re.compile(r"""(?:import_module|__import__|find_spec)\(\s*f?["']\.\.+(\w+)""")
_CLIMBS = re.compile(r"""\bparents\[|\.parent\.parent\b|dirname\((?:os\.path\.)?dirname\(|["']\.\.["'/]""")


def sources(room: str) -> list[Path]:
    """Files of a room, which is a folder or a single file of the package."""
    return sorted([*PACKAGE.glob(f"{room}.py"), *PACKAGE.glob(f"{room}/**/*.py")])


def imports(path: Path, *, typing_too: bool = False) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of each import; what stands under TYPE_CHECKING costs nothing at run time."""
    yield from ((line, module) for line, module, is_typing in all_imports(path) if typing_too or not is_typing)


@lru_cache(None)  # of each file six tests ask
def all_imports(path: Path) -> list[tuple[int, str, bool]]:
    """The same, each with whether it stands under TYPE_CHECKING."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    found = []
    for node, is_typing in _statements(ast.parse(path.read_text(), str(path)), False):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            modules = [f"{base}.{alias.name}" for alias in node.names]
        found += [(node.lineno, module, is_typing) for module in modules]
    return found


def _statements(block: ast.AST, is_typing: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Each in it, with whether it stands under TYPE_CHECKING. Nine of ten nodes are expressions, and import nothing."""
    is_typing = is_typing or _is_type_checking(block)
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(block, name, ()):
            if isinstance(node, ast.stmt):
                yield node, is_typing
            yield from _statements(node, is_typing)


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


def test_a_room_imports_only_the_rooms_below_it():
    wrong = [
        complaint(path, line, module)
        for room in sorted(ROOMS)
        for path in sources(room)
        for line, module in imports(path, typing_too=True)
        if inside(module) is not None and inside(module) not in ROOMS[room] | {room}
    ]
    assert not wrong


def test_a_room_imports_only_its_packages():
    wrong = [
        complaint(path, line, module)
        for room in sorted({*ROOMS, *FOUNDATION})
        for path in sources(room)
        for line, module in imports(path)
        if inside(module) is None and not is_standard(module) and module.split(".")[0] not in PACKAGES.get(room, set())
    ]
    assert not wrong


def test_the_foundation_rests_on_itself():
    wrong = [
        complaint(path, line, module)
        for room in sorted(FOUNDATION)
        for path in sources(room)
        for line, module in imports(path)
        if inside(module) not in {None, *FOUNDATION}
    ]
    assert not wrong


_OF_STORAGE = {
    f"leakscope.storage.{name}"
    for name in ("Recording", "derived", "thinned", "Rows", "Row", "Column", "is_null", "joined")
}


def test_judging_knows_the_recording_and_no_more_of_storage():
    wrong = [
        complaint(path, line, module)
        for room in ("facts", "evidence", "analyzers", "reporting")
        for path in sources(room)
        for line, module in imports(path, typing_too=True)
        if inside(module) == "storage" and module not in _OF_STORAGE
    ]
    assert not wrong


def test_of_the_agent_only_the_table_of_libraries_is_asked_afterwards():
    wrong = [
        complaint(path, line, module)
        for room in ("facts", "evidence", "analyzers")
        for path in sources(room)
        for line, module in imports(path, typing_too=True)
        if inside(module) == "agent" and not module.startswith("leakscope.agent.libraries")
    ]
    assert not wrong


def test_facts_stand_on_floors():
    floor_of = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    wrong = []
    for path in sources("facts"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[1]
        for line, module in imports(path, typing_too=True):
            parts = module.split(".")
            if parts[:2] == ["leakscope", "facts"] and parts[2] != own and floor_of[parts[2]] >= floor_of[own]:
                wrong.append(complaint(path, line, module))
    assert not wrong


def test_a_diagnosis_is_tied_to_no_other():
    wrong = [
        complaint(path, line, module)
        for path in sources("analyzers")
        if path.stem != "__init__"
        for line, module in imports(path, typing_too=True)
        if inside(module) == "analyzers"
    ]
    assert not wrong


def climbs(text: str) -> bool:
    """Whether a source leaves its own folder by a path: ``Path(__file__).parents[1]`` and its like."""
    return "__file__" in text and bool(_CLIMBS.search(text))


def test_no_room_reaches_another_by_name_or_path():
    """Searched as text: an import by a string, and a path to another room's files, are in no import statement."""
    wrong = []
    for room in sorted({*ROOMS, *FOUNDATION}):
        allowed = ROOMS.get(room, FOUNDATION) | {room}
        for path in sources(room):
            text, name = path.read_text(), path.relative_to(PACKAGE).as_posix()
            reached = {*_NAMED.findall(text), *_RELATIVE.findall(text)} & {*ROOMS, *FOUNDATION, *ABOVE} - allowed
            wrong += [f"{name} names {other}" for other in sorted(reached) if (name, other) not in BY_NAME]
            wrong += [f"{name} climbs to other rooms' files"] if climbs(text) and name not in BY_PATH else []
    assert not wrong


def test_reaching_by_name_or_path_is_still_needed_where_it_is_allowed():
    for name, room in BY_NAME:
        assert room in _NAMED.findall((PACKAGE / name).read_text()), name
    for name in BY_PATH:
        assert climbs((PACKAGE / name).read_text()), name


@pytest.mark.parametrize(
    "text",
    [
        'Path(__file__).parents[1] / "analyzers"',
        "Path(__file__).parent.parent",
        "os.path.dirname(os.path.dirname(__file__))",
        'os.path.join(os.path.dirname(__file__), "..", "analyzers")',
    ],
)
def test_a_path_out_of_the_folder_is_seen(text):
    assert climbs(text)


def test_no_file_imports_what_another_folder_keeps_to_itself():
    wrong = [
        complaint(path, line, module)
        for path in PACKAGE.rglob("*.py")
        for line, module in imports(path, typing_too=True)
        if inside(module) is not None and _is_private_elsewhere(path, module)
    ]
    assert not wrong


def _is_private_elsewhere(path: Path, module: str) -> bool:
    """Whether ``module`` is, or comes out of, a file with a leading underscore in a folder that is not ``path``'s."""
    parts = module.split(".")
    private = [i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
    return bool(private) and PACKAGE.parent.joinpath(*parts[: private[0]]) not in path.parents


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


def test_the_picture_of_the_house_is_of_this_house():
    from tests import architecture  # which reads imports by the functions above

    text = architecture.PAGE.read_text(encoding="utf-8")
    assert architecture.drawn(text) == text, "ARCHITECTURE.md is behind the imports: run `make docs`"


def test_no_files_stand_on_each_other_in_a_circle():
    """Nor for the sake of a type: what two need belongs into a third. Imports inside functions are asked for later."""
    files = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    inside_functions = {path: _lines_of_functions(path) for path in files.values()}
    stands_on = {
        name: {
            file
            for line, module, _ in all_imports(path)
            for file in ({module, module.rpartition(".")[0]} & files.keys() - {name})
            if line not in inside_functions[path] and (file == module or module not in files)
        }
        for name, path in files.items()
    }
    TopologicalSorter(stands_on).prepare()  # **Errors** CycleError, with the circle


def _lines_of_functions(path: Path) -> set[int]:
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return {line for node in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}
