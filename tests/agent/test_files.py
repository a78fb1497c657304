"""Files of the agent's have high numbers, at every instant in which another thread of the job can look."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope.agent.interpreter import files
from leakscope.agent.journal import LEAST_FD, Journal, read_blocks
from leakscope.agent.native import memory

OFTEN = 300
PATIENCE_S = 20


def lowest() -> int:
    """The number that the next file of the job's will get."""
    number = os.dup(0)
    os.close(number)
    return number


class Looker:
    """Another thread, which looks whether something is open where the next file of the job's will be."""

    def __init__(self, how_often: list[int], end: Callable[[], None]) -> None:
        self._how_often, self._end = how_often, end

    def rounds(self) -> Iterator[int]:
        """Numbers, until it had its turn as often as we: on a busy machine that may be later than we have ours."""
        ends_at = time.monotonic() + PATIENCE_S
        yield from range(OFTEN)
        number = OFTEN
        while self._how_often[1] <= OFTEN and time.monotonic() < ends_at:
            yield number
            number += 1

    def seen(self) -> int:
        self._end()
        assert self._how_often[1] > OFTEN
        return self._how_often[0]


@pytest.fixture
def looker() -> Iterator[Looker]:
    gc.collect()  # what other tests left may end in code of its own, where threads change
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

    def end() -> None:
        ends.set()
        thread.join()

    yield Looker(found, end)
    end()
    sys.setswitchinterval(interval)


def test_a_journal_that_is_opened_again(tmp_path: Path, looker: Looker) -> None:
    journal = Journal(str(tmp_path), "agent-1-2", create=files.create)
    for number in looker.rounds():
        journal.add("sentinels", {"pid": number})
        journal.flush()
        journal.abandon()
    assert looker.seen() == 0
    assert sum(len(list(read_blocks(file))) for file in tmp_path.iterdir()) == number + 1


def test_figures_of_the_kernel(looker: Looker) -> None:
    for _ in looker.rounds():
        descriptor, *_ = memory._open
        if descriptor >= LEAST_FD:
            os.close(descriptor)  # as a daemon does
        assert memory.rss_bytes()
    assert looker.seen() == 0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Written before anybody looks."""
    file = tmp_path / "source.py"
    file.write_text("import this\n")
    return file


def test_a_file_that_is_read(source: Path, looker: Looker) -> None:
    for _ in looker.rounds():
        with open(source, opener=files.open_high) as stream:
            assert stream.fileno() >= LEAST_FD
            assert not os.get_inheritable(stream.fileno())
            assert stream.read() == "import this\n"
    assert looker.seen() == 0


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
