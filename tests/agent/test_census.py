"""Two looks at all objects: counted by type without running anything of theirs, wanted ones picked."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterator

import pytest

from leakscope.agent.interpreter import census as heap
from leakscope.agent.interpreter.names import ids_of


class _Sensitive(type):
    """A class of classes that minds being looked up in a dict."""

    def __hash__(cls) -> int:
        raise AssertionError("the job's code ran")


class _Plain:
    pass


class _Other(_Plain):
    pass


@pytest.fixture(autouse=True)
def collector_is_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.freeze()  # of all that a test run holds, each test sweeps what is made here


def test_objects_are_counted_by_type() -> None:
    sensitive = _Sensitive("Sensitive", (), {})
    kept = [[_Plain() for _ in range(70)], [_Other() for _ in range(30)], [sensitive(), sensitive()], [print] * 3]
    classes = {id(cls): cls for cls in map(type, gc.get_objects())}
    expected = Counter(map(id, map(type, gc.get_objects())))
    census, picked = heap.sweep(ids_of(_Plain))
    assert (census.get(_Plain), census.get(_Other)) == (70, 30)
    assert set(map(id, picked)) == set(map(id, kept[0]))
    assert census.get(sensitive) == 2
    # All that the collector lists, but for what the pass itself needs for a moment, and what other threads make.
    after = Counter(map(id, map(type, gc.get_objects())))
    found = [(cls, expected[at], after[at], census.get(cls, 0)) for at, cls in classes.items()]
    found = [one for one in found if one[0] is not itertools.repeat]  # one for each type
    assert not [one for one in found if not min(one[1:3]) - 50 <= one[3] <= max(one[1:3]) + 50]


def test_types_that_nobody_knew_are_asked_for_once() -> None:
    asked: list[type] = []

    def is_other(cls: type) -> bool:
        asked.append(cls)
        return cls is _Other

    others = [_Other() for _ in range(5)]
    for _ in range(2):
        census, picked = heap.sweep(ids_of(_Plain), is_other)
        assert set(map(id, picked)) == set(map(id, others))
        assert census.get(_Other) == 5
    assert _Other in asked


def test_a_type_that_is_gone_and_another_at_its_address_is_not_taken_for_it() -> None:
    gone = type("Gone", (), {})
    wrong = [type("Wrong", (), {}) for _ in range(3)]
    heap._accepted[_is_gone].update(map(id, [gone, *wrong]))
    kept = [cls() for cls in wrong]
    census, picked = heap.sweep((), _is_gone)
    assert picked == [] and [census.get(type(obj)) for obj in kept] == [1, 1, 1]


def _is_gone(cls: type) -> bool:
    return cls.__name__ == "Gone"


def test_types_that_are_frozen_are_counted() -> None:
    early = _Plain()
    gc.freeze()
    try:
        late = [_Plain() for _ in range(7)]
        census, picked = heap.sweep(ids_of(_Plain))
        assert census.get(_Plain) == 7 and set(map(id, picked)) == set(map(id, late))
    finally:
        gc.unfreeze()
    assert heap.sweep()[0].get(type(early)) == 8


@pytest.mark.cases(2)
@pytest.mark.parametrize("wanted", [(list,), (tuple, list, dict), (set, deque)])
def test_what_was_looked_at_is_not_kept(wanted: tuple[type, ...]) -> None:
    obj = _Plain()
    seen = weakref.ref(obj)
    members = [obj]
    _, picked = heap.sweep(ids_of(*wanted))
    assert any(found is members for found in picked) is (list in wanted)
    assert not any(found is picked for found in picked)
    del picked, members, obj
    assert seen() is None  # at once, though the collector is off


@pytest.mark.further
def test_objects_are_finalized_on_their_own_threads() -> None:
    """As many as another thread makes meanwhile: none is kept so long that it ends here."""
    here = threading.get_ident()
    wrong, stop = [], threading.Event()

    class Noted:
        def __del__(self) -> None:
            if threading.get_ident() == here:
                wrong.append(1)

    def work() -> None:
        kept = []
        while not stop.is_set():
            kept.append(Noted())
            if len(kept) > 50:
                kept.clear()

    ballast = [[i] for i in range(200_000)]
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            heap.sweep(ids_of(_Plain))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ballast and not wrong
