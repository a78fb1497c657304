"""The number of members at which a program stops a container from growing, as its sources say it."""

from __future__ import annotations

import pytest

from leakscope.facts.code.caps import caps
from leakscope.facts.code.index import Source
from leakscope.facts.code.names import Holder

CLASS = """
import collections
import heapq

MOST = 3 * 1000


class Store:
    def __init__(self, most=500, settings=None):
        self.most = most
        self.least = settings.least
        self.rows = collections.deque()

    def add(self, row):
        {}

    def _trim(self):
        self.rows.popleft()

    def _look(self):
        return self.rows[0]


def main():
    store = Store(2000)
    while True:
        store.add(1)
"""
ADD = "self.rows.append(row)\n        "


def of(body: str) -> list[tuple[int, ...]]:
    text = CLASS.format(body)
    return [cap.members for cap in caps([Source("__main__", "/job/a.py", text)], Holder("rows", "Store", "__main__"))]


@pytest.mark.parametrize(
    ("body", "members"),
    [
        (ADD + "if len(self.rows) > self.most: self.rows.popleft()", 2000),
        (ADD + "while self.most < len(self.rows): del self.rows[0]", 2000),
        (ADD + "if len(self.rows) >= MOST: self._trim()", 3000),
        (ADD + "if len(self.rows) == 64: self.rows = []", 64),
        (ADD + "self.rows = self.rows[-MOST:]", 3000),
        (ADD + "del self.rows[:-10**3]", 1000),
        (ADD + "self.rows[:] = self.rows[-50:]", 50),
        ("if len(self.rows) < 1 << 8: self.rows.append(row)", 256),
        ("if len(self.rows) < 50: heapq.heappush(self.rows, row)\n        else: heapq.heapreplace(self.rows, row)", 50),
        ("count = len(self.rows)\n        if count >= MOST:\n            return\n        self.rows.append(row)", 3000),
        ("if self.rows.qsize() > 9: self.rows.get_nowait()\n        self.rows.put(row)", 9),
    ],
)
def test_a_length_that_is_kept(body: str, members: int) -> None:
    assert of(body) == [(members,)]


@pytest.mark.parametrize(
    "body",
    [
        ADD,
        ADD + "if len(self.rows) > self.most: print('many')",
        ADD + "if len(self.rows) > self.most: self._look()",
        ADD + "if len(row) > self.most: self.rows.popleft()",
        ADD + "if len(self.rows) < self.most: print('few')",
        ADD + "other = self.rows[-50:]",
    ],
)
def test_what_keeps_nothing(body: str) -> None:
    assert of(body) == []


def test_a_number_from_elsewhere_is_not_known() -> None:
    assert of(ADD + "if len(self.rows) > self.least: self.rows.popleft()") == [()]


def test_every_number_that_it_may_be_is_given() -> None:
    text = (
        CLASS.format(ADD + "if len(self.rows) > self.most: self.rows.popleft()") + "    Store()\n    Store(most=70)\n"
    )
    (cap,) = caps([Source("__main__", "/job/a.py", text)], Holder("rows", "Store", "__main__"))
    assert cap.members == (70, 500, 2000) and cap.line.text.startswith("if len")
