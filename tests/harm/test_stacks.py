"""Memory is asked for on stacks that are not the thread's own, and by threads whose state is gone: neither is read.

The programs begin to sample, much more finely than a recording does, and have to come to their end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..agent.sampled import FOLDER, has_sampler, said
from ..agent.staging import rows, run, stage
from .interpreters import Interpreter, interpreters

SOURCES = Path(__file__).parent / "stacks"
BOOST = "boost/context/fiber.hpp"

pytestmark = [pytest.mark.live, has_sampler]

HEAD = """\
import ctypes
free, held = ctypes.CDLL({library!r}), ctypes.PyDLL({library!r})
size, long = ctypes.c_size_t, ctypes.c_uint64
for library in free, held:
    for name in "by_hand", "by_contexts", "in_fibers":
        if hasattr(library, name):
            getattr(library, name).argtypes = ctypes.c_int, size, ctypes.c_int
    if hasattr(library, "by_hand"):
        library.in_layouts.argtypes = library.in_layouts_of_threads.argtypes = long, ctypes.c_int
        library.on_small_stacks.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int, size
        library.depth_of_malloc.argtypes = ctypes.c_int, size
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("stacks"), "gcc", "stacks.c", "-lpthread", "-ldl")


def built(folder: Path, compiler: str, source: str, *options: str) -> Path:
    """A library, by gcc or g++."""
    if shutil.which(compiler) is None:
        pytest.skip("no compiler")
    library = folder / f"lib{Path(source).stem}.so"
    words = [compiler, "-O2", "-fno-builtin", "-shared", "-fPIC", "-o", str(library), str(SOURCES / source), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if BOOST in done.stderr:
        pytest.skip("Boost.Context is not installed")
    assert done.returncode == 0, done.stderr
    return library


def ran(library: Path, text: str, folder: Path, interpreter: Interpreter | None = None, **options: Any) -> Any:
    return said(text, folder, interpreter, first=HEAD.format(library=str(library)), **{"every": 2048.0, **options})


# Without the GIL and with it; the main thread's own stack grows in another way than those of the others.
ON_FOREIGN = """
def ask():
    [bytearray(9000) for _ in range(9)]  # with the GIL: this thread's state is known from now on
    for library in free, held:
        library.by_hand(200, 3000, 0)
        library.by_contexts(200, 3000, 0)
in_thread(ask)
say()
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_no_coroutine_s_stack_is_read(interpreter: Interpreter, library: Path, tmp_path: Path) -> None:
    found = ran(library, ON_FOREIGN, tmp_path, interpreter)
    assert found["figures"]["drawn"] > 200
    assert found["figures"]["elsewhere"] > 0
    assert found["figures"]["unknown"] == 0


def test_nor_is_one_of_the_main_thread_s(library: Path, tmp_path: Path) -> None:
    ran(library, "free.by_hand(200, 3000, 0)\nheld.by_contexts(200, 3000, 0)\nsay()\n", tmp_path, on_main=True)


KEPT = """
def native(library):
    library.by_hand(300, 9000, 1)
def python():
    kept.extend(bytearray(9000) for _ in range(300))
kept = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def called(_):
    python()
def ask():
    [bytearray(9000) for _ in range(9)]
    native(free)
    native(held)
    free.call_on_stack(called)
    held.call_on_stack(called)
in_thread(ask)
say(alive=told())
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_what_is_asked_for_on_one_is_told_with_its_python_function(
    interpreter: Interpreter, library: Path, tmp_path: Path
) -> None:
    alive = {key.split(":")[0]: size for key, size in ran(library, KEPT, tmp_path, interpreter)["alive"].items()}
    assert alive["native"] == pytest.approx(600 * 9000, rel=0.2)
    assert alive.get("python", 0) + alive.get("<genexpr>", 0) == pytest.approx(600 * 9000, rel=0.2)


IN_FIBERS = """
def keep(library):
    library.in_fibers(100, 20_000, 1)
def ask():
    [bytearray(9000) for _ in range(9)]
    for library in free, held:
        keep(library)
        library.in_fibers(100, 20_000, 0)
in_thread(ask)
say(alive=told())
"""


@pytest.mark.parametrize("on_main", [True, False], ids=["main", "thread"])
def test_fibers_of_boost(on_main: bool, tmp_path: Path) -> None:
    library = built(tmp_path, "g++", "fibers.cpp", "-lboost_context")
    text = IN_FIBERS.replace("in_thread(ask)", "ask()") if on_main else IN_FIBERS
    found = ran(library, text, tmp_path, on_main=on_main)
    assert found["alive"]["keep:4"] == pytest.approx(200 * 20_000, rel=0.2)


GREEN = """
import greenlet
kept = []
def keep():
    for _ in range(100):
        kept.append(bytearray(9000))
        greenlet.getcurrent().parent.switch()
def ask():
    green = [greenlet.greenlet(keep) for _ in range(10)]
    for _ in range(101):
        for one in green:
            one.switch()
in_thread(ask)
say(alive=told())
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_greenlets(interpreter: Interpreter, library: Path, tmp_path: Path) -> None:
    if "greenlet" not in interpreter.libraries:
        pytest.skip("no greenlet")
    found = ran(library, GREEN, tmp_path, interpreter)
    assert found["alive"]["keep:7"] == pytest.approx(1000 * 9000, rel=0.2)
    assert found["figures"]["elsewhere"] == 0  # they run on the thread's own stack


LAYOUTS = """
def ask():
    free.in_layouts({seed}, {count})
    held.in_layouts({seed} + 1, {count})
in_thread(ask)
free.in_layouts_of_threads({seed}, {count} // 8)
say()
"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
@pytest.mark.parametrize("on_main", [False, True], ids=["thread", "main"])
def test_any_layout_of_stacks(library: Path, tmp_path: Path, seed: int, on_main: bool) -> None:
    text = LAYOUTS if not on_main else LAYOUTS.replace("in_thread(ask)", "ask()")
    found = ran(library, text.format(seed=1000 * seed, count=400), tmp_path, on_main=on_main)
    assert found["figures"]["drawn"] > 1000


GONE = """
def ask():
    held.delete_states({count}, {asks}, {is_race})
in_thread(ask)
say()
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
@pytest.mark.parametrize("is_race", [0, 1], ids=["before", "meanwhile"])
def test_no_state_is_read_that_another_thread_deletes(
    interpreter: Interpreter, is_race: int, library: Path, tmp_path: Path
) -> None:
    found = ran(library, GONE.format(count=100, asks=300, is_race=is_race), tmp_path, interpreter, every=1024.0)
    assert found["figures"]["drawn"] > 5000
    assert is_race or found["figures"]["unknown"] > 1000


@pytest.mark.parametrize("hooks", ["debug", "malloc", "malloc_debug"])
def test_nor_with_other_allocators_of_python_s(hooks: str, library: Path, tmp_path: Path) -> None:
    if "debug" in hooks and sys.version_info >= (3, 12):
        pytest.skip("there the debug hooks end a program that deletes a state another thread uses, bare too")
    found = ran(library, GONE.format(count=20, asks=300, is_race=0), tmp_path, every=1024.0, PYTHONMALLOC=hooks)
    assert found["figures"]["unknown"] > 1000
    kept = tmp_path / "kept"
    kept.mkdir()
    alive = ran(library, KEPT, kept, every=1024.0, PYTHONMALLOC=hooks)["alive"]
    assert any(key.startswith("native") for key in alive)


SMALL = """
free.on_small_stacks(20, 16384, {use}, 3000)
say()
"""


def test_small_stacks_hold_as_much_as_without(library: Path, tmp_path: Path) -> None:
    """As deep as it goes bare, to 256 bytes."""

    def is_enough(use: int, is_sampled: bool) -> bool:
        folder = tmp_path / f"{use}-{is_sampled}"
        folder.mkdir()
        try:
            ran(library, SMALL.format(use=use), folder, every=2048.0 if is_sampled else 1e18)
        except AssertionError:
            return False
        return True

    deepest = 16384
    while not is_enough(deepest, False):
        deepest -= 256
    assert deepest > 4096
    assert is_enough(deepest, True)


DEPTH = """
depths = []
def ask():
    for size in 24, 3000, 200_000:
        depths.append(max(free.depth_of_malloc(200, size), held.depth_of_malloc(200, size)))
in_thread(ask)
say(depths=depths)
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_a_sample_takes_half_a_kilobyte_of_the_stack(interpreter: Interpreter, library: Path, tmp_path: Path) -> None:
    found = ran(library, DEPTH, tmp_path, interpreter, every=64.0)
    assert found["figures"]["drawn"] > 600
    assert max(found["depths"]) <= 512


def test_it_keeps_to_its_own_memory(tmp_path: Path) -> None:
    """With AddressSanitizer: threads, coroutines, forks, and the thread that reads."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    program = tmp_path / "alone"
    options = ["-g", "-O2", "-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    words = [compiler, *options, "-w", "-I", str(FOLDER), str(SOURCES / "sampler_alone.c"), "-o", str(program)]
    done = subprocess.run([*words, "-lm", "-lpthread"], capture_output=True, text=True, check=False)
    if "sanitize" in done.stderr or "asan" in done.stderr:
        pytest.skip("no AddressSanitizer")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [program], capture_output=True, text=True, timeout=120, check=False, env={"ASAN_OPTIONS": "detect_leaks=0"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    drawn, alive = (int(part.split()[0]) for part in done.stdout.split(",")[:2])
    assert drawn > 3000
    assert alive == 0
    assert "own stack known" in done.stdout


def test_a_main_thread_that_asks_for_memory_without_the_gil_alone_is_told(tmp_path: Path) -> None:
    """ctypes gives it back before it calls, and nothing that the thread does with it is ever sampled."""
    text = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
def parse():
    libc.malloc(20_000)
end = time.monotonic() + 5
while time.monotonic() < end:
    parse()
    time.sleep(0.005)
"""
    journal = stage(tmp_path, flush_s=0.5)
    script = tmp_path / "program.py"
    script.write_text(text)
    done = run(journal, str(script))
    assert done.returncode == 0, done.stderr
    told = rows(journal)
    assert "parse" in {row["function"] for row in told["allocation_stacks"]}
    assert not [row for row in told["agent_notes"] if row["note"] == "fewer-allocation-samples"]


def test_a_recording_says_what_samples_could_not_tell(library: Path, tmp_path: Path) -> None:
    text = f"""
import ctypes, time
library = ctypes.CDLL({str(library)!r})
library.by_hand.argtypes = ctypes.c_int, ctypes.c_size_t, ctypes.c_int
end = time.monotonic() + 4
while time.monotonic() < end:
    library.by_hand(20, 1 << 20, 0)
    time.sleep(0.01)
"""
    journal = stage(tmp_path, flush_s=0.5)
    script = tmp_path / "program.py"
    script.write_text(text)
    done = run(journal, str(script))
    assert done.returncode == 0, done.stderr
    told = {row["text"] for row in rows(journal)["agent_notes"] if row["note"] == "fewer-allocation-samples"}
    assert any("coroutine" in text for text in told)
