"""Objects of the job are read as the collector reads them, and what is read of a frame is what its variables hold."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.interpreter import reading, sampling

from ..harm.interpreters import Interpreter, interpreters
from .staging import stage


def test_a_local_that_is_deleted_is_gone_although_its_frame_was_read() -> None:
    class Kept:
        pass

    def function() -> Any:
        local = Kept()
        reference = weakref.ref(local)
        assert any(value is local for _, value in reading.frame_locals(sys._getframe()))
        del local
        return reference()

    assert function() is None


def test_a_frame_whose_locals_the_job_holds_is_left_alone() -> None:
    frame = sys._getframe()
    marker = object()
    mine = locals()
    reading.frame_locals(frame)
    if sys.version_info < (3, 13):
        assert mine["marker"] is marker


LOCALS = """
import sys
sys.path.insert(0, {folder!r})
from agent.interpreter import reading

class Held:
    pass

def generate(one):
    held = Held()
    yield held

def run():
    local = "here"
    print([name for name, _ in reading.frame_locals(sys._getframe())], end=" ")

run()
waiting = generate(1)
next(waiting)
frame = waiting.gi_frame
print([name for name, _ in reading.frame_locals(frame)], end=" ")
waiting.close()
known = frame.f_locals if {is_safe} else {{}}
print([name for name, _ in reading.frame_locals(frame)] == list(known))
"""


@pytest.mark.live
@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_variables_of_frames_are_read_in_every_python(interpreter: Interpreter, tmp_path: Path) -> None:
    """Also of a closed generator, if its frame goes on to hold them: since 3.14."""
    folder, is_safe = stage(tmp_path), interpreter.version[:2] != (3, 13)  # there a look at that ends the process
    (tmp_path / "program.py").write_text(LOCALS.format(folder=str(folder), is_safe=is_safe))
    done = subprocess.run(
        [interpreter.path, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "['local'] ['one', 'held'] True\n"


@pytest.mark.parametrize("made", [dict.fromkeys, set, deque])
def test_a_container_that_changes_between_two_members_ends_the_sample(made: Any) -> None:
    """Another thread may have its turn between them."""
    container = made(range(10))
    members = iter(container)
    first = next(members)
    if isinstance(container, dict):
        container[10] = None
    elif isinstance(container, set):
        container.add(10)
    else:
        container.append(10)
    assert first == 0
    assert sampling._passed(members, [0, 3]) == []
    assert sampling._passed(iter(container), [0, 3]) == [0, 3]
