"""Who holds what a test keeps: two snapshots of the heap, some runs of the test apart. Only after it failed.

The snapshot is the agent's walk, begun at modules, suspended generators (a fixture that yields is one) and the test's
fixtures. The two become a small recording, so that the analyzers name the holder and its line as they do in a report.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import AsyncGeneratorType, CoroutineType, GeneratorType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ..agent.interpreter import names
from ..agent.journal import Journal
from ..agent.probes import holders
from ..agent.torch.tensor_openers import Tensors
from ..agent.walking import openers, roots
from ..agent.walking.walk import Walk
from ..schema import SCHEMA_VERSION
from ..units import format_bytes

if TYPE_CHECKING:
    from ..storage import Recording

_BUDGET_S = 10.0  # of CPU for a snapshot; a million objects take about one
_MIN_SHARE = 0.2  # of the growth: below, a holder is not what the test fails for
_MOST_SOURCES = 300
_SHOWN = 3
_FIXTURE = "fixture "
_SUSPENDED = (GeneratorType, CoroutineType, AsyncGeneratorType)
_UNSEEN = (
    "No module, class, closure, cache, generator or fixture of your code was seen to hold it: a library may, or memory "
    "outside Python."
)
Row = dict[str, Any]


def find_holders(run: Callable[[], object], repeats: int, growth_bytes: float, item: pytest.Function) -> list[str]:
    """A line or two for each holder, largest first; or the sentence that says none was seen."""
    before = _snapshot(item)
    try:
        for _ in range(repeats):
            run()
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        return [f"Who holds it is not known: a further run raised {type(error).__name__}."]
    gc.collect()
    after = _snapshot(item)
    with TemporaryDirectory(prefix="leakscope-") as folder:
        recording = _as_recording(Path(folder), (before, after))
        found = sorted(_growing(recording, growth_bytes * repeats), reverse=True)
    return [f"{text} (+{format_bytes(size / repeats)} a run)" for size, text in found[:_SHOWN]] or [_UNSEEN]


def _snapshot(item: pytest.Function) -> list[Row]:
    """Rows of the table ``holders``. The collector waits meanwhile, as in a take of the agent."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        objects = gc.get_objects()
        census = names.ByClass()
        for obj in objects:
            census.add(type(obj), 1)
        suspended = [obj for obj in objects if type(obj) in _SUSPENDED and _is_users(obj)]
        del objects
        walk = Walk(time.thread_time() + _BUDGET_S, Tensors())
        # Not roots.feed: it would begin at the frames, which here are pytest's and ours.
        roots._hide_namespaces(walk)
        roots._user_modules(walk)
        roots._unreached(walk, suspended)
        del suspended
        for name, value in item.funcargs.items():
            if not type(value).__module__.startswith(("_pytest", "pytest")):
                named = (name, None, item.module.__name__, str(item.path), None, True)
                walk.root("frame", f"{_FIXTURE}{name}", openers.GLOBAL, value, named)
        walk.run()
        walk.finish(census)
        return list(holders.rows(SimpleNamespace(walk=walk)))
    finally:
        if collecting:
            gc.enable()


def _is_users(suspended: Any) -> bool:
    """pytest's own hooks are suspended generators, too, and lead to all that it knows."""
    codes = (getattr(suspended, name, None) for name in ("gi_code", "cr_code", "ag_code"))
    return any(code is not None and names.is_user_file(code.co_filename) for code in codes)


def _as_recording(folder: Path, snapshots: tuple[list[Row], ...]) -> Recording:
    """The snapshots, a second apart, and the sources of the user's modules."""
    from ..storage import open_recording

    output = folder / "run.parquet"
    journal_folder = folder / f"{output.name}.journal"
    journal_folder.mkdir()
    meta = {"format_version": SCHEMA_VERSION, "start_mono_ns": 0, "command": sys.argv}
    (journal_folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    journal = Journal(str(journal_folder), "pytest")
    process = {"pid": os.getpid(), "start_ticks": 0}
    for number, rows in enumerate(snapshots, start=1):
        take = {**process, "time_mono_ns": number * 10**9, "take": number}
        journal.add("takes", {**take, "reason": "user", "truncated": False})
        for row in rows:
            journal.add("holders", {**take, **row})
    for module, file in _user_files():
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        journal.add("sources", {**process, "time_mono_ns": 0, "module": module, "file": file, "source_text": text})
    journal.close()
    return open_recording(output)


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
    from ..facts.heap.paths import accumulations, heap_of, user_place
    from ..facts.where.holders import holder_name, holder_of
    from ..facts.where.sources import sources_of

    heap = heap_of(recording, os.getpid(), 0.0, 10.0)
    if heap is None:
        return
    sources = sources_of(recording)
    for holder in accumulations(heap.roots, _MIN_SHARE * growth_bytes):
        if holder.place is None:
            continue
        place = user_place(holder.place)
        lines = adding_lines(sources, holder_of(place.row))
        text = f"{_FIXTURE if place.path.startswith(_FIXTURE) else ''}{holder_name(place)} keeps it"
        if lines:
            text += f", {lines[0].file}:{lines[0].line}: {lines[0].text.strip()}"
        yield holder.growth_bytes, text
