"""What the agent loads of Python's library works whatever the program has loaded of it, and changes none of that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = pytest.mark.live  # it starts processes

LIBRARY = Path(__file__).parents[2] / "leakscope" / "agent" / "library.py"
# Some environments load re before the program begins, by a .pth file.
FORGET = """
import sys
for name in [name for name in sys.modules if name.partition('.')[0] in ('re', 'enum')]:
    del sys.modules[name]
import enum
"""
LOAD = f"""
space = {{"__name__": "library"}}
exec(open({str(LIBRARY)!r}).read(), space)
assert space["Library"]("nowhere", None)._load("re").compile("a+").match("aa")
"""


def test_a_program_that_has_loaded_enum_and_not_re_gets_snapshots(tmp_path: Path) -> None:
    program = "import time\nclass Kept: pass\nkept = {'key': [Kept() for _ in range(9000)]}\ntime.sleep(3)\n"
    journal = stage(tmp_path)
    done = run(journal, "-c", FORGET + program)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert found["takes"] and any(row["type_name"] == "__main__.Kept" for row in found["heap_nodes"])


def test_a_module_that_the_program_is_just_importing_stays_its_own() -> None:
    half_made = """
import importlib.machinery, types
half = sys.modules["re"] = types.ModuleType("re")
half.__spec__ = importlib.machinery.ModuleSpec("re", None, origin=enum.__file__)
half.__spec__._initializing = True
before = set(vars(half))
"""
    code = FORGET + half_made + LOAD + "assert set(vars(half)) == before, set(vars(half)) - before\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
