"""Who holds what a test keeps: two snapshots of the heap, some runs of the test apart. Only after it failed.

The two become a small recording, so that the facts name the holder and its line as they do in a report. The test's
fixtures are variables of a module meanwhile: else they would bear the names by which pytest knows them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType
from typing import TYPE_CHECKING

import pytest

from ..agent.interpreter import census, names
from ..errors import BadInput
from ..own_heap import OwnHeap
from ..units import format_bytes
from ..words import printable

if TYPE_CHECKING:
    from ..facts.heap.place import Place
    from ..storage import Recording

_MIN_SHARE = 0.2  # of the growth: below, a holder is not what the test fails for
_MOST_SOURCES = 300
_SHOWN = 3
_SUSPENDED = names.ids_of(GeneratorType, CoroutineType, AsyncGeneratorType)
_FIXTURES = "leakscope_fixtures"  # a module that is there during a snapshot
_UNSEEN = (
    "No module, class, closure, cache, generator or fixture of your code was seen to hold it: a library may, or memory "
    "outside Python."
)


def find_holders(run: Callable[[], object], repeats: int, growth_bytes: float, item: pytest.Function) -> list[str]:
    """A line or two for each holder, largest first; or the sentence that says none was seen."""
    with TemporaryDirectory(prefix="leakscope-") as folder:
        try:
            heap = OwnHeap(Path(folder))
            with _fixtures_named(item):
                heap.take()
            try:
                for _ in range(repeats):
                    run()
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                return [f"Who holds it is not known: a further run raised {type(error).__name__}."]
            gc.collect()
            with _fixtures_named(item):
                heap.take()
        except BadInput as error:
            return [f"Who holds it is not known: {error}."]
        recording = heap.recording(_sources(item))
        found = sorted(_growing(recording, growth_bytes * repeats), reverse=True)
    return [f"{printable(text)} (+{format_bytes(size / repeats)} a run)" for size, text in found[:_SHOWN]] or [_UNSEEN]


@contextmanager
def _fixtures_named(item: pytest.Function) -> Iterator[None]:
    """Those of the test, and generators of the user's that wait: a fixture that yields is one."""
    module = ModuleType(_FIXTURES)
    for waiting in census.sweep(_SUSPENDED)[1]:
        code = getattr(waiting, "gi_code", None) or getattr(waiting, "cr_code", None) or waiting.ag_code
        if names.is_user_file(code.co_filename):
            module.__dict__[code.co_name] = waiting
    for name, value in item.funcargs.items():
        if not type(value).__module__.startswith(("_pytest", "pytest")) and not callable(value):
            module.__dict__[name] = value
    sys.modules[_FIXTURES] = module
    try:
        yield
    finally:
        del sys.modules[_FIXTURES]


def _sources(item: pytest.Function) -> Iterator[tuple[str, str, str]]:
    for module, file in [*_user_files(), (_FIXTURES, str(item.path))]:
        with suppress(OSError, UnicodeDecodeError):
            yield module, file, Path(file).read_text(encoding="utf-8")


def _user_files() -> list[tuple[str, str]]:
    """(module, file) of the user's modules; a checkout of leakscope itself looks like one, and is none."""
    found = {}
    for module in list(sys.modules):
        if module.partition(".")[0] == __name__.partition(".")[0]:
            continue
        file = names.module_file(module)
        if names.is_user_module(module, file) and file is not None and file.endswith(".py"):
            found[file] = module
    return [(module, file) for file, module in list(found.items())[:_MOST_SOURCES]]


def _growing(recording: Recording, growth_bytes: float) -> Iterator[tuple[float, str]]:
    """(bytes gained between the snapshots, who and where)."""
    from ..facts.code.adding import adding_lines
    from ..facts.code.recorded import sources_of
    from ..facts.heap.accumulation import accumulations
    from ..facts.heap.comparable import heap_of
    from ..facts.heap.owners import user_place
    from ..facts.where.holders import holder_name

    heap = heap_of(recording, os.getpid(), 0.0, 10.0)
    if heap is None:
        return
    sources = sources_of(recording)
    for holder in accumulations(heap, _MIN_SHARE * growth_bytes):
        if holder.place is None or _is_ours(holder.place):
            continue
        place = user_place(holder.place)
        lines = adding_lines(sources, place.as_holder())
        name = holder_name(place)
        text = f"{name.replace(f'{_FIXTURES}.', 'fixture ')} keeps it"
        if lines:
            text += f", {lines[0].file}:{lines[0].line}: {lines[0].text.strip()}"
        yield holder.growth_bytes, text


def _is_ours(place: Place) -> bool:
    above: Place | None = place
    while above is not None and not above.type_name.startswith("leakscope."):
        above = above.parent
    return above is not None
