"""The agent's own table of modules, and the program's, which may be importing the same ones just then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import leakscope.agent

from .staging import rows, run, stage

pytestmark = pytest.mark.live

LIBRARY = Path(leakscope.agent.__file__).with_name("library.py")

MEANWHILE = f"""
import copyreg, enum, os, sys
from _frozen_importlib import ModuleSpec
space = {{"__name__": "library"}}
exec(open({str(LIBRARY)!r}).read(), space)
assert "re" not in sys.modules
half_made = type(sys)("re")
half_made.__spec__ = ModuleSpec("re", None, origin=enum.__file__.replace("enum", "re"))
half_made.__spec__._initializing = True
sys.modules["re"] = half_made
before = dict(copyreg.dispatch_table)
ours = space["Library"]("/nowhere", None)._load("re")
print(ours is half_made, ours.compile("a+", ours.I).match("AA").group(), "I" in vars(half_made))
print(copyreg.dispatch_table == before)
del sys.modules["re"]
import pickle, re
print(pickle.loads(pickle.dumps(re.compile("b+"))).match("bb").group())
"""


def test_a_module_that_the_program_imports_just_then_is_not_touched_and_ours_works() -> None:
    """Half of ``re`` there and half here, patterns are compiled by nobody, and the agent saw nothing any more."""
    done = subprocess.run([sys.executable, "-S", "-c", MEANWHILE], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["False AA False", "True", "bb"], done.stderr


def test_a_program_that_has_loaded_enum_and_not_re_gets_snapshots(tmp_path: Path) -> None:
    loaded = "import sys\nfor name in ('re', 'enum'):\n    sys.modules.pop(name, None)\nimport enum\n"  # by a .pth
    program = "import time\nclass Kept: pass\nkept = {'key': [Kept() for _ in range(9000)]}\ntime.sleep(3)\n"
    journal = stage(tmp_path)
    done = run(journal, "-c", loaded + program)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert found["takes"] and any(row["type_name"] == "__main__.Kept" for row in found["heap_nodes"])
