"""One function over many recordings, by processes of this computer, Dask, Ray or Spark; the results in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..errors import BadInput

ENGINES = ("local", "dask", "ray", "spark")

_FEW = 4  # recordings: to start processes and load the libraries in each takes as long

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def map_over(
    function: Callable[[_In], _Out],
    items: Sequence[_In],
    engine: str = "local",
    *,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[_Out]:
    """``function(item)`` of each, in the order of ``items``, as soon as they are there.

    Function, items and results are pickled. ``address``: of a cluster that runs; None: one is started here, and ended
    at the end, of ``workers`` processes. **Errors** BadInput for an engine that does not exist or is not installed.
    """
    if engine not in ENGINES:
        raise BadInput(f"there is no engine {engine!r}: there are {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise BadInput(f"--workers {workers}: one is the least")
    if not items:
        return iter(())
    few = workers is None and engine == "local" and len(items) <= _FEW
    count = 1 if few else min(workers or os.cpu_count() or 1, len(items))
    if engine == "local":
        if address is not None:
            raise BadInput("--address is for a cluster: name its --engine too (dask, ray or spark)")
        from ._local import run
    elif engine == "dask":
        from ._dask import run
    elif engine == "ray":
        from ._ray import run
    else:
        from ._spark import run
    return run(function, items, count, address)
