"""Half-made and hostile objects of every type: whoever looks at them ends nothing, and calls none of their methods.

Each program makes objects of one family in odd states, chosen by a seed, and has a snapshot come at the worst moments:
there and then, between two bytecodes as usual, and on the agent's thread while it sleeps. A profile function of C
(``objects/watch.c``) tells of every function of Python that begins meanwhile and is not ours. What the program prints
must be what it prints bare. The reader of the heap is given the same programs by itself, built so that each access to
memory that is freed or nobody's ends the program (``objects/again.py``). ``LEAKSCOPE_OBJECTS=SEEDS`` tries so many
seeds of each, and with every way in which memory is freed; ``LEAKSCOPE_PYTHONS`` says with which interpreters.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from leakscope.agent.graph.heap_graph import LIBRARY

from ..agent.staging import rows, stage
from .interpreters import Interpreter, interpreters

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "objects"
FAMILIES = sorted(file.stem for file in PROGRAMS.glob("*.py") if file.stem not in ("look", "again", "types_of_c"))
_ASKED = os.environ.get("LEAKSCOPE_OBJECTS")
SEEDS = range(int(_ASKED or "1"))
STRESS_S = "0.05,traced"  # watched by a profiler in C
LIMIT_S = 900.0  # of one program: among many others it gets a tenth of a processor, and only what hangs takes so long
LEAST_LOOKS = (1, 1, 1)  # there and then, between two bytecodes, on the agent's thread
READER = Path(__file__).parents[2] / "leakscope" / "agent" / "graph" / "reader.c"
# What is freed is kept from being used again, so that whoever looks at it is found out; or it is used again at once. Or
# small objects lie in Python's own pools, as usual: what follows one is another, or what is left of it.
REUSED = "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
FREED = {
    "kept": {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "quarantine_size_mb=256"},
    "reused": {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": REUSED},
    "pooled": {"ASAN_OPTIONS": REUSED},
}
WAYS = list(FREED) if _ASKED else ["kept"]


class Ended(NamedTuple):
    """All that a user could compare."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("watch") / "watch.so"
    source = str(PROGRAMS / "watch.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"], check=True)
    return library


@pytest.fixture(params=interpreters(), ids=str)
def python(request: pytest.FixtureRequest) -> Interpreter:
    chosen: Interpreter = request.param
    return chosen


@pytest.mark.parametrize("reads", ["graph", "names"])  # names: where the heap cannot be read
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_look_changes_nothing(
    family: str, seed: int, reads: str, python: Interpreter, watch: Path, tmp_path: Path
) -> None:
    options = ["-X", "dev"] if seed % 2 else []
    words = [python.path, *options, str(PROGRAMS / f"{family}.py")]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LEAKSCOPE_", "PYTHON"))}
    env.update(OBJECTS_SEED=str(seed), OBJECTS_TYPES=str(tmp_path / "types"), PYTHONDONTWRITEBYTECODE="1")
    bare = ended(words, env)
    assert bare.status == 0, bare.stderr
    journal = stage(tmp_path)
    if reads == "names":
        (journal / "agent" / "graph" / LIBRARY).unlink()
    looked = tmp_path / "looked"
    env.update(
        PYTHONPATH=str(journal / "boot"),
        LEAKSCOPE_STRESS=STRESS_S,
        OBJECTS_WATCH=str(watch),
        OBJECTS_LOOKED=str(looked),
    )
    with_it = ended(words, env)
    assert with_it == bare
    counts = tuple(map(int, looked.read_text().split()))
    assert all(map(int.__ge__, counts, LEAST_LOOKS)), counts
    found = rows(journal)
    assert not [row["text"] for row in found.get("agent_notes", []) if row["note"] == "failed"]
    assert any(row["is_sampled"] for row in found["heap_graphs"]) == (reads == "names"), "Python reads a part"


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(the reader with every access to memory checked, what has to be loaded before Python)"""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    preload = []
    for name in ("libasan.so", "libubsan.so"):
        words = [compiler, f"-print-file-name={name}"]
        path = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        if not os.path.isabs(path):
            pytest.skip(f"gcc has no {name}")
        preload.append(path)
    library = tmp_path_factory.mktemp("sanitized") / "reader.so"
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    words = [
        compiler,
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
    ]
    subprocess.run([*words, *checks, str(READER), "-o", str(library)], check=True)
    return library, ":".join(preload)


@pytest.mark.parametrize("freed", WAYS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_reader_looks_at_nothing_that_is_not_there(
    family: str, seed: int, freed: str, python: Interpreter, sanitized: tuple[Path, str], tmp_path: Path
) -> None:
    library, preload = sanitized
    words = [python.path, str(PROGRAMS / f"{family}.py")]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LEAKSCOPE_", "PYTHON"))}
    env.update(OBJECTS_SEED=str(seed), OBJECTS_TYPES=str(tmp_path / "types"), PYTHONDONTWRITEBYTECODE="1")
    bare = ended(words, env)
    assert bare.status == 0, bare.stderr
    journal = stage(tmp_path)
    shutil.copy(library, journal / "agent" / "graph" / LIBRARY)
    looked = tmp_path / "looked"
    env.update(FREED[freed])
    env.update(
        LD_PRELOAD=preload,
        ASAN_OPTIONS=f"detect_leaks=0:allocator_may_return_null=1:{env['ASAN_OPTIONS']}",
        UBSAN_OPTIONS="print_stacktrace=1",
        OBJECTS_READER=str(journal),
        OBJECTS_LOOKED=str(looked),
    )
    watched = ended(words, env)
    assert watched.status == 0, watched.stderr
    assert watched.stdout == bare.stdout
    taken, labelled, _ = map(int, looked.read_text().split())
    assert taken >= labelled >= 1, (taken, labelled)


def ended(words: list[str], env: dict[str, str]) -> Ended:
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT_S, errors="backslashreplace")
    return Ended(done.returncode, done.stdout, done.stderr)
