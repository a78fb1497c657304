"""When memray is let in: once, and only where memory in use grows and nothing in Python explains it."""

from __future__ import annotations

import json
import sys
import types

import pytest

from leakscope.agent import native_window

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
