"""leakscope's part inside the job's Python processes, and the modules it shares with the recorder.

Standard library only, Python 3.8+, staged as a folder of its own for each run and started by ``sitecustomize``. It
prints nothing, raises nothing, holds no object of the job between snapshots, and writes down what it could not look at.
This file imports nothing: the recorder and storage use ``journal`` and ``config`` and must not pay for the rest.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def start(folder: str) -> None:
    """Begin in this process; ``folder`` is the one above ours. **Errors** any: the caller goes on without an agent."""
    from .native import address_space

    if address_space.is_scarce():
        return
    from . import refusal

    why_not = refusal.reason()
    if why_not is not None:
        refusal.note(folder, why_not)
        return
    try:
        _begin(folder)
    except Exception as error:
        refusal.note(folder, refusal.failure(error))
        raise


def _begin(folder: str) -> None:
    from .native import descriptors

    taken = descriptors.take_low_ones()
    try:
        import ctypes  # noqa: F401  libffi 3.5 keeps a file open from here on: seen with Debian's Python 3.14
    finally:
        descriptors.give_back(taken)
    from . import main

    main.start(folder)
    _kept.append(main)
    counter = main.counter()
    if counter is not None:
        # Not by "global": Python 3.7 takes none of a name that is annotated, and has to say that it is too old.
        globals()["count"] = counter


_kept: list[ModuleType] = []


def mark(step: object = None, phase: object = None, label: object = None) -> None:
    """A step, phase or label of the user's own; called by ``leakscope.mark``."""
    for main in _kept:
        main.mark(step, phase, label)


# One more request or task is done with; called by ``leakscope.integrations`` with what it is. A function of C, in which
# no signal handler runs and which no profiler sees: where the agent stays away, one that does nothing. **Cost** 0.1 us.
count: Callable[[str], object] = str


def snapshot() -> None:
    """A snapshot soon; called by ``leakscope.snapshot``."""
    for main in _kept:
        main.snapshot()


def is_over() -> bool:
    """Whether nothing is recorded here any more; asked by ``leakscope.record``, which then begins anew."""
    return all(main.is_over() for main in _kept)
