"""What the allocators say of themselves."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
import threading

import pytest

from leakscope.agent.native import allocators

pytestmark = pytest.mark.skipif(allocators.malloc_in_use_bytes() is None, reason="no mallinfo2 here")


KEEPS_LISTS = """
from leakscope.agent.native import allocators
before = allocators.Allocators().figures()
kept = [[number] for number in range(100_000)]  # 72 bytes each
after = allocators.Allocators().figures()
print(*(figures[name] for figures in (before, after) for name in NAMES))
"""


@pytest.mark.live
def test_arenas_of_python_and_of_malloc_are_counted():
    """In a process of its own: what other tests left here may be freed while lists are made."""
    names = ("pymalloc_in_use_bytes", "pymalloc_bytes", "malloc_arena_count")
    command = [sys.executable, "-c", f"NAMES = {names}\n{KEEPS_LISTS}"]
    told = subprocess.run(command, capture_output=True, check=True).stdout
    in_use, arenas, count, in_use_after, *_ = map(int, told.split())
    assert 0 < in_use <= arenas
    assert count >= 1
    assert in_use_after - in_use > 0.8 * 72 * 100_000


def test_costly_figures_are_read_seldom():
    now = [100.0]
    reader = allocators.Allocators(clock=lambda: now[0])
    assert reader.figures()["pymalloc_bytes"] is not None
    assert reader.figures()["pymalloc_bytes"] is None
    now[0] += 60.0
    assert reader.figures()["pymalloc_bytes"] is not None


def test_arenas_of_malloc_add_up_to_what_it_says_in_all():
    """Threads that free most of what they took leave it in arenas of their own."""

    def work():
        buffers = [bytearray(20_000) for _ in range(500)]
        kept.append(buffers[::10])

    kept: list[list[bytearray]] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = allocators.Allocators()
    count = reader.figures()["malloc_arena_count"]
    rows = reader.rows_of_arenas()
    _, free, mapped, system = allocators.malloc_figures()
    assert sum(row["arena_count"] for row in rows) == count >= 2
    assert sum(row["free_bytes"] for row in rows) == pytest.approx(free, abs=200_000)
    assert sum(row["system_bytes"] for row in rows) == pytest.approx(system - mapped, abs=200_000)
    assert all(row["top_bytes"] <= row["free_bytes"] <= row["system_bytes"] for row in rows)
    assert reader.rows_of_arenas() == [] and kept  # each reading is given once


def test_of_hundreds_of_arenas_those_with_least_are_one_row():
    arena = '<heap nr="%d"><sizes><size from="33" to="33" total="66" count="2"/></sizes><total type="fast" count="0" '
    arena += 'size="0"/><total type="rest" count="3" size="%d"/><system type="current" size="9999"/></heap>'
    rows = allocators.arenas_of("".join(arena % (i, 1000 + i) for i in range(300)).encode())
    assert len(rows) == allocators.MOST_ARENAS + 1
    assert sum(row["arena_count"] for row in rows) == 300 and rows[-1]["arena"] is None
    assert sum(row["free_bytes"] for row in rows) == sum(1000 + i for i in range(300))
    assert rows[0] == {"arena": 299, "arena_count": 1, "system_bytes": 9999, "free_bytes": 1299, "top_bytes": 1233,
                       "free_chunk_count": 3}  # fmt: skip


OTHER_MALLOC = """
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
static char *here, *end;
void *malloc(size_t size) {
    size = (size + 31) & ~(size_t)15;
    while (1) {
        char *block = __atomic_fetch_add(&here, size, __ATOMIC_SEQ_CST);
        if (block && block + size <= end) { *(size_t *)block = size - 16; return block + 16; }
        size_t room = 1ul << 30;
        char *more = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (more == MAP_FAILED) return 0;
        end = more + room;
        __atomic_store_n(&here, more, __ATOMIC_SEQ_CST);
    }
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    void *other = malloc(size);
    if (block && other) memcpy(other, block, ((size_t *)block)[-2] < size ? ((size_t *)block)[-2] : size);
    return other;
}
void *memalign(size_t by, size_t size) {
    char *block = malloc(size + by + 16), *at = (char *)(((size_t)block + 16 + by - 1) & ~(by - 1));
    ((size_t *)at)[-2] = size;
    return at;
}
void *aligned_alloc(size_t by, size_t size) { return memalign(by, size); }
int posix_memalign(void **to, size_t by, size_t size) { *to = memalign(by, size); return 0; }
"""
WHO_SERVES = "from leakscope.agent.native import allocators as a; print(a.SERVED_BY, *a.malloc_figures())"


def served_by(preloaded: str) -> list[str]:
    environment = {**os.environ, "LD_PRELOAD": preloaded}
    child = subprocess.run([sys.executable, "-c", WHO_SERVES], env=environment, capture_output=True, check=True)
    return child.stdout.decode().split()


@pytest.mark.live
def test_figures_of_a_malloc_that_does_not_serve_the_job_are_not_read(tmp_path):
    (tmp_path / "other.c").write_text(OTHER_MALLOC)
    library = tmp_path / "libother.so"
    command = ["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "other.c")]
    subprocess.run(command, check=True)
    assert served_by(str(library)) == ["libother.so", *["None"] * 4]
    assert served_by("")[0] == "None"


@pytest.mark.live
def test_jemalloc_says_what_it_has_in_use_and_keeps():
    library = ctypes.util.find_library("jemalloc")
    if library is None:
        pytest.skip("no jemalloc here")
    name, in_use, free, mapped, system = served_by(library)
    assert name == library and mapped == "None"
    assert 0 < int(in_use) <= int(in_use) + int(free) <= int(system)


@pytest.mark.live
def test_tcmalloc_says_what_it_has_in_use_and_keeps():
    library = ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")
    if library is None:
        pytest.skip("no tcmalloc here")
    name, in_use, free, mapped, system = served_by(library)
    assert name == library and mapped == "None"
    assert 0 < int(in_use) <= int(in_use) + int(free) <= int(system)


def test_arrow_says_what_its_pool_holds():
    pyarrow = pytest.importorskip("pyarrow")
    before = allocators.Allocators().figures()["native_cache_bytes"]
    kept = pyarrow.array(range(100_000))
    assert allocators.Allocators().figures()["native_cache_bytes"] - before >= kept.nbytes
