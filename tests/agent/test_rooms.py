"""Who may import whom inside the agent. Its rooms stand on floors, and an import leads down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import leakscope.agent
from leakscope.agent import probes

AGENT = Path(leakscope.agent.__file__).parent
# Room (a folder, or a file that stands alone) -> what it may import of the agent, from the ground up.
ROOMS = {
    "plain_json": set(),
    "masking": set(),
    "libraries": set(),  # what is known of libraries: the one table that is read afterwards, too
    "journal": {"plain_json", "masking"},
    "config": {"plain_json", "journal"},
    "interpreter": {"libraries", "journal"},  # the doors into our code, our thread, and how objects of the job are read
    "outbox": {"interpreter", "journal", "masking"},
    "native": {"interpreter", "journal"},  # malloc, the kernel, C code
    "life": {"interpreter", "native", "journal"},  # what happens to a process between two snapshots
    "graph": {"interpreter", "journal", "libraries", "native", "plain_json"},  # the whole heap, read in C
    "allocations": {"interpreter", "graph", "native"},  # what was allocated and is alive: samples, drawn in C
    "torch": {"interpreter"},
    "compilers": {"interpreter"},  # what compiles functions of the job, and how often
    "probes": {"interpreter", "compilers"},
    # When and how.
    "snapshots": {"interpreter", "journal", "outbox", "native", "life", "graph", "torch", "probes"},
    "refusal": {"config", "journal", "masking"},  # Pythons in which nothing else of this can be imported
    "main": {"config", "journal", "allocations", "interpreter", "outbox", "native", "life", "probes", "snapshots"},
    "__init__": {"native", "main", "refusal"},
    "sitecustomize": set(),
    "library": set(),  # loads all others
}


def room_of(file: Path) -> str:
    parts = file.relative_to(AGENT).parts
    return parts[0] if len(parts) > 1 else file.stem


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of each import of ours."""
    package = file.relative_to(AGENT).parent.parts
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = package[: len(package) - node.level + 1]
            path = [*above, *(node.module or "").split(".")] if node.module else [*above]
            yield from ((node.lineno, [*path, alias.name][0]) for alias in node.names)


def arrows(room: str) -> dict[str, list[str]]:
    """Room -> the places where ``room`` imports it."""
    found: dict[str, list[str]] = {}
    for file in sorted(AGENT.rglob("*.py")):
        if room_of(file) == room:
            for line, other in imported(file):
                found.setdefault(other, []).append(f"{file.relative_to(AGENT)}:{line}")
    found.pop(room, None)
    return found


def test_every_file_has_a_room() -> None:
    assert {room_of(file) for file in AGENT.rglob("*.py")} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    below = list(ROOMS)[: list(ROOMS).index(room)]
    assert ROOMS[room] <= set(below)  # so there is no circle
    assert {other: places for other, places in arrows(room).items() if other not in ROOMS[room]} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_arrow_is_drawn_that_is_not_there(room: str) -> None:
    assert ROOMS[room] == set(arrows(room))


def test_every_file_of_probes_is_found_and_in_order() -> None:
    names = [probe.__name__.rpartition(".")[2] for probe in probes.found()]
    files = {file.stem for file in (AGENT / "probes").glob("*.py")} - {"__init__"}
    assert set(names) == files and len(names) == len(files)
    for probe in probes.found():
        assert isinstance(probe.TABLE, str) and callable(probe.rows)
