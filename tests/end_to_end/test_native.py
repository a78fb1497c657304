"""``record --native`` on a real C library that forgets to free: the report names its function and the line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LIBRARY = """
#include <stdlib.h>
#include <string.h>
void *hoard(size_t size) { return memset(malloc(size), 1, size); }
"""
PROGRAM = """
import ctypes, sys, time

hoard = ctypes.CDLL(sys.argv[1]).hoard

def decode():
    for _ in range(20):
        hoard(5000)

last, longest_s = time.monotonic(), 0.0
until = last + 32
while last < until:
    decode()
    time.sleep(0.02)
    before, last = last, time.monotonic()
    longest_s = max(longest_s, last - before)
print(longest_s)
"""


def test_the_native_function_and_the_line_are_named(tmp_path):
    pytest.importorskip("memray")
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    source, library, program = tmp_path / "hoard.c", tmp_path / "libhoard.so", tmp_path / "decoder.py"
    source.write_text(LIBRARY)
    program.write_text(PROGRAM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-g", "-o", str(library), str(source)], check=True)
    run = tmp_path / "run.parquet"
    leakscope = [sys.executable, "-m", "leakscope"]
    command = [sys.executable, str(program), str(library)]
    recorded = [*leakscope, "record", "-q", "--native", "-o", str(run), "--", *command]
    done = subprocess.run(recorded, check=True, stdout=subprocess.PIPE)
    assert float(done.stdout) < 5.0, "the program stood still while memray watched"
    report = json.loads(
        subprocess.run([*leakscope, "report", str(run), "--format", "json"], check=True, stdout=subprocess.PIPE).stdout
    )
    (finding,) = [f for f in report["findings"] if f["kind"] == "native-growth"]
    assert (finding["subject"]["function"], finding["subject"]["line"]) == ("decode", 8)
    assert "hoard()" in finding["title"]
    assert "under memray" in " ".join(e["text"] for e in finding["evidence"])
