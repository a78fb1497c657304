"""Files of the agent's have high numbers, at every instant in which another thread of the job can look."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope.agent.interpreter import files
from leakscope.agent.journal import LEAST_FD, Journal, read_blocks
from leakscope.agent.native import memory

OFTEN = 300


def lowest() -> int:
    """The number that the next file of the job's will get."""
    number = os.dup(0)
    os.close(number)
    return number


@pytest.fixture
def seen() -> Iterator[Callable[[], int]]:
    """How often another thread has found something open where the next file of the job's will be."""
    number, found, ends = lowest(), [0, 0], threading.Event()

    def look() -> None:
        while not ends.is_set():
            found[1] += 1
            try:
                os.get_inheritable(number)  # the one question of its kind that lets no other thread run meanwhile
                found[0] += 1
            except OSError:
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=look)
    thread.start()

    def how_often() -> int:
        ends.set()
        thread.join()
        assert found[1] > OFTEN
        return found[0]

    yield how_often
    ends.set()
    thread.join()
    sys.setswitchinterval(interval)


def test_a_journal_that_is_opened_again(tmp_path: Path, seen: Callable[[], int]) -> None:
    journal = Journal(str(tmp_path), "agent-1-2", create=files.create)
    for number in range(OFTEN):
        journal.add("sentinels", {"pid": number})
        journal.flush()
        journal.abandon()
    assert seen() == 0
    assert sum(len(list(read_blocks(file))) for file in tmp_path.iterdir()) == OFTEN


def test_figures_of_the_kernel(seen: Callable[[], int]) -> None:
    for _ in range(OFTEN):
        descriptor, *_ = memory._open
        if descriptor >= LEAST_FD:
            os.close(descriptor)  # as a daemon does
        assert memory.rss_bytes()
    assert seen() == 0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Written before anybody looks."""
    file = tmp_path / "source.py"
    file.write_text("import this\n")
    return file


def test_a_file_that_is_read(source: Path, seen: Callable[[], int]) -> None:
    for _ in range(OFTEN):
        with open(source, opener=files.open_high) as stream:
            assert stream.fileno() >= LEAST_FD
            assert not os.get_inheritable(stream.fileno())
            assert stream.read() == "import this\n"
    assert seen() == 0


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileExistsError):
        files.create(str(tmp_path / "there"))
    with pytest.raises(FileNotFoundError):
        files.create(str(tmp_path / "nowhere" / "new"))
    with pytest.raises(ValueError, match="null"):
        files.open_high(str(tmp_path / "there") + "\0", os.O_RDONLY)
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def few_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_FD - 50, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_where_so_many_are_not_allowed_it_has_the_number_it_got(tmp_path: Path) -> None:
    with few_files():
        expected = lowest()
        descriptor = files.create(str(tmp_path / "new"))
    assert descriptor == expected
    assert not os.get_inheritable(descriptor)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert (tmp_path / "new").read_bytes() == b"x"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
