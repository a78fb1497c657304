"""When memray is let in: once, and only where memory in use grows and nothing in Python explains it."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from leakscope.agent.native import native_window

ROOT = Path(__file__).parents[2]

MiB = 1 << 20


class Memray(types.ModuleType):
    """Stands for memray, to see when it is let in; the real one is in the end-to-end test."""

    class FileFormat:
        AGGREGATED_ALLOCATIONS = 1

    def __init__(self):
        super().__init__("memray")
        self.open = 0
        self.FileDestination = lambda path, **_: path
        self.Tracker = lambda **_: self

    def __enter__(self):
        self.open += 1

    def __exit__(self, *_):
        self.open -= 1


@pytest.fixture
def memray(monkeypatch):
    memray = Memray()
    monkeypatch.setitem(sys.modules, "memray", memray)
    return memray


@pytest.fixture
def window(tmp_path):
    notes = []
    window = native_window.NativeWindow(str(tmp_path), lambda kind, text: notes.append(text))
    window.notes = notes
    return window


def look(window, *takes):
    for in_use, explained in takes:
        window.look(in_use * MiB, explained * MiB, "1-2")


def test_it_opens_where_memory_grows_and_nothing_explains_it_and_closes_in_time(window, memray, tmp_path, monkeypatch):
    look(window, (100, 10), (110, 10), (120, 11))
    assert not memray.open
    look(window, (130, 11))
    assert memray.open == 1
    assert json.loads((tmp_path / "native-1-2.json").read_text())["executable"] == sys.executable
    window.tick()
    assert memray.open == 1
    monkeypatch.setattr(native_window, "monotonic", lambda: 1e12)
    window.tick()
    assert not memray.open
    look(window, (200, 11), (300, 11), (400, 11), (500, 11), (600, 11))
    assert not memray.open, "once is enough"


@pytest.mark.parametrize(
    "takes",
    [
        [(100, 10), (110, 20), (120, 30), (130, 40), (140, 50)],  # objects explain it
        [(100, 10), (110, 10), (105, 10), (115, 10), (110, 10)],  # a saw-tooth
        [(100, 10), (101, 10), (102, 10), (103, 10), (104, 10)],  # little
    ],
)
def test_it_stays_shut_otherwise(window, memray, takes):
    look(window, *takes)
    assert not memray.open


def test_a_program_with_a_profile_function_keeps_it(window, memray):
    sys.setprofile(lambda *_: None)
    try:
        look(window, (100, 10), (110, 10), (120, 10), (130, 10))
    finally:
        sys.setprofile(None)
    assert not memray.open
    assert "profile function" in window.notes[0]


def test_where_memray_is_missing_it_says_so(window, monkeypatch):
    monkeypatch.setitem(sys.modules, "memray", None)
    look(window, (100, 10), (110, 10), (120, 10), (130, 10))
    assert "not installed" in window.notes[0]


@pytest.mark.live
def test_a_window_opened_on_another_thread_lets_the_program_end(tmp_path: Path) -> None:
    """The agent's thread outlives the program's last line; nobody must wait for it then."""
    program = """
import _thread, sys
assert "threading" not in sys.modules, "the program itself has no use for it"
from leakscope.agent.native import native_window

window = native_window.NativeWindow(sys.argv[1], lambda kind, text: None)
opened, never = _thread.allocate_lock(), _thread.allocate_lock()
opened.acquire(), never.acquire()

def agent():
    for number in range(8):
        window.look(number << 24, 0, "1-1")
    opened.release()
    never.acquire()

_thread.start_new_thread(agent, ())
opened.acquire()
assert window._tracker is not None
window.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
