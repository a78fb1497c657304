"""The last words of a process: exceptions, fatal signals, and that the program fails exactly as it would without us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leakscope.faults import agent_in_crash

from .staging import rows, run, stage

pytestmark = pytest.mark.live

DIVIDES = "def work(x):\n    return 1 / x\n"
SEGFAULTS = "import ctypes\ndef deep():\n    ctypes.string_at(0)\ndeep()\n"
JVM = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
action = (ctypes.c_char * 512)()
libc.sigaction(signal.SIGABRT, None, action)
ctypes.cast(action, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.cast(libc._exit, ctypes.c_void_p).value
libc.sigaction(signal.SIGABRT, action, None)  # as a virtual machine does, by its own C code
"""
ABORTS_AFTER_PYTHON = "libc.__cxa_atexit(libc.abort, None, None)\n"


def words(journal: Path) -> list[dict[str, Any]]:
    return rows(journal).get("crash_text", [])


def faults(journal: Path) -> list[str]:
    return [text for file in sorted(journal.glob("fault-*.txt")) if (text := file.read_text())]


def written(folder: Path, program: str) -> str:
    file = folder / "train.py"
    file.write_text(program)
    return str(file)


def test_an_exception_that_nobody_caught_is_kept(tmp_path: Path) -> None:
    program = written(
        tmp_path, DIVIDES + "try:\n    work(0)\nexcept Exception as e:\n    raise ValueError('bad') from e\n"
    )
    journal = stage(tmp_path)
    assert run(journal, program).returncode == 1
    (row,) = words(journal)
    assert row["crash_source"] == "exception"
    assert row["exception_type"] == "ValueError"
    lines = row["last_words"].splitlines()
    assert f'  File "{program}", line 2, in work' in lines
    assert "    return 1 / x" in lines
    assert lines.index("ZeroDivisionError: division by zero") < lines.index("ValueError: bad") == len(lines) - 1


def test_an_exception_that_ends_a_thread_is_kept(tmp_path: Path) -> None:
    program = DIVIDES + "import threading\nt = threading.Thread(target=work, args=(0,))\nt.start()\nt.join()\n"
    journal = stage(tmp_path)
    done = run(journal, written(tmp_path, program))
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr
    (row,) = words(journal)
    assert (row["crash_source"], row["exception_type"]) == ("thread-exception", "ZeroDivisionError")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass",
        "import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()",
    ],
    ids=["exit", "interrupt", "caught", "thread-exit"],
)
def test_what_is_no_failure_leaves_no_words(tmp_path: Path, program: str) -> None:
    journal = stage(tmp_path)
    run(journal, "-c", program)
    assert not words(journal)
    assert not faults(journal)


@pytest.mark.cases(1)
@pytest.mark.parametrize("kept", ["bytes(1000)", "[]", "'x' * (1 << 33)"])
def test_words_are_kept_when_memory_is_gone(tmp_path: Path, kept: str) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2)\n"
    journal = stage(tmp_path)
    done = run(journal, "-c", f"{limit}kept = []\nwhile True: kept.append({kept})")
    assert done.returncode == 1, done.stderr  # and not aborted for want of libgcc
    assert [row["exception_type"] for row in words(journal)] == ["MemoryError"]


def test_no_message_is_asked_of_the_programs_own_code(tmp_path: Path) -> None:
    program = """
class Own(Exception):
    def __str__(self):
        print("asked")
        return "mine"
raise Own
"""
    journal = stage(tmp_path)
    assert run(journal, written(tmp_path, program)).stdout == "asked\n"  # by Python, to print it
    (row,) = words(journal)
    assert row["exception_type"] == "__main__.Own"
    assert "mine" not in row["last_words"]


def test_a_message_of_a_string_of_another_class_is_read(tmp_path: Path) -> None:
    """So torch hands on a KeyError of a loader worker."""
    journal = stage(tmp_path)
    run(journal, "-c", "class Text(str):\n    def __repr__(self): return self\nraise KeyError(Text('of a worker'))")
    (row,) = words(journal)
    assert row["last_words"].endswith("KeyError: of a worker\n")


