"""Nothing of ours is answered by the user's files or variables, and nothing of ours shows.

A project may name its modules as it likes: where one is called as a module of Python's that we need, the program gets
its own and we get Python's. What Python prints of its imports, coverage of subprocesses, and tracebacks are as bare.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from functools import cache, lru_cache
from pathlib import Path

import pytest

from ..recorder.runs import ROOT, rows
from .interpreters import Interpreter, interpreters

pytestmark = pytest.mark.live

LIMIT_S = 120.0
PACKAGES = sysconfig.get_paths()["purelib"]
_OWN = ("LEAKSCOPE_", "PYTHON", "RANK", "COVERAGE_")
_OURS = re.compile(r"^leakscope: .*\n", re.MULTILINE)  # of the recorder: that it kept its journal
_ADDRESS = re.compile("0x[0-9a-f]+")


@cache
def clean_python() -> str:
    """This Python without what is installed beside it: no start-up file of theirs imports anything."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    return os.path.join(folder, "bin", "python")


def ran(words: list[str], folder: Path, **variables: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    done = subprocess.run(
        words, cwd=folder, env={**kept, **variables}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    return done.returncode, _ADDRESS.sub("0x", done.stdout), _ADDRESS.sub("0x", _OURS.sub("", done.stderr))


def recorded(folder: Path, *words: str, python: str | None = None) -> list[str]:
    """A command, recorded as it would be where leakscope is installed for ``python``."""
    start = [python or clean_python(), str(ROOT / "leakscope" / "__main__.py")]
    return [*start, "record", "-q", "-f", "--keep-journal", "-o", str(folder / "run.parquet"), "--", *words]


def recorded_by_command(folder: Path, *words: str) -> list[str]:
    """The same by the command that is installed: not even Python's own start obeys the user's variables there."""
    return [str(Path(sys.executable).with_name("leakscope")), *recorded(folder, *words)[2:]]


def agents(folder: Path) -> list[Path]:
    return sorted((folder / "run.parquet.journal").glob("agent-*.jnl"))


# ---- modules of the user's own

_LIST = """
import importlib, json, pkgutil, sys
sys.path += sys.argv[1:]
for package in ("leakscope.recorder", "leakscope.agent", "leakscope.storage", "leakscope.metering"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not module.name.rpartition(".")[2].startswith(("sitecustomize", "__main__", "libleak")):
            importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} & sys.stdlib_module_names)))
"""


@lru_cache(maxsize=1)
def imported_by_us() -> tuple[str, ...]:
    """Modules of Python's that recorder, agent and helpers import, and Python itself does not as it starts."""
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LIST, str(ROOT), PACKAGES], capture_output=True, text=True, check=True
    )
    bare = subprocess.run(
        [clean_python(), "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    by_python = {name.partition(".")[0] for name in bare.stdout.split()}
    names = {"__future__", *json.loads(told.stdout)} - by_python - set(sys.builtin_module_names)
    assert {"ctypes", "json", "resource", "signal", "struct", "types"} <= names
    return tuple(sorted(names))


WORKS = """
import sys, time
ends = time.monotonic() + 1.5
while time.monotonic() < ends:
    [[n] for n in range(1000)]
print("done", sys.argv)
raise SystemExit(7)
"""
HOSTILE = (
    "import sys\nsys.stderr.write('the module of the user runs: ' + __name__ + '\\n')\nraise RuntimeError(__name__)\n"
)


def shadowed(folder: Path, names: tuple[str, ...], text: str, program: str) -> Path:
    project = folder / "project"
    project.mkdir(parents=True)
    for name in names:
        (project / f"{name}.py").write_text(text)
    (project / "main.py").write_text(program)
    return project


def is_as_bare(project: Path, folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    path = os.pathsep.join([str(project), PACKAGES])  # with pyarrow: the file is finished
    variables = {"PYTHONPATH": path, "LEAKSCOPE_STRESS": "0.1", **variables}
    bare = ran([*words], project, **variables)
    assert ran(recorded(folder, *words), project, **variables) == bare
    return bare


def test_no_module_of_the_users_is_imported_by_us(tmp_path: Path) -> None:
    """All at once, beside the script, in the working folder and on PYTHONPATH."""
    project = shadowed(tmp_path, imported_by_us(), HOSTILE, WORKS)
    status, out, err = is_as_bare(project, tmp_path, clean_python(), "main.py")
    assert (status, out, err) == (7, "done ['main.py']\n", "")
    assert agents(tmp_path) and rows(tmp_path / "run.parquet.journal", "process_samples")
    assert (tmp_path / "run.parquet").stat().st_size > 10_000  # the helper that finishes it did


@pytest.mark.slow
def test_nor_is_one_by_one(tmp_path: Path) -> None:
    """Where only one is the user's, its real neighbours may import it."""
    for name in imported_by_us():
        project = shadowed(tmp_path / name, (name,), HOSTILE, WORKS.replace("1.5", "0.5"))
        command = recorded(tmp_path / name, clean_python(), "main.py")
        assert ran(command, project, PYTHONPATH=str(project)) == (7, "done ['main.py']\n", ""), name
        assert agents(tmp_path / name), name


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_the_program_gets_its_own(tmp_path: Path, interpreter: Interpreter) -> None:
    names = ("ctypes", "fcntl", "mmap", "resource", "struct", "types", "zipfile")
    project = shadowed(tmp_path, names, "WHO = 'the user'\n", "")
    theirs = 0
    for name in names:
        python = clean_python() if interpreter.path == sys.executable else interpreter.path
        bare = is_as_bare(project, tmp_path, python, "-c", f"import {name}; print({name}.WHO)")
        theirs += bare == (0, "the user\n", "")
    assert theirs >= len(names) // 2  # a distribution's own sitecustomize may have imported some before
    assert bool(agents(tmp_path)) is not interpreter.is_refused


LEFT = """
import sys
left = set(sys.modules) - set(sys.builtin_module_names) - {"_leakscope_agent"}
print(sorted(left), [finder for finder in sys.path if "leakscope-run" in finder])
import ctypes, enum, json, mmap, re, resource, struct
value = struct.unpack("<i", ctypes.string_at(ctypes.addressof(ctypes.c_int(5)), 4))
print(value, re.sub("a+", "b", "caat"), json.dumps({"a": [1, None]}), mmap.PAGESIZE, resource.RLIM_INFINITY)
print(enum.Enum("Colour", "RED").RED, ctypes.POINTER(ctypes.c_int) is ctypes.POINTER(ctypes.c_int))
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_what_is_imported_for_us_is_not_imported_for_the_program(tmp_path: Path, interpreter: Interpreter) -> None:
    project = shadowed(tmp_path, (), "", LEFT)
    assert is_as_bare(project, tmp_path, interpreter.path, "main.py")[0] == 0


# ---- variables and options of Python

PRINTS = "import sys\nprint('sitecustomize', len(sys.argv))\nsys.stderr.write('starts\\n')\n"
DOES = "import json, sys\nprint(json.dumps(sorted(sys.argv)))\nsys.exit(4)\n"
VARIABLES = {
    "inspect": {"PYTHONINSPECT": "1"},
    "no-bytecode": {"PYTHONDONTWRITEBYTECODE": "1"},
    "warnings": {"PYTHONWARNINGS": "error"},
    "cache-elsewhere": {"PYTHONPYCACHEPREFIX": "HERE/cache"},
    "tracemalloc": {"PYTHONTRACEMALLOC": "5"},
    "safe-path": {"PYTHONSAFEPATH": "1"},
    "startup": {"PYTHONSTARTUP": "HERE/project/sitecustomize.py"},
    "breakpoint": {"PYTHONBREAKPOINT": "nothing.at_all"},
    "dump-references": {"PYTHONDUMPREFS": "1"},
    "development": {"PYTHONDEVMODE": "1"},
    "debug-malloc": {"PYTHONMALLOC": "debug"},
    "malloc-statistics": {"PYTHONMALLOCSTATS": ""},
    "hash-seed": {"PYTHONHASHSEED": "7"},
    "verbose": {"PYTHONVERBOSE": "1"},
    "import-times": {"PYTHONPROFILEIMPORTTIME": "1"},
}
OPTIONS = {
    "import-times": ("-X", "importtime"),
    "verbose": ("-v",),
    "development": ("-X", "dev"),
    "warnings": ("-W", "error"),
    "bytes": ("-bb",),
    "optimized": ("-OO",),
    "tracing-malloc": ("-X", "tracemalloc"),
}


def without_times(text: str) -> str:
    """Of what is listed as imported: its names, in their order."""
    return re.sub(r"(import time:)[ \d|]+\|", r"\1", text)


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
@pytest.mark.parametrize("name", VARIABLES)
def test_variables_of_python(tmp_path: Path, interpreter: Interpreter, name: str) -> None:
    variables = {key: value.replace("HERE", str(tmp_path)) for key, value in VARIABLES[name].items()}
    project = shadowed(tmp_path, (), "", DOES)
    path = str(project)
    ran([interpreter.path, "main.py"], project, PYTHONPATH=path)  # what it imports is compiled now
    bare = ran([interpreter.path, "main.py"], project, PYTHONPATH=path, **variables)
    with_it = ran(recorded_by_command(tmp_path, interpreter.path, "main.py"), project, PYTHONPATH=path, **variables)
    assert with_it[:2] == bare[:2]
    assert without_times(with_it[2]) == without_times(bare[2])


def test_the_home_of_another_python(tmp_path: Path) -> None:
    """It is meant for the job's: leakscope's own would find no library there."""
    words = recorded_by_command(tmp_path, "sh", "-c", "echo in $PYTHONHOME")
    assert ran(words, tmp_path, PYTHONHOME="/nowhere") == (0, "in /nowhere\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_python(tmp_path: Path, interpreter: Interpreter, name: str) -> None:
    project = shadowed(tmp_path, (), "", DOES)
    words = [interpreter.path, *OPTIONS[name], "main.py"]
    ran(words, project)  # what it imports is compiled now
    status, out, err = ran(words, project)
    with_it = ran(recorded(tmp_path, *words), project)
    assert (with_it[0], with_it[1]) == (status, out)
    assert without_times(with_it[2]) == without_times(err)


@pytest.mark.parametrize(
    "program", ["import time, json", "import nothing_there", "import broken"], ids=["good", "missing", "broken"]
)
def test_a_sitecustomize_of_the_users_runs_as_ever(tmp_path: Path, program: str) -> None:
    project = shadowed(tmp_path, ("sitecustomize",), f"{PRINTS}{program}\n", DOES)
    (project / "broken.py").write_text("raise KeyError('mine')\n")
    words = [clean_python(), "main.py"]
    bare = ran(words, project, PYTHONPATH=str(project))
    assert "sitecustomize" in bare[1]
    assert ran(recorded_by_command(tmp_path, *words), project, PYTHONPATH=str(project)) == bare


def test_the_programs_environment_is_what_the_recorder_was_given(tmp_path: Path) -> None:
    variables = {"PYTHONINSPECT": "", "PYTHONNOUSERSITE": "1", "ODD": "a\tb=c\\ü", "PYTHONPATH": "/nowhere"}
    shown = ran(["env"], tmp_path, **variables)
    with_it = ran(recorded(tmp_path, "env"), tmp_path, **variables)
    theirs = re.sub(r"PYTHONPATH=[^:\n]*leakscope-run-[^:\n]*:", "PYTHONPATH=", with_it[1])
    assert theirs == shown[1]


# ---- coverage of subprocesses

pytest_coverage = pytest.mark.skipif(
    not any("coverage" in one.libraries for one in interpreters()), reason="no Python here has coverage"
)
COVERED = (
    "import time\nends = time.monotonic() + 1\nwhile time.monotonic() < ends:\n    pass\nif ends < 0:\n    print()\n"
)


@pytest_coverage
@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
@pytest.mark.parametrize("options", ["", "branch = true\n"], ids=["lines", "branches"])
def test_coverage_that_begins_before_us(tmp_path: Path, core: str, options: str) -> None:
    """As coverage's own .pth file begins it in each process, or that of the user."""
    for interpreter in interpreters():
        if "coverage" not in interpreter.libraries or (core == "sysmon" and interpreter.version < (3, 12)):
            continue
        figures = []
        for is_recorded in (False, True):
            folder = tmp_path / f"{interpreter}-{is_recorded}"
            folder.mkdir()
            (folder / "program.py").write_text(COVERED)
            (folder / "rc").write_text(f"[run]\nparallel = true\n{options}")
            # A .pth file, too, runs before sitecustomize: coverage has one of its own only since 7.10.
            start = "import coverage; coverage.process_startup(); import runpy; runpy.run_path('program.py')"
            words = [interpreter.path, "program.py"] if has_pth(interpreter) else [interpreter.path, "-c", start]
            words = recorded(folder, *words) if is_recorded else words
            status = ran(words, folder, COVERAGE_PROCESS_START=str(folder / "rc"), COVERAGE_CORE=core)
            for more in (("combine", "-q"), ("report",)):
                status += ran([interpreter.path, "-m", "coverage", *more], folder)
            figures.append([part for part in status if not isinstance(part, str) or "CoverageWarning" not in part])
        assert figures[0] == figures[1]
        assert "program.py" in str(figures[0])


@cache
def has_pth(interpreter: Interpreter) -> bool:
    ask = "import glob, sysconfig; print(*glob.glob(sysconfig.get_paths()['purelib'] + '/*coverage*.pth'))"
    return bool(subprocess.run([interpreter.path, "-c", ask], capture_output=True, text=True).stdout.strip())


# ---- tracebacks

RAISES = """
import inspect, io, sys, threading, traceback, warnings
import torch
from torch import nn
class Bad(torch.utils.data.Dataset):
    def __len__(self): return 3
    def __getitem__(self, at):
        if at == 1:
            print([frame.function for frame in inspect.stack()], flush=True)
            warnings.warn("as seen from here", stacklevel=3)
            raise ValueError("a bad item")
        return at
class Child(nn.Module):
    def train(self, mode=True):
        if not mode: raise RuntimeError("stays in training")
        return super().train(mode)
class Model(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(2, 2); self.b = nn.ModuleList([Child()])
def collate(batch): raise KeyError("collate")
def each(**options):
    for batch in torch.utils.data.DataLoader(Bad(), batch_size=1, **options): pass
def hook(*arguments): raise OSError("hook")
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_post_hook(hook)
def in_thread(): raise LookupError("in a thread")
for do in (each, lambda: each(collate_fn=collate), model.eval, lambda: model.train("no"), optimizer.step,
           lambda: torch.save(lambda: 0, io.BytesIO()), lambda: each(num_workers=1)):
    try: do()
    except Exception: print(traceback.format_exc())
thread = threading.Thread(target=in_thread); thread.start(); thread.join()
compiled = torch.compile(lambda x: (model.train(), model.a(x))[1], fullgraph=True, backend="eager")
print(compiled(torch.ones(2, 2)).shape, torch._dynamo.utils.counters["stats"]["unique_graphs"])
each()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_tracebacks_of_a_training_have_no_frame_of_ours(tmp_path: Path) -> None:
    project = shadowed(tmp_path, (), "", RAISES)
    words = [sys.executable, "main.py"]
    bare = ran(words, project)
    assert bare[0] == 1 and "a bad item" in bare[1] and "in a thread" in bare[2]
    assert ran(recorded(tmp_path, *words), project) == bare
    assert agents(tmp_path)


THREADS = """
import sys, threading, traceback
def fails(depth): return fails(depth - 1) if depth else {}["no"]
def seen(arguments): print(len(traceback.extract_tb(arguments.exc_traceback)), arguments.exc_type)
for hook in (None, seen):
    threading.excepthook = hook or threading.excepthook
    thread = threading.Thread(target=fails, args=(2,)); thread.start(); thread.join()
own = getattr(threading, '__excepthook__', None)  # since Python 3.10
print(threading.excepthook is own, getattr(own, '__name__', None), threading.excepthook is seen)
def gone(): raise SystemExit
try: __import__("there_is_none")
except ImportError: print(traceback.format_exc())
fails(1)
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_tracebacks_have_no_frame_of_ours(tmp_path: Path, interpreter: Interpreter) -> None:
    project = shadowed(tmp_path, (), "", THREADS)
    words = [interpreter.path, "main.py"]
    bare = ran(words, project)
    assert bare[0] == 1 and bare[2].count("KeyError") == 2
    with_it = ran(recorded(tmp_path, *words), project)
    assert [re.sub(r"Thread-\d+", "Thread", part) for part in map(str, with_it)] == [
        re.sub(r"Thread-\d+", "Thread", part) for part in map(str, bare)
    ]
