"""Functions that no committed recording enters are listed, each with a reason, and no others are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType

import pytest

from tests import entered

FILE = "leakscope/facts/made_up.py"


class Parent:
    def name(self) -> str:
        return "parent"


class Child(Parent):
    @property
    def size(self) -> int:
        return len(self.name())

    @cached_property
    def twice(self) -> int:
        return 2 * self.size

    def name(self) -> str:
        return f"child of {super().name()}"  # it has a cell


def numbers(*most: int, least: int = 0) -> Iterator[int]:
    yield from range(least, *most)


def never(why: str) -> None:
    raise AssertionError(why)


FUNCTIONS: dict[str, FunctionType] = {
    "Child.size": Child.__dict__["size"].fget,
    "Child.twice": Child.__dict__["twice"].func,
    "Child.name": Child.__dict__["name"],
    "numbers": numbers,
    "never": never,
}  # type: ignore[dict-item]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[entered.Watch]:
    monkeypatch.setattr(entered, "_functions", lambda: FUNCTIONS)
    caches = entered._stand_in, entered._signature
    for cache in caches:
        cache.cache_clear()
    yield entered.Watch()
    for cache in caches:
        cache.cache_clear()


def test_what_is_entered_is_noted_and_does_what_it_does(watch: entered.Watch) -> None:
    own = {name: function.__code__ for name, function in FUNCTIONS.items()}
    with watch.on():
        assert (Child().twice, list(numbers(3, least=1))) == (2 * len("child of parent"), [1, 2])
    with watch.on():
        assert list(inspect.signature(never).parameters) == ["why"]  # whoever asks is told of the function itself
    assert watch.entered == FUNCTIONS.keys() - {"never"}
    assert {name: function.__code__ for name, function in FUNCTIONS.items()} == own


def test_all_that_judges_is_known_by_its_place() -> None:
    names = entered.names()
    assert "reporting/__init__.py analyze" in names and "analyzers/fd_pileup.py findings" in names
    assert {name.partition("/")[0] for name in names} == set(entered.ROOMS)
    assert entered.listed().keys() <= set(names), "of functions that are no more"
    assert all(len(reason) > 20 for reason in entered.listed().values())


def test_the_list_neither_lacks_nor_keeps_a_function() -> None:
    known = {"a": "for want of a GPU", "b": "for want of a GPU", "gone": "it is old"}
    assert entered.told(["a", "b", "c", "d"], ["b", "c"], known) == [
        "d: no committed recording enters it",
        "b: a recording enters it by now, take it out",
        "gone: is no function, take it out",
    ]
    assert not entered.told(["a", "c"], ["c"], {"a": "for want of a GPU"})