def test_a_long_text_keeps_its_end(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    run(journal, "-c", "raise ValueError('x' * 200_000 + ' the end')")
    (row,) = words(journal)
    assert len(row["last_words"]) <= 64 * 1024
    assert row["last_words"].endswith(" the end\n")


def test_where_a_fatal_signal_came_is_kept(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    program = written(tmp_path, SEGFAULTS)
    assert run(journal, program).returncode == -11
    (text,) = faults(journal)
    assert text.startswith("Fatal Python error: Segmentation fault")
    assert f'File "{program}", line 3 in deep' in text


def test_a_forked_child_has_a_text_of_its_own(tmp_path: Path) -> None:
    program = "import os, faulthandler\nif os.fork() == 0:\n    faulthandler._sigsegv()\nprint(os.wait()[0])\n"
    journal = stage(tmp_path)
    child = run(journal, "-c", program).stdout.strip()
    (file,) = (file for file in journal.glob("fault-*.txt") if file.stat().st_size)
    assert file.name.startswith(f"fault-{child}-")


@pytest.mark.parametrize(
    ("waits", "fault", "file"),
    [
        ("sum(())", "ExactSnapshot.read.__globals__['room'].left_bytes", "maker.py:"),  # who prepares it asks first
        ("sleep(60)", "PlainSnapshot.run.__globals__['census'].chosen_by", "census.py:"),
        ("sum(())", "PlainSnapshot.run.__globals__['census'].chosen_by", "census.py:"),
    ],
    ids=["graph", "agents-thread", "main-thread"],
)
def test_where_our_own_fault_came_is_kept(tmp_path: Path, waits: str, fault: str, file: str) -> None:
    """Also where the graph cannot be read."""
    program = f"""
import ctypes, sys
from time import sleep
main = sys.modules["_leakscope_agent"]._kept[0]
main.maker.PATIENCE_S = 0.1
if "Plain" in "{fault}": main.maker.SnapshotMaker._has_graph = lambda self: False
main.maker.{fault} = lambda *_: ctypes.string_at(0)
while True: {waits}
"""
    journal = stage(tmp_path)
    assert run(journal, "-c", program, LEAKSCOPE_STRESS="0.05").returncode == -11
    (text,) = faults(journal)
    assert (agent_in_crash(text) or "").startswith(file)


FAILURES = {
    "exception": "raise ValueError('x')",
    "own-hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__, file=sys.stderr)\n1 / 0",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()",
    "thread-hook-is-original": """
import threading
print(threading.excepthook is getattr(threading, "__excepthook__", threading.excepthook))
""",
    "segfault": SEGFAULTS,
    "abort": "import os\nos.abort()",
    "abort-outside": "import os, signal\nos.kill(os.getpid(), signal.SIGABRT)",
    "division": "import os, signal\nos.kill(os.getpid(), signal.SIGFPE)",
    "fatal-error": "import ctypes\nctypes.pythonapi.Py_FatalError.argtypes = [ctypes.c_char_p]\n"
    "import os\nos.dup2(os.open(os.devnull, 1), 2)\nctypes.pythonapi.Py_FatalError(b'no')",
    "faulthandler-is-off": """
import faulthandler
print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.is_enabled())
faulthandler.enable()
print(faulthandler.is_enabled(), faulthandler.disable(), faulthandler.is_enabled())
""",
    "faulthandler-of-the-job": """
import faulthandler, sys
if not faulthandler.is_enabled():
    faulthandler.enable(file=sys.stdout, all_threads=False)
faulthandler._sigsegv()
""",
    "own-handler": """
import os, signal
signal.signal(signal.SIGSEGV, lambda *_: os._exit(5))
os.kill(os.getpid(), signal.SIGSEGV)
import time; time.sleep(10)
""",
    "own-handler-then-faulthandler": """
import faulthandler, os, signal, sys
signal.signal(signal.SIGABRT, lambda *_: os._exit(5))
faulthandler.enable(file=sys.stdout, all_threads=False)
os.kill(os.getpid(), signal.SIGABRT)
""",
    "handlers-seen": """
import signal
print([signal.getsignal(n) for n in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)])
""",
    "libraries-handler": JVM + "os.abort()",
    "libraries-handler-at-the-end": JVM + ABORTS_AFTER_PYTHON,
    "libraries-handler-and-faulthandler": JVM + "import faulthandler\nfaulthandler.disable()\nos.abort()",
    "lowest-descriptor": "import os\nprint(os.open(os.devnull, 0))",
    "ignored-signals": """
import os, signal
for n in (signal.SIGABRT, signal.SIGSEGV):
    signal.signal(n, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGABRT); print('on')"])
""".replace("import os, signal\nfor", "import os, signal, sys\nfor"),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", FAILURES)
def test_it_fails_as_it_would_without_us(tmp_path: Path, name: str) -> None:
    program = written(tmp_path, FAILURES[name])
    env = {key: value for key, value in os.environ.items() if key != "PYTHONFAULTHANDLER"}
    bare = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=60)
    ours = run(stage(tmp_path), program)
    pairs = [(side.returncode, side.stdout.splitlines(), side.stderr.splitlines()) for side in (bare, ours)]
    for _, stdout, _ in pairs:  # faulthandler names threads, and since 3.14 functions in C, by their address
        stdout[:] = [line for line in stdout if not line.startswith(("Current thread", "Thread 0x", "  Binary file"))]
    assert pairs[1] == pairs[0]
