"""A fleet that never was: ordinary recordings of jobs, a service and nightly runs, with planted faults and their truth.

``leakscope fleet demo`` writes one, to try the other commands on; so do the tests and benchmarks. The samples of a
recording are drawn, and its footer says what a report of the whole run would have said: the rows of the agent are not
there. The same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import BadInput
from . import faults, plan, writing

_FEWEST_NODES = 4
_GPUS = 8  # of a node
_INTERVAL_S = 10.0
_WHOLE_PROCESSES, _FEW_PROCESSES, _FEW_SAMPLES = 10, 3, 20


def demo(
    folder: Path, *, nodes: int, hours: float, seed: int, kinds: Sequence[str] | int, is_whole: bool = False
) -> tuple[int, list[faults.Fault]]:
    """Write a fleet below ``folder``: how many recordings it has, and the faults, which truth.json names too.

    ``kinds``: of ``faults.FAULTS``, or a number: so many drawn by the seed. ``is_whole``: with every sample of ten
    processes, 2 MB a recording, not 20 samples of three. **Errors** BadInput for a fault that there is not, a fleet
    that is too small, a folder that has something in it.
    """
    if not isinstance(kinds, int) and (unknown := [kind for kind in kinds if kind not in faults.FAULTS]):
        raise BadInput(f"no fault is called {unknown[0]!r}: there are {', '.join(faults.FAULTS)}")
    if nodes < _FEWEST_NODES or hours <= 0:
        raise BadInput(f"a fleet has {_FEWEST_NODES} nodes or more, and lasts longer than no time")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there already: name a folder that is not, or is empty")
    fleet = plan.healthy(nodes, _GPUS, seed, hours)
    planted = faults.planted(fleet, seed, kinds)
    writing.write(
        fleet.runs, planted, folder, interval_s=_INTERVAL_S,
        processes=_WHOLE_PROCESSES if is_whole else _FEW_PROCESSES, seed=seed,
        most_samples=None if is_whole else _FEW_SAMPLES,
    )  # fmt: skip
    return len(fleet.runs), planted
