"""Which functions that judge are entered as committed recordings are judged; the others stand in a list with a reason.

A function that no recording enters may be evidence that is missing, or code that nobody needs any more: nobody can
tell. ``golden/unentered.json`` names all of them, and becomes only shorter: ``make test`` fails if a function that is
entered stands in it, and if one that is not does not. ``python -m tests.entered`` takes out what is entered by now.

The golden tests themselves are watched, so that nothing is judged twice, and at next to no cost: each function is
entered by a stand-in at first, which notes its name and gives way.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

import leakscope

PACKAGE = Path(leakscope.__file__).parent
ROOMS = ("facts", "analyzers", "evidence", "reporting")
LIST = Path(__file__).parent / "golden" / "unentered.json"
NOTED = "entered"  # by this name a worker tells
_NOTE = "__entered__"  # what a module of these rooms calls its note by, while somebody watches


def listed() -> dict[str, str]:
    """{function: why no recording enters it}."""
    reasons: dict[str, list[str]] = json.loads(LIST.read_text(encoding="utf-8"))
    return {name: reason for reason, names in reasons.items() for name in names}


def told(functions: Collection[str], entered: Collection[str], known: Mapping[str, str]) -> list[str]:
    """What is wrong with the list of what is not entered, a line each; empty if nothing."""
    lines = [f"{name}: no committed recording enters it" for name in sorted({*functions} - {*entered} - {*known})]
    lines += [f"{name}: a recording enters it by now, take it out" for name in sorted({*known} & {*entered})]
    return lines + [f"{name}: is no function, take it out" for name in sorted({*known} - {*functions})]


def names() -> list[str]:
    """All functions and methods that judge, as ``facts/growth/tree.py tree_growth``."""
    return sorted(_functions())


class Watch:
    """Notes which functions are entered while it is on. ``entered``: since it was made."""

    def __init__(self) -> None:
        self.entered: set[str] = set()

    @contextmanager
    def on(self) -> Iterator[None]:
        functions = _functions()
        own = {name: functions[name].__code__ for name in functions.keys() - self.entered}

        def note(name: str) -> Callable[..., Any]:
            function = functions[name]
            if name in own:
                _restore(function, own.pop(name))
                self.entered.add(name)
            return function

        for clear in _cache_clears():  # what another test asked before would not be asked again
            clear()
        for name in own:
            function: Any = functions[name]
            function.__signature__ = _signature(name)  # diagnoses are asked what they take
            function.__globals__[_NOTE] = note
            function.__code__ = _stand_in(name)
        try:
            yield
        finally:
            for name, code in own.items():
                _restore(functions[name], code)


@cache
def _cache_clears() -> list[Callable[[], None]]:
    modules = {function.__module__ for function in _functions().values()}
    values = (value for module in modules for value in vars(sys.modules[module]).values())
    found = {id(value): value for value in values if str(getattr(value, "__module__", "")).startswith("leakscope.")}
    return [value.cache_clear for value in found.values() if hasattr(value, "cache_clear")]


def _restore(function: Any, code: CodeType) -> None:
    function.__code__ = code
    del function.__signature__


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(_functions()[name])


@cache
def _stand_in(name: str) -> CodeType:
    """Code that notes ``name`` and enters the function itself, whatever it is called with."""
    made: dict[str, Any] = {}
    exec(f"def enter(*args, **kwargs):\n    return {_NOTE}({name!r})(*args, **kwargs)", made)
    code: CodeType = made["enter"].__code__
    return code.replace(co_freevars=_functions()[name].__code__.co_freevars)


@lru_cache
def _functions() -> dict[str, FunctionType]:
    found: dict[str, FunctionType] = {}
    for room in ROOMS:
        top = importlib.import_module(f"leakscope.{room}")
        inner = pkgutil.walk_packages(top.__path__, f"{top.__name__}.")
        for module in (top, *(importlib.import_module(one.name) for one in inner)):
            found.update(_of(module, str(module.__file__)))
    return found


def _of(holder: ModuleType | type, file: str) -> Iterator[tuple[str, FunctionType]]:
    """The functions that a module or class defines. A protocol's say what others have to have, and are never called."""
    for value in list(vars(holder).values()):
        if isinstance(value, type) and isinstance(holder, ModuleType):
            if value.__module__ == holder.__name__ and not getattr(value, "_is_protocol", False):
                yield from _of(value, file)
            continue
        for function in _undecorated(value):
            if function.__code__.co_filename == file:  # it is not imported, and not what a dataclass made
                yield f"{Path(file).relative_to(PACKAGE)} {function.__qualname__}", function


def _undecorated(value: object) -> Iterator[FunctionType]:
    if isinstance(value, property):
        yield from (one for one in (value.fget, value.fset) if isinstance(one, FunctionType))
        return
    value = value.func if isinstance(value, cached_property) else getattr(value, "__wrapped__", value)
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        yield value


class Tally:
    """A pytest plugin, beside the workers: what they saw entered. ``is_whole``: all of them told it."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.is_whole = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        seen = getattr(node, "workeroutput", {}).get(NOTED)
        self.is_whole &= seen is not None
        self.entered.update(seen or ())


def main() -> int:
    """Judge the committed recordings, and take out of the list what is entered; says what has to be put into it."""
    tally = Tally()
    status = pytest.main(
        ["-q", "-n", "2", "--dist", "loadgroup", "-m", "golden and not further and not slow"], plugins=[tally]
    )
    if status != pytest.ExitCode.OK or not tally.is_whole:
        return int(status) or 1
    stale = {*listed()} - ({*names()} - tally.entered)
    reasons: dict[str, list[str]] = json.loads(LIST.read_text(encoding="utf-8"))
    kept = {reason: sorted({*found} - stale) for reason, found in reasons.items()}
    text = json.dumps({reason: found for reason, found in kept.items() if found}, indent=2, ensure_ascii=False)
    LIST.write_text(text + "\n", encoding="utf-8")
    print("\n".join(lines := told(names(), tally.entered, listed())))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
