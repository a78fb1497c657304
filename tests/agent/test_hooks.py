"""The agent's finder finds nothing, whoever asks it and however, and is told of the modules it waits for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.life.hooks import Hooks

TOLD: list[str] = []


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "waited_for.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    hooks = Hooks({"waited_for": lambda _hooks, module: TOLD.append(module.__name__), "never_there": lambda *_: None})
    hooks.start()
    yield sys.meta_path[0]
    sys.meta_path.remove(hooks._finder)
    sys.modules.pop("waited_for", None)
    TOLD.clear()


def test_finders_of_libraries_may_ask_it_in_every_way_that_python_has(finder: Any) -> None:
    find = finder.find_spec
    path: list[str] = []
    assert find("other") is find("other", path) is find("other", path, None) is None
    assert find("other", path=path) is find("other", path, target=None) is find(fullname="other", path=path) is None
    with pytest.raises(TypeError):
        find()


def test_another_finder_that_asks_gets_no_module_by_the_name_of_its_variable(finder: Any) -> None:
    name = "waited_for"
    assert finder.find_spec(f"{name}.part", None, None) is None


def test_a_finder_that_delegates_to_all_others_imports_as_ever(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Delegates:
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            found = (other.find_spec(fullname, path, target=target) for other in sys.meta_path if other is not self)
            return next(filter(None, found), None)

    monkeypatch.setattr(sys, "meta_path", [Delegates(), *sys.meta_path])
    import waited_for  # type: ignore[import-not-found]

    assert waited_for.__file__


def test_it_is_told_as_a_module_has_been_imported(finder: Any) -> None:
    import waited_for  # noqa: F401

    assert TOLD == ["waited_for"]
