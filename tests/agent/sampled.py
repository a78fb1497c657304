"""Programs that sample their own allocations, each in a process of its own, without a recorder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import leakscope.agent
from leakscope.agent.allocations import sampler

from ..harm.interpreters import Interpreter
from .staging import stage

FOLDER = Path(leakscope.agent.__file__).parent / "allocations"
has_sampler = pytest.mark.skipif(
    sampler._refusal() is not None or not (FOLDER / sampler.LIBRARY).exists(), reason="no sampler here"
)

# A process of its own: what leads to malloc leads elsewhere for as long as it lives.
HEAD = """
import json, os, sys, time
sys.path.insert(0, {above!r})
from agent.allocations import sampler
sampler.SAMPLE_BYTES, sampler.OBJECT_SAMPLE_BYTES, sampler.SETTLED_S = {every}, 2048.0, 0.0
one = sampler.Sampler()
one.load(0)
# Who begins is the recorder's own thread, and nothing is drawn on it.
import threading
{begin}
def told(kind=0):
    one._lib.sampler_tick(time.monotonic())
    rows = one._rows_of(kind, 0.0)
    found = {{}}
    for row in rows:
        key = "%s:%s" % (str(row["function"]).rpartition(".")[2], row["owner_line"])
        found[key] = found.get(key, 0) + row["live_bytes"]
    return found
def say(**what):
    print(json.dumps(dict(what, refusal=one.refusal, figures=one.figures() if one.is_on else None)))
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""


def said(
    text: str,
    tmp_path: Path,
    interpreter: Interpreter | None = None,
    *,
    every: float = 65536.0,
    first: str = "",
    on_main: bool = False,
    **env: str,
) -> Any:
    """What a program says that begins with sampling, or with ``first``.

    ``on_main``: its main thread is sampled, too.
    """
    above = stage(tmp_path)
    begin = "one.begin()\n"
    if on_main:
        begin = "beside = threading.Thread(target=one.begin)\nbeside.start()\nbeside.join()\n"
    head = first + HEAD.format(above=str(above), every=every, begin=begin)
    script = tmp_path / "program.py"
    # The lines of the program are counted from its first one.
    script.write_text(f"exec(compile({head!r}, '<head>', 'exec'))\n" + textwrap.dedent(text))
    python = interpreter.path if interpreter is not None else sys.executable
    done = subprocess.run([python, str(script)], capture_output=True, text=True, timeout=120, env=env or None)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def built(folder: Path, name: str, code: str, *options: str) -> Path:
    """A library of C."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    source, library = folder / f"{name}.c", folder / f"lib{name}.so"
    source.write_text(code)
    words = [compiler, "-D_GNU_SOURCE", "-fno-builtin", "-shared", "-fPIC", "-o", str(library), str(source), *options]
    subprocess.run(words, check=True)
    return library
