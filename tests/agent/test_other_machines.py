"""What is made for machines and libraries that tests do not run on compiles without a warning, and reads code right.

For aarch64 with the cross compiler and the emulator of Debian (gcc-aarch64-linux-gnu, qemu-user-static).
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import leakscope.agent

pytestmark = pytest.mark.live
AGENT = Path(leakscope.agent.__file__).parent
READER, SAMPLER = AGENT / "graph" / "reader.c", AGENT / "allocations" / "sampler.c"
WORDS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
IS_AARCH64 = platform.machine() == "aarch64"
AARCH64 = "gcc" if IS_AARCH64 else "aarch64-linux-gnu-gcc"


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}")
    return found


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "source"),
    [(AARCH64, READER), ("musl-gcc", READER), (AARCH64, SAMPLER)],
    ids=["aarch64-reader", "musl-reader", "aarch64-sampler"],
)
def test_it_compiles_without_a_warning(name: str, source: Path, tmp_path: Path) -> None:
    subprocess.run(
        [compiler(name), *WORDS, "-fPIC", "-shared", "-o", str(tmp_path / "it.so"), str(source), "-lm"], check=True
    )


CALLS = """
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "graph/reader/layout.h"
#include "graph/reader/words.h"
#include "allocations/sampler/machine.h"

static uint32_t pages[3][1024] __attribute__((aligned(4096)));

static void call(uint32_t instruction)
{
    uint32_t code[64] = {0};
    uintptr_t target, word;
    code[31] = instruction;
    int kind = call_before((unsigned char *)&code[32], &target, &word);
    printf("%d %ld\\n", kind, kind == DIRECT ? (long)(target - (uintptr_t)&code[31]) : 0);
}

static void stub(int at, uint32_t first, uint32_t second, uint32_t third)
{
    uint32_t *to = &pages[1][at];
    memcpy(to, (uint32_t[]){first, second, third, 0xd61f0220}, 16);
    uintptr_t behind = behind_stub((unsigned char *)to), begin = (uintptr_t)pages;
    printf("%ld\\n", behind - begin < sizeof pages ? (long)(behind - begin) : (long)behind);
}

int main(void)
{
    (void)L, (void)pointer_at, (void)let_others_go_on, (void)page_bytes;
    call(0x94000004); call(0x97fffffe); call(0xd63f0060); call(0xd73f0909); call(0xd503201f); call(0x14000004);
    memcpy(&pages[2][6], (uint64_t[]){1234567}, 8);
    memcpy(&pages[0][2], (uint64_t[]){7654321}, 8);
    stub(0, 0xb0000010, 0xf9400e11, 0x91006210); /* the next page, 24 */
    stub(8, 0xf0fffff0, 0xf9400611, 0x91002210); /* the page before, 8 */
    stub(16, 0x90000010, 0x91010210, 0xd61f0200); /* too far: this page, 64 */
    stub(24, 0x90000011, 0x91010210, 0xd61f0200); /* of another register */
    pages[1][40] = 0xd503245f;
    memcpy(&pages[1][41], (uint32_t[]){0xb0000010, 0xf9400e11}, 8);
    printf("%ld\\n", (long)behind_stub((unsigned char *)&pages[1][40]));
    printf("%lx %lx\\n", (long)return_address(0x003fffff87654320), (long)return_address(0x0000aaaa87654320));
}
"""


def test_calls_and_stubs_of_aarch64_are_read(tmp_path: Path) -> None:
    emulator = [] if IS_AARCH64 else [shutil.which("qemu-aarch64-static") or compiler("qemu-aarch64")]
    source, program = tmp_path / "calls.c", tmp_path / "calls"
    source.write_text(CALLS)
    subprocess.run([compiler(AARCH64), "-static", "-I", str(AGENT), "-o", str(program), str(source)], check=True)
    done = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=True, timeout=60)
    calls, rest = done.stdout.splitlines()[:6], done.stdout.splitlines()[6:]
    assert calls == ["1 16", "1 -8", "3 0", "3 0", "0 0", "0 0"]
    assert rest == ["1234567", "7654321", str(4096 + 64), "0", "1234567", "ffff87654320 aaaa87654320"]
