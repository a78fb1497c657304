"""objgraph, as its documentation finds leaks: the types that grew, and a chain that keeps one of the new objects."""

from __future__ import annotations

import gc
import inspect
import random
from pathlib import Path
from typing import Any

from leakbench.answer import HOLDER, Answer
from leakbench.inside import left_in, running

OFFERS = frozenset({HOLDER})
REQUIRES = ("objgraph",)
HOW = "`growth()` twice; of the three types that grew most `find_backref_chain` to a module, the names on the way"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return running(__name__, program, seconds, folder)


def start() -> None:
    pass


def look(earlier: Any, program: Path) -> Any:
    import objgraph

    gc.collect()
    peaks: dict[str, int] = {} if earlier is None else earlier
    grown = objgraph.growth(limit=3, peak_stats=peaks)
    if earlier is None:
        return peaks
    names: list[str] = []
    for kind, *_ in grown:
        found = objgraph.by_type(kind)
        if not found:
            continue
        one = random.Random(0).choice(found[len(found) // 2 :])
        chain = objgraph.find_backref_chain(one, objgraph.is_proper_module, max_depth=20)
        for holder, held in zip(chain, chain[1:]):
            names += _name_in(holder, held)
        del found, one, chain
    return {"holders": list(dict.fromkeys(reversed(names)))[:10]}


def _name_in(holder: Any, held: Any) -> list[str]:
    """Under which name a module, an instance or a dict has an object."""
    inside = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
    if inspect.isframe(holder):
        inside = holder.f_locals
    return [key for key, value in list(inside.items()) if value is held and isinstance(key, str)][:1]


def answer(folder: Path, program: Path) -> Answer:
    return Answer.of(left_in(folder))
