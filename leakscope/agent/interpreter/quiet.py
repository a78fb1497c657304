"""Keep torch from looking at what we do. Runs in the job.

Our code may run in the middle of the job's: in an optimizer step that Dynamo compiles, in a function that is being
traced. Dynamo would then compile a snapshot (it raised ``InternalTorchDynamoError`` into the job), and torch.jit would
record the sizes we read as operations of the trace.
"""

from __future__ import annotations

import sys

from . import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple

    Hidden = Tuple[Any, ...]

_switches: list[Any] = []  # of torch's compiled part, once it is there: found anew they would be half of a step's cost


def hide() -> Hidden | None:
    """Switch off Dynamo and tracing for this thread; returns what ``show`` needs to switch them on again."""
    if not _switches and not _find_switches():
        return None
    set_eval_frame, get_state, set_state = _switches
    before = set_eval_frame(None)
    state = None if get_state is None or set_state is None else get_state()
    if state is not None:
        set_state(None)
    return set_eval_frame, before, set_state, state


def _find_switches() -> bool:
    binding = sys.modules.get("torch._C")
    set_eval_frame = names.getattr_plain(names.getattr_plain(names.getattr_plain(binding, "_dynamo"), "eval_frame"),
                                         "set_eval_frame")  # fmt: skip
    if set_eval_frame is None:
        return False
    get_state, set_state = (names.getattr_plain(binding, n) for n in ("_get_tracing_state", "_set_tracing_state"))
    _switches[:] = set_eval_frame, get_state, set_state
    return True


def show(hidden: Hidden | None) -> None:
    if hidden is None:
        return
    set_eval_frame, before, set_state, state = hidden
    if state is not None:
        set_state(state)
    set_eval_frame(before)


def keep_out(*functions: Any) -> None:
    """Mark functions of ours that run before ``hide`` does: Dynamo neither inlines nor compiles them."""
    for function in functions:
        function._torchdynamo_disable = True


def skip_code(*functions: Any) -> None:
    """Hides functions that Dynamo meets as frames of their own (a pending call); to be called once torch is there."""
    skip: Any = sys.modules.get("torch._C")
    for name in ("_dynamo", "eval_frame", "skip_code"):
        skip = names.getattr_plain(skip, name)
    if skip is not None:
        for function in (
            hide,
            show,
            _find_switches,
            names.getattr_plain,
            names.namespace_of_module,
            names.is_a,
            *functions,
        ):
            skip(function.__code__)


keep_out(hide, show, _find_switches)
