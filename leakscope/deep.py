"""A closer look at live objects, in a notebook or a debugger: who refers to one, what grows, how large one is.

Thin functions over objgraph and pympler (``pip install 'leakscope-recorder[deep]'``). They stop the program for
seconds and run code of the objects: right where one person looks at one process, wrong in a job that is recorded.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pandas as pd

from .errors import BadInput, to_install


def chain_to(obj: object, *, max_depth: int = 20) -> str | None:
    """How a module comes to hold an object: ``train.CACHE['batches'][3]``; None if no module does.

    The shortest way by references; an object that is only held by a running function has none, nor has one that is
    held by what ``gc.freeze()`` hides.
    """
    objgraph = _package("objgraph")
    chain = objgraph.find_backref_chain(obj, objgraph.is_proper_module, max_depth=max_depth)
    if not objgraph.is_proper_module(chain[0]):
        return None
    text = chain[0].__name__
    for number, (holder, held) in enumerate(zip(chain, chain[1:])):
        text += _step(holder, held, chain[number - 1] if number else None)
    return str(text)


def growth(limit: int = 10) -> pd.DataFrame:
    """Types with more objects than ever before: type, count, and how many came since the last call."""
    objgraph = _package("objgraph")
    gc.collect()
    return pd.DataFrame(objgraph.growth(limit=limit), columns=["type", "count", "gained"])


def graph(obj: object, path: str | os.PathLike[str], *, max_depth: int = 4) -> None:
    """Draw what refers to an object into a file: ``.png``, ``.svg``, or ``.dot`` for which no graphviz is needed."""
    objgraph = _package("objgraph")
    if not os.fspath(path).endswith(".dot") and shutil.which("dot") is None:
        raise BadInput(f"{path} needs graphviz's program dot: install graphviz, or name a file that ends in .dot")
    objgraph.show_backrefs([obj], filename=os.fspath(path), max_depth=max_depth, extra_ignore=[id(locals())])


def sizes(holders: Mapping[str, object]) -> pd.DataFrame:
    """Bytes of each named object with all it refers to, the largest first: ``sizes({"history": trainer.history})``.

    What several hold counts in each. A torch tensor counts as its Python object, without its storage.
    """
    asizeof = _package("pympler.asizeof", "pympler")
    rows = [(name, type(held).__qualname__, int(asizeof.asizeof(held))) for name, held in holders.items()]
    frame = pd.DataFrame(rows, columns=["name", "type", "size_bytes"])
    return frame.sort_values("size_bytes", ascending=False, ignore_index=True)


def _package(module: str, package: str | None = None) -> Any:
    """**Errors** BadInput with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadInput(f"this needs {package or module}, which is not installed: {to_install('deep')}") from None


def _step(holder: Any, held: object, above: object) -> str:
    """From a holder to what it holds, as one would write it; nothing for the dict that is an object's or a module's."""
    if isinstance(holder, dict):
        key = next((key for key, value in holder.items() if value is held), None)
        if above is not None and getattr(above, "__dict__", None) is holder:
            return f".{key}"
        return f"[{key!r}]"
    if isinstance(holder, (list, tuple)):
        return f"[{next(i for i, value in enumerate(holder) if value is held)}]"
    if isinstance(holder, ModuleType) or getattr(holder, "__dict__", None) is held:
        return ""
    attributes = getattr(holder, "__dict__", {})
    name = next((name for name, value in attributes.items() if value is held), None)
    return f".{name}" if name else f".<{type(holder).__name__}>"
