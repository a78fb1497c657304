"""One pass over all objects: counted by type without running anything of theirs, wanted ones and long ones picked."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from leakscope.agent import heap


class _Sensitive(type):
    """A class of classes that minds being looked up in a dict."""

    def __hash__(cls) -> int:
        raise AssertionError("the job's code ran")


class _Plain:
    pass


def _objects() -> list[object]:
    return [[i] for i in range(5000)] + [{i: i} for i in range(300)] + [_Plain() for _ in range(70)] + [print] * 3


@pytest.mark.parametrize("with_sensitive", [False, True])
def test_objects_are_counted_by_type(with_sensitive: bool) -> None:
    objects = _objects()
    expected = Counter(map(type, objects))
    if with_sensitive:
        sensitive = _Sensitive("Sensitive", (), {})
        objects += [sensitive(), sensitive()]
    census, picked, large = heap.sweep(list(objects), (_Plain,))
    assert {cls: census[cls] for cls in expected} == dict(expected)
    assert picked == [obj for obj in objects if type(obj) is _Plain]
    assert large == []


@pytest.mark.parametrize("with_sensitive", [False, True])
def test_long_containers_are_picked(with_sensitive: bool) -> None:
    objects = _objects()
    if with_sensitive:
        objects.append(_Sensitive("Sensitive", (), {})())
    long = [list(range(100)), deque(range(120)), dict.fromkeys(range(110))]
    _, _, large = heap.sweep(objects + long + [(1,) * 200], (), None, 100)
    assert sorted(map(len, large)) == [100, 110, 120]


def test_usual_types_may_be_wanted() -> None:
    objects = _objects()
    _, picked, _ = heap.sweep(list(objects), (dict,))
    assert len(picked) == 300 and all(type(obj) is dict for obj in picked)
