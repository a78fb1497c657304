"""Parameters without a value or gradient, or with NaN or Inf in them, as an optimizer step ends. Runs in the job.

Each parameter counts once, under the first state that is true of it: none-parameter (registered, but None),
nan-parameter, nan and inf (its gradient), none (no gradient), frozen, ok. Values are looked at in samples of 32
elements of a part of the parameters: a NaN spreads to all of a connected model within a step or two.
"""

from __future__ import annotations

import struct
import sys

from ..interpreter import names
from . import weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

NONE_PARAMETER, NAN_PARAMETER, NAN, INF, NONE, FROZEN, OK = STATES = (
    "none-parameter", "nan-parameter", "nan", "inf", "none", "frozen", "ok"
)  # fmt: skip
MOST_NAMED = 20
MOST_READ = 64  # parameters whose values are looked at, spread evenly over the list
_SAMPLES = struct.Struct("<%df" % weights.COUNT)
_INFINITE = (float("inf"), float("-inf"))
# Unsloth replaces parts of these and warns, when it is not the first: what it replaces is then in use already.
_FIRST = {"unsloth": ("transformers", "trl", "peft")}


def look(named_parameters: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows of the table ``gradients``, less those every table has.

    ``named_parameters``: [(weight set, name, parameter or None, is it trained), …], as registered by the modules.
    **Shape** for each weight set and state the first names, then one row for the others of that state; frozen and ok
    are only counted. **Cost** 1 us a parameter, and 60 us for each of the ``MOST_READ``.
    """
    binding = names.getattr_plain(sys.modules.get("torch"), "_C")
    guard = names.getattr_plain(binding, "DisableTorchFunction")
    base = names.getattr_plain(sys.modules.get("torch"), "Tensor")
    if guard is None or base is None:
        return []
    every = max(1, -(-len(named_parameters) // MOST_READ))
    found: dict[Any, dict[str, list[tuple[str, str | None]]]] = {}
    with guard():
        for number, (weight_set, name, parameter, is_trained) in enumerate(named_parameters):
            try:
                state = _state(base, parameter, is_trained, number % every == 0)
                shape = None if state in (OK, FROZEN) or parameter is None else _shape(base, parameter)
            except Exception as error:
                if names.is_foreign(error):
                    raise
                continue  # a lazy or foreign parameter: nothing is said of it
            found.setdefault(weight_set, {}).setdefault(state, []).append((name, shape))
    return [row for weight_set, states in found.items() for row in _rows(weight_set, states)]


def _state(base: Any, parameter: Any, is_trained: bool, is_read: bool) -> str:
    if parameter is None:
        return NONE_PARAMETER
    if not is_trained or not base.requires_grad.__get__(parameter):
        return FROZEN
    if is_read and _has_nan(weights.fingerprint(parameter)):
        return NAN_PARAMETER
    # Only a leaf's: reading another's warns.
    gradient = base.grad.__get__(parameter) if base.is_leaf.__get__(parameter) else parameter
    if gradient is None:
        return NONE
    sample = weights.fingerprint(gradient) if is_read and gradient is not parameter else None
    if _has_nan(sample):
        return NAN
    return INF if sample is not None and any(value in _INFINITE for value in _SAMPLES.unpack(sample)) else OK


def _has_nan(sample: bytes | None) -> bool:
    return sample is not None and any(value != value for value in _SAMPLES.unpack(sample))


def _shape(base: Any, parameter: Any) -> str:
    return "x".join(map(str, base.size(parameter))) or "scalar"


def _rows(weight_set: Any, states: Mapping[str, list[tuple[str, str | None]]]) -> Iterator[dict[str, Any]]:
    for state in STATES:
        members = states.get(state, [])
        named = [] if state in (OK, FROZEN) else sorted(members, key=_is_bias)[:MOST_NAMED]
        for name, shape in named:
            yield _row(weight_set, name, state, 1, shape)
        if len(members) > len(named) or state == OK:
            yield _row(weight_set, None, state, len(members) - len(named), None)


def _is_bias(member: tuple[str, str | None]) -> bool:
    """Biases come last: many layers have none by design, and only so many are named."""
    return member[0].endswith("bias")


def _row(weight_set: Any, name: str | None, state: str, count: int, shape: str | None) -> dict[str, Any]:
    return {
        "weight_set": weight_set,
        "tensor_name": name,
        "gradient_state": state,
        "parameter_count": count,
        "shape": shape,
    }


def import_order_notes() -> list[dict[str, str]]:
    """Rows of the table ``agent_notes``: extensions that were imported after what they have to come before."""
    order = {name: place for place, name in enumerate(list(sys.modules))}
    notes = []
    for extension, later in _FIRST.items():
        before = [name for name in later if name in order and order[name] < order.get(extension, -1)]
        if before:
            text = "%s was imported after %s" % (extension, ", ".join(before))
            notes.append({"note": "import-order", "text": text})
    return notes
